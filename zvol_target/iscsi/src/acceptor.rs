// SPDX-License-Identifier: Apache-2.0
//! The thread that accepts connections, and assigns sessions to reactors.

use std::io;
use std::net::TcpListener;
use std::sync::{Arc, mpsc as blocking};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::sleep;
use tracing::warn;

use crate::reactor::new_runtime;
use crate::spread::Spread;

/// Pause after accept fails for lack of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The thread that accepts connections. Dropping it ends the thread.
pub(crate) struct Acceptor {
    runtime: Handle,
    spread: Arc<Spread>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// An open portal. Dropping it closes the portal; its address is free when the drop returns.
pub(crate) struct Listening {
    close: Option<oneshot::Sender<()>>,
    closed: blocking::Receiver<()>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.close = None;
        // No message is sent: it returns when the sender is dropped, with the listener or with the runtime.
        let _ = self.closed.recv();
    }
}

impl Acceptor {
    pub fn start(spread: Spread, load_interval: Duration) -> io::Result<Self> {
        let runtime = new_runtime()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::Builder::new()
            .name("iscsi-accept".into())
            .spawn(move || {
                // Ready when the sender is dropped; listeners end with the runtime.
                let _ = runtime.block_on(stopped);
            })?;
        let spread = Arc::new(spread);
        let measured = Arc::clone(&spread);
        handle.spawn(async move { measured.keep_measuring(load_interval).await });
        Ok(Self {
            runtime: handle,
            spread,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Accepts connections of a portal.
    pub fn listen(&self, listener: TcpListener, group_tag: u16) -> io::Result<Listening> {
        let _inside = self.runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let (close, to_close) = oneshot::channel::<()>();
        let (open, closed) = blocking::channel();
        let spread = Arc::clone(&self.spread);
        self.runtime.spawn(async move {
            tokio::select! {
                _ = to_close => {}
                () = accept(listener, group_tag, &spread) => {}
            }
            // The listener is dropped.
            drop(open);
        });
        Ok(Listening {
            close: Some(close),
            closed,
        })
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: tokio::net::TcpListener, group_tag: u16, spread: &Spread) {
    loop {
        match listener
            .accept()
            .await
            .and_then(|(stream, peer)| Ok((stream.into_std()?, peer.ip())))
        {
            Ok((stream, peer)) => spread.give(stream, peer, group_tag),
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
