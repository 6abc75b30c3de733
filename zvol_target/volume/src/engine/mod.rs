// SPDX-License-Identifier: Apache-2.0
//! The I/O engine: how an operation on a file descriptor gets to the kernel and back.
//!
//! A reactor thread calls [`start`] once. From then on its operations go through an `io_uring` of its own, and complete on
//! the thread that submitted them. Where the kernel refuses `io_uring`, or the caller chose so, a pool of threads runs
//! them; so do threads that never called [`start`]; so are run the stable writes of regular files, which `io_uring` would
//! take one by one. Nothing above this module sees the difference.
//!
//! An operation owns its buffer and its file until the kernel is done with both, whether or not anybody still waits.

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

/// Which engine a reactor thread asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// `io_uring` where the kernel has it and allows it, else the thread pool.
    #[default]
    Automatic,
    /// `io_uring` or nothing.
    Uring,
    /// The thread pool.
    ThreadPool,
}

/// Which engine a reactor thread got.
#[derive(Debug)]
pub enum EngineKind {
    /// `io_uring`, with its ring polled by the thread's runtime.
    Uring,
    /// The runtime's blocking threads.
    ThreadPool {
        /// Why not `io_uring`; `None` when the thread pool was requested.
        refusal: Option<EngineError>,
    },
}

/// Why no `io_uring` could be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// `io_uring_setup(2)` failed: ENOSYS on kernels without it, EPERM where the sysctl or a seccomp filter forbids it.
    #[error("io_uring_setup: {0} (see sysctl kernel.io_uring_disabled)")]
    Setup(#[source] io::Error),
    /// The kernel's `io_uring` lacks an operation the engine needs (Linux 5.6 has them all).
    #[error("the kernel's io_uring lacks the operation {0}")]
    LacksOperation(&'static str),
    /// The ring could not be watched by the thread's runtime.
    #[error("cannot watch the io_uring: {0}")]
    Watch(#[source] io::Error),
    /// This thread has an engine already.
    #[error("this thread started its engine before")]
    Started,
}

/// Starts the calling thread's engine; it lives until the thread's runtime shuts down.
///
/// Must be called inside a tokio runtime with I/O and time enabled, where `tokio::task::spawn_local` works (a `LocalRuntime`, or a
/// `LocalSet` on a current-thread runtime).
///
/// # Errors
/// [`EngineError`], with [`EngineChoice::Automatic`] only [`EngineError::Started`].
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
    /// That of read(2), write(2) or fsync(2); `UnexpectedEof` or `WriteZero` when the file ended early.
    pub error: io::Error,
    /// Its buffer, to try again with; `None` when the engine stopped.
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

/// Runs `operation` to its end; the buffer comes back with what was read.
///
/// # Errors
/// [`Failed`].
pub(crate) async fn run(mut operation: Operation) -> Result<Buffer, Failed> {
    if operation.completes_in_memory() {
        let result = operation.run_blocking();
        return operation.finish(result);
    }
    admission::admit(&mut operation).await;
    match uring::current() {
        Some(ring) if !operation.is_serialized_by_uring() => ring.run(operation).await,
        _ => thread_pool::run(operation).await,
    }
}

/// Runs a system call that neither reads nor writes the volume's data into memory, and may take long, in a thread.
///
/// # Errors
/// Those of `work`.
pub(crate) async fn call<T: Send + 'static>(
    backing: &Arc<Backing>,
    work: impl FnOnce(&Backing) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let admission = admission::admission(backing, true).await;
    let of_thread = Arc::clone(backing);
    thread_pool::run_in_thread(move || {
        let result = work(&of_thread);
        drop(admission);
        result
    })
    .await
}
