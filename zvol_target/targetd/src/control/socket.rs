// SPDX-License-Identifier: Apache-2.0
//! The control socket: checks the user of a connection, and reads messages as lines.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use socket2::{Domain, SockAddr, Socket, Type};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use zeroize::Zeroize as _;

use super::allowed_user::AllowedUser;
use super::json_rpc::{Methods, RpcError, answer, code};
use crate::configuration::{FileError, LockFile};

/// Longest message, in bytes.
pub const MOST_MESSAGE_BYTES: u64 = 1 << 20;

/// Connections served at a time; further ones wait.
const MOST_CONNECTIONS: usize = 64;

/// Why the control socket cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error texts name the fields")]
pub enum SocketError {
    /// The path exists and is not a socket.
    #[error("{} exists and is not a socket; remove it or choose another path", path.display())]
    NoSocket { path: PathBuf },
    /// Another daemon has the lock of the socket.
    #[error(transparent)]
    Lock(#[from] FileError),
    /// A process without the lock listens there.
    #[error("another process listens at {}", path.display())]
    InUse { path: PathBuf },
    /// A system call failed.
    #[error("control socket {}: {error}", path.display())]
    System {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
}

/// A listening control socket. Dropping it removes its path.
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
    allowed: Arc<[AllowedUser]>,
    _lock: LockFile,
}

impl ControlSocket {
    /// Listens at `path` for root, the daemon's user and `allowed`. Replaces the socket of a process that has ended. Its mode is
    /// 0600, or 0666 with other users: their number is checked when they connect.
    ///
    /// # Errors
    /// [`SocketError`].
    pub fn bind(path: &Path, allowed: Vec<AllowedUser>) -> Result<Self, SocketError> {
        let lock = LockFile::next_to(path)?;
        remove_stale(path)?;
        for user in allowed.iter().filter(|user| !user.is_known()) {
            tracing::warn!(%user, "--allow-user: this user does not exist yet");
        }
        let mode = if allowed.is_empty() { 0o600 } else { 0o666 };
        let listener = listen(path, mode).map_err(|error| SocketError::System {
            path: path.to_owned(),
            error,
        })?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            allowed: allowed.into(),
            _lock: lock,
        })
    }

    /// Serves connections with `methods` until dropped. Spawns local tasks.
    pub async fn serve(&self, methods: Rc<impl Methods + 'static>) {
        let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                return;
            };
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let methods = Rc::clone(&methods);
                    let allowed = Arc::clone(&self.allowed);
                    tokio::task::spawn_local(async move {
                        if let Err(error) = converse(stream, &*methods, allowed).await {
                            tracing::debug!(%error, "control connection ended");
                        }
                        drop(place);
                    });
                }
                Err(error) => {
                    // Without descriptors or memory: wait until other connections end.
                    tracing::warn!(%error, "control socket: accept");
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
            }
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes a socket without a listener. Every listener would hold the lock.
fn remove_stale(path: &Path) -> Result<(), SocketError> {
    let system = |error| SocketError::System {
        path: path.to_owned(),
        error,
    };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(system(error)),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(SocketError::NoSocket {
                path: path.to_owned(),
            });
        }
        Ok(_) => {}
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(system)
        }
        Err(error) => Err(system(error)),
        Ok(_) => Err(SocketError::InUse {
            path: path.to_owned(),
        }),
    }
}

/// Sets the mode before listening, so that no other user can connect in between.
fn listen(path: &Path, mode: u32) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    socket.listen(16)?;
    socket.set_nonblocking(true)?;
    UnixListener::from_std(std::os::fd::OwnedFd::from(socket).into())
}

/// Whether it is root, the daemon's user or an allowed user.
async fn may_ask(uid: u32, allowed: Arc<[AllowedUser]>) -> bool {
    if uid == 0 || uid == rustix::process::geteuid().as_raw() {
        return true;
    }
    // A lookup can use the network.
    tokio::task::spawn_blocking(move || allowed.iter().any(|user| user.is(uid)))
        .await
        .unwrap_or(false)
}

/// Answers the messages of one connection in order.
async fn converse(
    mut stream: UnixStream,
    methods: &impl Methods,
    allowed: Arc<[AllowedUser]>,
) -> io::Result<()> {
    let peer = stream.peer_cred()?;
    if !may_ask(peer.uid(), allowed).await {
        tracing::warn!(uid = peer.uid(), pid = ?peer.pid(), "control connection refused");
        return Ok(());
    }
    let (receiver, mut sender) = stream.split();
    let mut receiver = BufReader::new(receiver);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut bounded = (&mut receiver).take(MOST_MESSAGE_BYTES + 1);
        if bounded.read_until(b'\n', &mut line).await? == 0 {
            return Ok(());
        }
        let too_long = line.len() as u64 > MOST_MESSAGE_BYTES;
        let answer = if too_long {
            let message = format!("a message has at most {MOST_MESSAGE_BYTES} bytes");
            let error = RpcError::new(code::INVALID_REQUEST, message);
            serde_json::json!({"jsonrpc": "2.0", "id": null, "error": error})
        } else {
            answer(&line, methods).await
        };
        // It can contain a secret.
        line.zeroize();
        let mut answer = serde_json::to_vec(&answer)?;
        answer.push(b'\n');
        sender.write_all(&answer).await?;
        if too_long {
            // The begin of the next message is unknown.
            return Ok(());
        }
    }
}
