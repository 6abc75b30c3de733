// SPDX-License-Identifier: Apache-2.0
//! Tests of a ring whose submissions fail: no operation hangs or is lost.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use tokio::runtime::{Builder, LocalOptions};

use super::{current, start};
use crate::Buffer;
use crate::engine::{Action, Backing, Operation, run};

thread_local! {
    /// Error that the next submissions return; they are not made.
    static FAULT: Cell<Option<Errno>> = const { Cell::new(None) };
    static FAULTS: RefCell<u32> = const { RefCell::new(0) };
}

/// The error for this submission.
pub(super) fn fault() -> Option<io::Error> {
    let fault = FAULT.get()?;
    FAULTS.with_borrow_mut(|count| *count += 1);
    Some(fault.into())
}

/// Runs `body` on a thread with a ring. Does nothing if the kernel does not support `io_uring`.
fn with_ring<F: Future<Output = ()>>(body: impl FnOnce() -> F) {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .unwrap();
    runtime.block_on(async {
        match start() {
            Ok(()) => body().await,
            Err(error) => println!("skipped: {error}"),
        }
    });
    FAULT.set(None);
    FAULTS.set(0);
}

fn backing() -> Arc<Backing> {
    let file = tempfile::tempfile().unwrap();
    file.set_len(1 << 20).unwrap();
    Arc::new(Backing::new(file, None))
}

fn operation(backing: &Arc<Backing>, action: Action, number: u64) -> Operation {
    let mut buffer = Buffer::new(if action == Action::Synchronize {
        0
    } else {
        4096
    });
    buffer.fill(number as u8 + 1);
    let offset = number * buffer.len() as u64;
    Operation::new(Arc::clone(backing), action, offset, buffer, false)
}

/// Writes `count` blocks at once, and reads each back.
async fn write_and_read(backing: &Arc<Backing>, count: u64) {
    let writes: Vec<_> = (0..count)
        .map(|number| {
            let write = operation(backing, Action::WriteStable, number);
            tokio::task::spawn_local(run(write))
        })
        .collect();
    for write in writes {
        write.await.unwrap().unwrap();
    }
    for number in 0..count {
        let mut read = operation(backing, Action::Read, number);
        read.rest().fill(0);
        let data = run(read).await.unwrap();
        assert!(data.iter().all(|&byte| byte == number as u8 + 1));
    }
    run(operation(backing, Action::Synchronize, 0))
        .await
        .unwrap();
}

#[test]
fn a_kernel_short_of_memory_is_retried_while_others_run() {
    with_ring(async || {
        tokio::time::pause();
        let backing = backing();
        FAULT.set(Some(Errno::AGAIN));
        let write = operation(&backing, Action::Write, 3);
        let write = tokio::task::spawn_local(run(write));
        // A second connection takes turns meanwhile.
        for _ in 0..50 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(!write.is_finished());
        let attempts = FAULTS.with_borrow(|count| *count);
        assert!((2..50).contains(&attempts), "{attempts} attempts");
        FAULT.set(None);
        write.await.unwrap().unwrap();
        assert!(current().is_some());
        write_and_read(&backing, 8).await;
    });
}

#[test]
fn operations_of_a_broken_ring_go_to_threads() {
    for errno in [Errno::BADF, Errno::PERM, Errno::NXIO, Errno::INVAL] {
        with_ring(async || {
            let backing = backing();
            write_and_read(&backing, 4).await;
            FAULT.set(Some(errno));
            // More than fit into the submission queue: the others wait for it.
            write_and_read(&backing, 200).await;
            assert!(current().is_none(), "{errno}");
            write_and_read(&backing, 4).await;
        });
    }
}

#[test]
fn dropped_operations_still_run_when_the_ring_breaks() {
    with_ring(async || {
        let backing = backing();
        FAULT.set(Some(Errno::AGAIN));
        let mut write = Box::pin(run(operation(&backing, Action::Write, 5)));
        std::future::poll_fn(|context| {
            assert!(write.as_mut().poll(context).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        drop(write);
        FAULT.set(Some(Errno::BADF));
        let until = Instant::now() + Duration::from_secs(20);
        let mut block = [0; 4096];
        while block != [6; 4096] {
            assert!(Instant::now() < until);
            tokio::task::yield_now().await;
            std::os::unix::fs::FileExt::read_at(backing.file(), &mut block, 5 * 4096).unwrap();
        }
    });
}

#[test]
fn operations_in_the_kernel_end_though_the_ring_broke() {
    with_ring(async || {
        let backing = backing();
        let began: Vec<_> = (0..64)
            .map(|number| {
                let write = operation(&backing, Action::WriteStable, number);
                tokio::task::spawn_local(run(write))
            })
            .collect();
        // Its first turn submits all of them.
        let ring: Rc<_> = current().unwrap();
        while ring.shared.borrow().in_flight == 0 {
            tokio::task::yield_now().await;
            if began.iter().all(tokio::task::JoinHandle::is_finished) {
                break;
            }
        }
        FAULT.set(Some(Errno::BADF));
        let read = operation(&backing, Action::Read, 0);
        assert_eq!(run(read).await.unwrap().len(), 4096);
        for write in began {
            write.await.unwrap().unwrap();
        }
        assert_eq!(ring.shared.borrow().in_flight, 0);
        assert!(ring.shared.borrow().slots.is_empty());
    });
}

#[test]
fn a_ring_that_never_takes_anything_is_given_up() {
    with_ring(async || {
        tokio::time::pause();
        let backing = backing();
        FAULT.set(Some(Errno::AGAIN));
        let write = operation(&backing, Action::Write, 7);
        let began = tokio::time::Instant::now();
        run(write).await.unwrap();
        assert!(began.elapsed() >= Duration::from_secs(5));
        assert!(current().is_none());
    });
}
