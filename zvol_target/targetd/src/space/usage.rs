// SPDX-License-Identifier: Apache-2.0
//! Allocated, shared and unique bytes of a LUN, counted in the pool's block reference table.
//!
//! Counting a large LUN takes seconds to minutes. The caller gets an answer within a second; the count continues.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;
use uuid::Uuid;
use volume::{BlockUsage, Volume, zfs};

use crate::service::{LunState, RunningLun, Shared};

/// How long a caller waits for a count: an answer comes within a second.
const PATIENCE: Duration = Duration::from_millis(900);

/// Counts of one LUN.
#[derive(Default)]
pub struct LunUsage {
    /// The last complete count.
    last: Option<Counted>,
    /// The running count.
    current: Option<Rc<Count>>,
}

/// Bytes of a LUN at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Time of this state.
    pub as_of: SystemTime,
    /// Usage of its blocks.
    pub usage: BlockUsage,
}

/// What is known about the bytes of a LUN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Exact at a time.
    Counted(Counted),
    /// Not counted yet, or it cannot be counted: an upper limit of the allocated bytes, if known.
    AtMost(Option<u64>),
}

#[derive(Default)]
struct Count {
    over: Cell<bool>,
    ended: Notify,
}

/// Usage of the blocks of a LUN; `None` if no LUN with this UUID is served. Waits at most [`PATIENCE`].
pub async fn usage(service: &Shared, uuid: Uuid) -> Option<Usage> {
    let volume = volume_of(service, uuid)?;
    let present = {
        let service = service.borrow();
        let of_lun = service.space.usage.get(&uuid);
        of_lun.and_then(|of_lun| of_lun.current.clone())
    };
    let count = present.unwrap_or_else(|| {
        let count = Rc::<Count>::default();
        let mut usage = service.borrow_mut();
        let of_lun = usage.space.usage.entry(uuid).or_default();
        of_lun.current = Some(Rc::clone(&count));
        let running = run(
            Rc::clone(service),
            uuid,
            Arc::downgrade(&volume),
            Rc::clone(&count),
        );
        tokio::task::spawn_local(running);
        count
    });
    let ended = async {
        while !count.over.get() {
            count.ended.notified().await;
        }
    };
    // Without a result in time, return what is known.
    let _ = tokio::time::timeout(PATIENCE, ended).await;
    let space = &service.borrow().space;
    let last = space.usage.get(&uuid).and_then(|usage| usage.last);
    Some(last.map_or_else(
        || Usage::AtMost(space.luns.get(&uuid).map(|space| space.referenced_bytes)),
        Usage::Counted,
    ))
}

fn volume_of(service: &Shared, uuid: Uuid) -> Option<Arc<dyn Volume>> {
    let service = service.borrow();
    let targets = service.configuration().targets.iter();
    let mut luns = targets.flat_map(|target| target.luns.iter().map(move |lun| (target, lun)));
    let (target, lun) = luns.find(|(_, lun)| lun.uuid == uuid)?;
    match service.running_lun(&target.name, lun.number) {
        Some(RunningLun {
            unit,
            state: LunState::Serving { .. },
        }) => Some(Arc::clone(unit.volume())),
        _ => None,
    }
}

async fn run(service: Shared, uuid: Uuid, volume: Weak<dyn Volume>, count: Rc<Count>) {
    let counted = counted(&volume).await;
    if let Some(of_lun) = service.borrow_mut().space.usage.get_mut(&uuid) {
        // The LUN can have changed in the meantime.
        let is_current = |current: &Rc<Count>| Rc::ptr_eq(current, &count);
        if of_lun.current.as_ref().is_some_and(is_current) {
            of_lun.current = None;
            of_lun.last = counted;
        }
    }
    count.over.set(true);
    count.ended.notify_waiters();
}

/// Counts a whole volume. `None` if it is closed in the meantime.
async fn counted(volume: &Weak<dyn Volume>) -> Option<Counted> {
    let of_pool = volume.upgrade()?;
    // Include clones that were made a moment ago.
    let sync = move || {
        let dataset = of_pool.dataset();
        drop(of_pool);
        dataset.map(|dataset| zfs::sync(zfs::pool_of(&dataset)))
    };
    if let Err(error) = tokio::task::spawn_blocking(sync).await.ok()?? {
        tracing::warn!(%error, "cannot count the shared blocks of a LUN");
        return None;
    }
    let as_of = SystemTime::now();
    let usage = count_blocks(volume).await?;
    Some(Counted { as_of, usage })
}

async fn count_blocks(volume: &Weak<dyn Volume>) -> Option<BlockUsage> {
    let mut usage = BlockUsage::default();
    loop {
        let volume = volume.upgrade()?;
        let is_complete = usage.counted_bytes >= volume.geometry().size_bytes;
        let next = if is_complete {
            Ok(None)
        } else {
            volume.usage(usage.counted_bytes).await
        };
        // Its LUN can be deleted by now. The last close of a zvol waits for transaction groups, so in a suspended pool for ever.
        tokio::task::spawn_blocking(move || drop(volume));
        match next {
            _ if is_complete => return Some(usage),
            Ok(next) => usage.add(&next?),
            Err(error) => {
                tracing::warn!(%error, "cannot count the shared blocks of a LUN");
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread::{self, ThreadId};

    use scsi::sam::LocalBoxFuture;
    use tokio::runtime::{Builder, LocalOptions};
    use volume::{Buffer, Geometry, Stability, VolumeError};

    use super::*;

    /// A volume that counts for ever, and reports the thread that closes it.
    struct Counting(mpsc::Sender<ThreadId>);

    impl Volume for Counting {
        fn geometry(&self) -> Geometry {
            Geometry {
                size_bytes: 1 << 20,
                physical_block_bytes: 4096,
            }
        }

        fn read(&self, _: u64, _: Buffer) -> LocalBoxFuture<'_, Result<Buffer, VolumeError>> {
            unreachable!()
        }

        fn write(
            &self,
            _: u64,
            _: Buffer,
            _: Stability,
        ) -> LocalBoxFuture<'_, Result<(), VolumeError>> {
            unreachable!()
        }

        fn flush(&self) -> LocalBoxFuture<'_, Result<(), VolumeError>> {
            unreachable!()
        }

        fn usage(&self, _: u64) -> LocalBoxFuture<'_, Result<Option<BlockUsage>, VolumeError>> {
            Box::pin(async {
                tokio::task::yield_now().await;
                Ok(Some(BlockUsage::default()))
            })
        }
    }

    impl Drop for Counting {
        fn drop(&mut self) {
            self.0.send(thread::current().id()).unwrap();
        }
    }

    #[test]
    fn a_lun_that_is_deleted_while_it_is_counted_closes_on_another_thread() {
        let runtime = Builder::new_current_thread()
            .build_local(LocalOptions::default())
            .unwrap();
        let (sender, closed) = mpsc::channel();
        let volume: Arc<dyn Volume> = Arc::new(Counting(sender));
        let weak = Arc::downgrade(&volume);
        runtime.block_on(async {
            let count = tokio::task::spawn_local(async move { count_blocks(&weak).await });
            // Now a step runs.
            tokio::task::yield_now().await;
            assert!(Arc::strong_count(&volume) > 1);
            drop(volume);
            assert_eq!(count.await.unwrap(), None);
        });
        assert_ne!(closed.recv().unwrap(), thread::current().id());
    }
}
