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
        let running = run(Rc::clone(service), uuid, volume, Rc::clone(&count));
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

async fn run(service: Shared, uuid: Uuid, volume: Arc<dyn Volume>, count: Rc<Count>) {
    let volume = {
        let weak = Arc::downgrade(&volume);
        drop(volume);
        weak
    };
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
    let dataset = volume.upgrade()?.dataset()?;
    // Include clones that were made a moment ago.
    let synced = tokio::task::spawn_blocking(move || zfs::sync(zfs::pool_of(&dataset))).await;
    if let Err(error) = synced.ok()? {
        tracing::warn!(%error, "cannot count the shared blocks of a LUN");
        return None;
    }
    let as_of = SystemTime::now();
    let mut usage = BlockUsage::default();
    loop {
        let volume = volume.upgrade()?;
        if usage.counted_bytes >= volume.geometry().size_bytes {
            return Some(Counted { as_of, usage });
        }
        match volume.usage(usage.counted_bytes).await {
            Ok(next) => usage.add(&next?),
            Err(error) => {
                tracing::warn!(%error, "cannot count the shared blocks of a LUN");
                return None;
            }
        }
    }
}
