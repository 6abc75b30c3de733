// SPDX-License-Identifier: Apache-2.0
//! The move of a session to another reactor.
//!
//! A session moves between two commands, so that the path of a command needs no lock. Its command window is held until the
//! initiator has used it up and all commands have ended.

use std::future::Future as _;
use std::io;
use std::net;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::sleep;
use tracing::debug;

use super::Inbound;
use super::connection::{Attachment, Connection};
use super::receive::Incoming;
use super::text::TextNegotiation;
use super::window::CommandWindow;
use crate::login::NegotiatedParameters;
use crate::registry::{Registration, Registry, SessionRecord};

/// How long the window may be closed. A command that runs longer prevents the move.
const END_OF_COMMANDS: Duration = Duration::from_millis(250);

/// What a session without commands consists of.
pub(super) struct Session {
    /// Bytes of a PDU that is not complete.
    pub inbound: Inbound,
    pub registration: Registration,
    pub nexus: Option<Attachment>,
    pub parameters: NegotiatedParameters,
    pub window: CommandWindow,
    pub stat_sn: u32,
    pub next_transfer_tag: u32,
    pub text: TextNegotiation,
}

/// A session on its way to another reactor.
pub(crate) struct Moved {
    stream: net::TcpStream,
    session: Session,
}

impl Moved {
    pub fn record(&self) -> &SessionRecord {
        &self.session.registration.record
    }

    /// Continues the session on the calling thread, which is that of `reactor`.
    ///
    /// # Errors
    /// The socket cannot be registered. Then the session has ended.
    pub fn resume(mut self, registry: Arc<Registry>, reactor: usize) -> io::Result<Connection> {
        let stream = TcpStream::from_std(self.stream)?;
        self.session.window.hold(false);
        Ok(Connection::with(stream, registry, reactor, self.session))
    }
}

impl Connection {
    /// Prepares the move if another reactor is to run this session. Ready when it can move.
    pub(super) fn poll_move(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let assigned = &self.registration.record.reactor;
        if assigned.load(Ordering::Relaxed) == self.reactor {
            if self.window.is_held() {
                self.stay(context);
            }
            return Poll::Pending;
        }
        self.window.hold(true);
        if self.is_quiet() {
            return Poll::Ready(());
        }
        if self.window.is_closed() {
            let timeout = || Box::pin(sleep(END_OF_COMMANDS));
            let limit = self.closed.get_or_insert_with(timeout);
            if limit.as_mut().poll(context).is_ready() {
                assigned.store(self.reactor, Ordering::Relaxed);
                self.stay(context);
            }
        }
        Poll::Pending
    }

    fn stay(&mut self, context: &mut Context<'_>) {
        self.closed = None;
        self.window.hold(false);
        // The next turn announces the window.
        context.waker().wake_by_ref();
    }

    /// Whether it has no command, and has received and sent everything.
    fn is_quiet(&self) -> bool {
        self.tasks.is_empty()
            && self.running.is_empty()
            && self.held.is_empty()
            && self.long_data.is_empty()
            && self.outbound.is_empty()
            && matches!(self.incoming, Incoming::Headers)
    }

    /// Takes a quiet session off this reactor.
    pub(super) fn leave(self) -> Option<Moved> {
        match self.stream.into_std() {
            Ok(stream) => Some(Moved {
                stream,
                session: Session {
                    inbound: self.inbound,
                    registration: self.registration,
                    nexus: self.nexus,
                    parameters: self.parameters,
                    window: self.window,
                    stat_sn: self.stat_sn,
                    next_transfer_tag: self.next_transfer_tag,
                    text: self.text,
                },
            }),
            Err(error) => {
                debug!(%error, "a session that moves is lost");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::net::TcpListener;

    use super::*;
    use crate::ServerOptions;
    use crate::login::{Established, SessionType};
    use crate::session::dispatch::Held;

    #[tokio::test]
    async fn a_session_that_is_assigned_back_opens_its_window() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        let registry = Arc::new(Registry::new(ServerOptions::default()));
        let login = Established {
            initiator: "iqn.2001-04.com.example:host".parse().unwrap(),
            isid: [0; 6],
            tsih: 0,
            cid: 0,
            session_type: SessionType::Discovery,
            target: None,
            account: None,
            parameters: NegotiatedParameters::default(),
        };
        let registration = registry.register(&login, address, address).await;
        let session = Session {
            inbound: Inbound::new(),
            registration: registration.ok().unwrap(),
            nexus: None,
            parameters: login.parameters,
            window: CommandWindow::new(1),
            stat_sn: 1,
            next_transfer_tag: 0,
            text: TextNegotiation::default(),
        };
        let mut connection = Connection::with(stream, registry, 0, session);
        connection.held.insert(5, Held::Skipped);
        for (reactor, announced) in [(1, false), (0, true)] {
            let record = &connection.registration.record;
            record.reactor.store(reactor, Ordering::Relaxed);
            let moves = poll_fn(|context| Poll::Ready(connection.poll_move(context))).await;
            assert!(moves.is_pending());
            connection.window.release();
            assert_eq!(connection.window.is_unannounced(), announced);
        }
    }
}
