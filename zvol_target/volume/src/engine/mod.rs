// SPDX-License-Identifier: Apache-2.0
//! The I/O engine: passes an operation on a file descriptor to the kernel, and its result back.
//!
//! A reactor thread calls [`start`] once. From then on, its operations use the thread's `io_uring` and complete on the thread
//! that submitted them. A pool of threads runs the operations in three cases: the kernel refuses `io_uring` or the caller chose
//! the pool; the thread never called [`start`]; or they are stable writes to regular files, which `io_uring` would run one by
//! one. The rest of the program cannot see the difference.
//!
//! An operation owns its buffer and its file until the kernel is done with both, even if its future was dropped.

mod admission;
mod backing;
mod operation;
mod retry;
mod thread_pool;
mod urgent;
mod uring;

pub use urgent::urgently;

pub(crate) use backing::Backing;
pub(crate) use operation::{Action, Operation};

use std::io;
use std::sync::Arc;

use crate::Buffer;

/// The engine that a reactor thread requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// `io_uring` where the kernel supports and permits it, else the thread pool.
    #[default]
    Automatic,
    /// `io_uring`, or fail.
    Uring,
    /// The thread pool.
    ThreadPool,
}

/// The engine that a reactor thread uses.
#[derive(Debug)]
pub enum EngineKind {
    /// `io_uring`. The thread's runtime polls the ring.
    Uring,
    /// The runtime's blocking threads.
    ThreadPool {
        /// Why `io_uring` is not used; `None` if the thread pool was requested.
        refusal: Option<EngineError>,
    },
}

/// Why `io_uring` cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// `io_uring_setup(2)` failed: EPERM where the sysctl or a seccomp filter forbids it.
    #[error("io_uring_setup: {0} (see sysctl kernel.io_uring_disabled)")]
    Setup(#[source] io::Error),
    /// The thread's runtime could not register the ring.
    #[error("cannot watch the io_uring: {0}")]
    Watch(#[source] io::Error),
    /// This thread already has an engine.
    #[error("this thread started its engine before")]
    Started,
}

/// Starts the calling thread's engine, which runs until the thread's runtime shuts down.
///
/// Must be called inside a tokio runtime with I/O and time enabled, where `tokio::task::spawn_local` works (a `LocalRuntime`, or a
/// `LocalSet` on a current-thread runtime).
///
/// # Errors
/// [`EngineError`]. With [`EngineChoice::Automatic`], only [`EngineError::Started`].
///
/// # Panics
/// Outside a runtime where tasks can be spawned locally.
pub fn start(choice: EngineChoice) -> Result<EngineKind, EngineError> {
    match choice {
        EngineChoice::ThreadPool => Ok(EngineKind::ThreadPool { refusal: None }),
        EngineChoice::Uring => uring::start().map(|()| EngineKind::Uring),
        EngineChoice::Automatic => match uring::start() {
            Ok(()) => Ok(EngineKind::Uring),
            Err(EngineError::Started) => Err(EngineError::Started),
            Err(refusal) => Ok(EngineKind::ThreadPool {
                refusal: Some(refusal),
            }),
        },
    }
}

/// Why an operation failed.
#[derive(Debug)]
pub(crate) struct Failed {
    /// Error of read(2), write(2) or fsync(2). `UnexpectedEof` or `WriteZero` if the file ended early.
    pub error: io::Error,
    /// The operation's buffer, for another try; `None` if the engine stopped.
    pub buffer: Option<Buffer>,
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self {
            error,
            buffer: None,
        }
    }
}

/// Runs `operation` to its end. Returns its buffer, which a read has filled.
///
/// # Errors
/// [`Failed`]; [`given_up`] if the caller gave it up before it began.
pub(crate) async fn run(mut operation: Operation) -> Result<Buffer, Failed> {
    if operation.completes_in_memory() {
        let result = operation.run_blocking();
        return operation.finish(result);
    }
    let admitted = admission::admit(&mut operation).await;
    admitted.ok_or_else(given_up)?;
    match uring::current() {
        Some(ring) if !operation.is_serialized_by_uring() => ring.run(operation).await,
        _ => thread_pool::run(operation).await,
    }
}

/// Error of an operation that was given up before it began ([`crate::unless_given_up`]): that of every wait that ends so.
fn given_up() -> io::Error {
    io::ErrorKind::StorageFull.into()
}

/// Runs a system call in a thread, if it can take long and does not transfer the volume's data.
///
/// # Errors
/// Those of `work`; [`given_up`] if the caller gave it up before it began.
pub(crate) async fn call<T: Send + 'static>(
    backing: &Arc<Backing>,
    work: impl FnOnce(&Backing) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let admission = admission::admission(backing, true).await;
    let admission = admission.ok_or_else(given_up)?;
    let of_thread = Arc::clone(backing);
    thread_pool::run_in_thread(move || {
        let result = work(&of_thread);
        drop(admission);
        result
    })
    .await
}
