//! Leave to share blocks: asked for before any lock, and given back where nothing was shared.

use std::any::Any;
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use crate::common::{on_each_engine, open, pattern, sparse_file};
use volume::copy::{
    Cancelled, CloneEnd, CloneRefusal, CloneStep, CopyRange, CopyReport, FallbackReason, Step,
    Steps, copy,
};
use volume::{
    Allocation, Buffer, CloneLedger, Extent, Geometry, LocalBoxFuture, OpenOptions, Stability,
    Volume, VolumeError,
};

const MIB: u64 = 1 << 20;
const SIZE: u64 = 160 * MIB;

thread_local! {
    static LOCKS: Rc<Cell<usize>> = Rc::default();
}

/// Counts leave; gives no more than `most`.
#[derive(Default)]
struct Account {
    most: u64,
    claims: u64,
    leave: u64,
    shared: u64,
}

struct Ledger(Mutex<Account>);

impl CloneLedger for Ledger {
    fn claim(&self, bytes: u64) -> LocalBoxFuture<'_, bool> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            assert_eq!(LOCKS.with(|locks| locks.get()), 0, "asked for under a lock");
            let mut account = self.0.lock().unwrap();
            account.claims += 1;
            let fits = account.leave + account.shared + bytes <= account.most;
            account.leave += if fits { bytes } else { 0 };
            fits
        })
    }

    fn settle(&self, bytes: u64, shared_bytes: u64) {
        let mut account = self.0.lock().unwrap();
        account.leave -= bytes;
        account.shared += shared_bytes;
    }

    fn replaced(&self) {}
}

/// A volume that can clone, in that it copies. What lies beyond `holes` of the source is a hole to it.
struct Cloning {
    below: Arc<dyn Volume>,
    file: std::fs::File,
    holes: u64,
    ledger: Arc<Mutex<Option<Arc<dyn CloneLedger>>>>,
}

impl Volume for Cloning {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn read(&self, offset: u64, buffer: Buffer) -> LocalBoxFuture<'_, Result<Buffer, VolumeError>> {
        self.below.read(offset, buffer)
    }

    fn write(
        &self,
        offset: u64,
        buffer: Buffer,
        stability: Stability,
    ) -> LocalBoxFuture<'_, Result<(), VolumeError>> {
        self.below.write(offset, buffer, stability)
    }

    fn flush(&self) -> LocalBoxFuture<'_, Result<(), VolumeError>> {
        self.below.flush()
    }

    fn allocation(
        &self,
        offset: u64,
        length: u64,
        _: usize,
    ) -> LocalBoxFuture<'_, Result<Vec<Extent>, VolumeError>> {
        Box::pin(async move {
            let allocation = Allocation::Allocated;
            Ok(vec![Extent {
                offset,
                length,
                allocation,
            }])
        })
    }

    fn clone_ledger(&self) -> Option<Arc<dyn CloneLedger>> {
        self.ledger.lock().unwrap().clone()
    }

    fn clone_end(&self) -> Option<CloneEnd<'_>> {
        Some(CloneEnd::File(std::os::fd::AsFd::as_fd(&self.file)))
    }

    fn clone_range<'a>(
        &'a self,
        offset: u64,
        _: CloneEnd<'a>,
        source_offset: u64,
        length: u64,
    ) -> LocalBoxFuture<'a, Result<CloneStep, CloneRefusal>> {
        Box::pin(async move {
            assert!(LOCKS.with(|locks| locks.get()) > 0);
            let data = pattern(length as usize, 1);
            let written = self.below.write(offset, data, Stability::Cached).await;
            written.unwrap();
            let end = source_offset + length;
            Ok(CloneStep {
                done_bytes: length,
                hole_bytes: end.saturating_sub(self.holes.max(source_offset)),
            })
        })
    }
}

/// Stands in while it is not known whether there is a ledger; the first who asks learns that there is none.
struct StandIn(Arc<Mutex<Option<Arc<dyn CloneLedger>>>>);

impl CloneLedger for StandIn {
    fn claim(&self, _: u64) -> LocalBoxFuture<'_, bool> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.0.lock().unwrap().take();
            false
        })
    }

    fn settle(&self, _: u64, _: u64) {}

    fn replaced(&self) {}
}

struct Locked;

impl Drop for Locked {
    fn drop(&mut self) {
        LOCKS.with(|locks| locks.set(locks.get() - 1));
    }
}

/// Locks, up to so many times.
struct Counted(Cell<usize>);

impl Steps for Counted {
    fn lock(&self, _: Step) -> LocalBoxFuture<'_, Result<Box<dyn Any>, Cancelled>> {
        Box::pin(async move {
            let left = self.0.get().checked_sub(1).ok_or(Cancelled)?;
            self.0.set(left);
            LOCKS.with(|locks| locks.set(locks.get() + 1));
            Ok(Box::new(Locked) as Box<dyn Any>)
        })
    }
}

/// Copies all with `most` bytes of leave and so many steps. What was counted, and what came of it.
async fn copied(directory: &Path, most: u64, holes: u64, steps: usize) -> (Account, CopyReport) {
    let ledger = Arc::new(Ledger(Mutex::new(Account {
        most,
        ..Account::default()
    })));
    let volume = |ledger: Option<Arc<dyn CloneLedger>>| {
        let folder = tempfile::tempdir_in(directory).unwrap().keep();
        let path = sparse_file(&folder, SIZE);
        Arc::new(Cloning {
            below: open(&path, OpenOptions::default()),
            file: std::fs::File::open(&path).unwrap(),
            holes,
            ledger: Arc::new(Mutex::new(ledger)),
        }) as Arc<dyn Volume>
    };
    let range = CopyRange {
        source: volume(None),
        source_offset: 0,
        destination: volume(Some(Arc::clone(&ledger) as _)),
        destination_offset: 0,
        length: SIZE,
    };
    let mut report = CopyReport::default();
    let steps = Counted(Cell::new(steps));
    let _ = copy(&range, Stability::Cached, &steps, &mut report).await;
    drop(range);
    let ledger = Arc::into_inner(ledger).expect("nobody has leave any more");
    (ledger.0.into_inner().unwrap(), report)
}

#[test]
fn leave_is_asked_for_ahead_of_locks_and_given_back() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    on_each_engine(async || {
        let (account, report) = copied(directory.path(), u64::MAX, SIZE, usize::MAX).await;
        assert_eq!((account.leave, account.shared), (0, SIZE));
        assert_eq!(report.cloned_bytes, SIZE);
        assert!(account.claims <= 3, "{} claims", account.claims);
        // Holes share nothing.
        let (account, report) = copied(directory.path(), u64::MAX, SIZE / 2, usize::MAX).await;
        assert_eq!((account.leave, account.shared), (0, SIZE / 2));
        assert_eq!(report.zeroed_bytes, SIZE / 2);
        // A copy that is ended.
        let (account, report) = copied(directory.path(), u64::MAX, SIZE, 3).await;
        assert_eq!((account.leave, account.shared), (0, 12 * MIB));
        assert_eq!(report.cloned_bytes, 12 * MIB);
    });
}

#[test]
fn without_leave_bytes_are_copied() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    on_each_engine(async || {
        let (account, report) = copied(directory.path(), 70 * MIB, SIZE, usize::MAX).await;
        assert_eq!(account.leave, 0);
        assert_eq!(report.cloned_bytes, account.shared);
        assert!(account.shared >= 64 * MIB && account.shared <= 70 * MIB);
        let refused = report.fallback_bytes[FallbackReason::Reservation as usize];
        assert_eq!(refused, SIZE - account.shared);
    });
}

#[test]
fn leave_is_asked_for_anew_where_the_volume_turns_out_to_need_none() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    on_each_engine(async || {
        let ledger = Arc::new(Mutex::new(None));
        *ledger.lock().unwrap() = Some(Arc::new(StandIn(Arc::clone(&ledger))) as _);
        let volume = |ledger| {
            let folder = tempfile::tempdir_in(directory.path()).unwrap().keep();
            let path = sparse_file(&folder, SIZE);
            Arc::new(Cloning {
                below: open(&path, OpenOptions::default()),
                file: std::fs::File::open(&path).unwrap(),
                holes: SIZE,
                ledger,
            }) as Arc<dyn Volume>
        };
        let range = CopyRange {
            source: volume(Arc::default()),
            source_offset: 0,
            destination: volume(ledger),
            destination_offset: 0,
            length: SIZE,
        };
        let mut report = CopyReport::default();
        let steps = Counted(Cell::new(usize::MAX));
        copy(&range, Stability::Cached, &steps, &mut report)
            .await
            .unwrap();
        assert_eq!(report.cloned_bytes, SIZE);
    });
}
