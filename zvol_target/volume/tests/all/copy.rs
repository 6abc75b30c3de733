// SPDX-License-Identifier: Apache-2.0
//! Copies between real files, and inside one: the resulting data and the report.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use crate::common::{Mounted, Tmpfs, is_root, on_each_engine, open, pattern, sparse_file};
use volume::copy::{
    Cancelled, CopyError, CopyRange, CopyReport, FallbackReason, Step, Steps, copy,
};
use volume::{
    Allocation, Buffer, Geometry, LocalBoxFuture, OpenOptions, Stability, Volume, VolumeError,
};

const MIB: u64 = 1 << 20;
const SIZE: u64 = 12 * MIB;

/// Records the locked steps, and the number of locks that are held.
#[derive(Default)]
struct Recorded {
    steps: RefCell<Vec<Step>>,
    held: Rc<Cell<usize>>,
    most_held: Cell<usize>,
    /// Number of steps that are permitted.
    most: Option<usize>,
}

struct Held(Rc<Cell<usize>>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Steps for Recorded {
    fn lock(&self, step: Step) -> LocalBoxFuture<'_, Result<Box<dyn Any>, Cancelled>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let mut steps = self.steps.borrow_mut();
            if self.most == Some(steps.len()) {
                return Err(Cancelled);
            }
            steps.push(step);
            self.held.set(self.held.get() + 1);
            self.most_held
                .set(self.most_held.get().max(self.held.get()));
            Ok(Box::new(Held(Rc::clone(&self.held))) as Box<dyn Any>)
        })
    }
}

async fn content(volume: &dyn Volume) -> Vec<u8> {
    let size = volume.geometry().size_bytes as usize;
    volume.read(0, Buffer::new(size)).await.unwrap().to_vec()
}

async fn fill(volume: &dyn Volume, seed: u8) {
    let data = pattern(volume.geometry().size_bytes as usize, seed);
    volume.write(0, data, Stability::Stable).await.unwrap();
}

/// Copies a range and checks the whole destination.
async fn check(range: &CopyRange) -> (CopyReport, Recorded) {
    let source = content(&*range.source).await;
    let mut expected = content(&*range.destination).await;
    let [from, to, length] =
        [range.source_offset, range.destination_offset, range.length].map(|bytes| bytes as usize);
    expected[to..to + length].copy_from_slice(&source[from..from + length]);
    let steps = Recorded::default();
    let mut report = CopyReport::default();
    copy(range, Stability::Stable, &steps, &mut report)
        .await
        .unwrap();
    assert!(content(&*range.destination).await == expected);
    assert_eq!(report.total_bytes(), range.length, "{report:?}");
    assert!(steps.held.get() == 0 && steps.most_held.get() <= 4);
    (report, steps)
}

fn range(
    source: &Arc<dyn Volume>,
    from: u64,
    destination: &Arc<dyn Volume>,
    to: u64,
    length: u64,
) -> CopyRange {
    CopyRange {
        source: Arc::clone(source),
        source_offset: from,
        destination: Arc::clone(destination),
        destination_offset: to,
        length,
    }
}

fn two(directory: &Path) -> [Arc<dyn Volume>; 2] {
    ["one", "other"].map(|name| {
        let folder = directory.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        open(&sparse_file(&folder, SIZE), OpenOptions::default())
    })
}

#[test]
fn blocks_that_cannot_be_cloned_are_read_and_written() {
    // A file system such as ext4.
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    on_each_engine(async || {
        let [source, other] = two(directory.path());
        fill(&*source, 1).await;
        fill(&*other, 2).await;
        for (from, to, length) in [
            (0, 0, SIZE),
            (512, 1024, 3 * MIB),
            (MIB - 512, 2 * MIB + 512, 512),
            (SIZE - MIB, 0, MIB),
            (5, 0, 0),
        ] {
            let copied = range(&source, from, &other, to, length);
            let (report, _) = check(&copied).await;
            assert_eq!(report.cloned_bytes, 0);
            let fallback: u64 = report.fallback_bytes.iter().sum();
            assert_eq!(fallback, length, "{report:?}");
        }
    });
}

#[test]
fn holes_and_zeroes_become_holes() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    on_each_engine(async || {
        let [source, other] = two(directory.path());
        fill(&*other, 2).await;
        fill(&*source, 1).await;
        source.clear(MIB, 4 * MIB, Stability::Stable).await.unwrap();
        // Zeroes as data, most of them in whole granules.
        let zeroes = Buffer::zeroed(2 * MIB as usize);
        let write = source.write(8 * MIB + 512, zeroes, Stability::Stable);
        write.await.unwrap();
        let (report, _) = check(&range(&source, 0, &other, 0, SIZE)).await;
        assert!(report.zeroed_bytes >= 6 * MIB - (128 << 10), "{report:?}");
        assert_eq!(report.zeroed_bytes + report.copied_bytes, SIZE);
        other.flush().await.unwrap();
        let map = other.allocation(MIB, 4 * MIB, 9).await.unwrap();
        assert_eq!(map.len(), 1);
        assert_eq!(map[0].allocation, Allocation::Hole);
        let map = other
            .allocation(8 * MIB + (64 << 10), MIB, 9)
            .await
            .unwrap();
        assert_eq!(map[0].allocation, Allocation::Hole);
    });
}

#[test]
fn on_xfs_blocks_are_shared_and_edges_copied() {
    if !is_root() {
        return;
    }
    let xfs = Mounted::new("mkfs.xfs", &["-q", "-m", "reflink=1"], 320 << 20);
    on_each_engine(async || {
        let [source, other] = two(xfs.path());
        fill(&*source, 1).await;
        fill(&*other, 2).await;
        let before = xfs.free();
        let (report, steps) = check(&range(&source, 0, &other, 0, SIZE)).await;
        assert_eq!(report.cloned_bytes, SIZE, "{report:?}");
        assert!(
            xfs.free() >= before + SIZE - MIB,
            "the old blocks are freed"
        );
        assert!(
            steps
                .steps
                .borrow()
                .iter()
                .all(|step| step.length <= 4 * MIB)
        );
        // The volumes are independent from then on.
        fill(&*source, 3).await;
        assert!(content(&*other).await[..] == pattern(SIZE as usize, 1)[..]);

        let (report, _) = check(&range(&source, 512, &other, 4096 + 512, 2 * MIB)).await;
        assert_eq!(report.cloned_bytes, 2 * MIB - 4096);
        assert_eq!(
            report.fallback_bytes[FallbackReason::Unaligned as usize],
            4096
        );
        let (report, _) = check(&range(&source, 512, &other, 0, MIB)).await;
        assert_eq!(
            report.fallback_bytes[FallbackReason::Unaligned as usize],
            MIB
        );
        let (report, _) = check(&range(&source, 0, &other, 4096, 512)).await;
        assert_eq!((report.copied_bytes, report.cloned_bytes), (512, 0));

        // A hole of the source becomes a hole.
        source
            .clear(4 * MIB, 4 * MIB, Stability::Stable)
            .await
            .unwrap();
        let (report, _) = check(&range(&source, 0, &other, 0, SIZE)).await;
        assert_eq!(
            (report.cloned_bytes, report.zeroed_bytes),
            (8 * MIB, 4 * MIB)
        );
        assert_eq!(report.fallback_bytes.iter().sum::<u64>(), 0);
    });
}

#[test]
fn between_file_systems_it_says_so() {
    if !is_root() {
        return;
    }
    let xfs = Mounted::new("mkfs.xfs", &["-q", "-m", "reflink=1"], 320 << 20);
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    on_each_engine(async || {
        let [source, _] = two(xfs.path());
        let [_, other] = two(directory.path());
        fill(&*source, 1).await;
        let (report, _) = check(&range(&source, 0, &other, 0, SIZE)).await;
        assert_eq!(
            report.fallback_bytes[FallbackReason::OtherPool as usize],
            SIZE
        );
    });
}

#[test]
fn an_error_says_which_side_and_the_report_how_far() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let small = Tmpfs::new(6 * MIB);
    on_each_engine(async || {
        let [source, _] = two(directory.path());
        fill(&*source, 1).await;
        let other = open(&sparse_file(small.0.path(), SIZE), OpenOptions::default());
        other.clear(0, SIZE, Stability::Stable).await.unwrap();
        let mut report = CopyReport::default();
        let steps = Recorded::default();
        let whole = range(&source, 0, &other, 0, SIZE);
        let full = copy(&whole, Stability::Stable, &steps, &mut report).await;
        assert!(
            matches!(full, Err(CopyError::Destination(VolumeError::OutOfSpace))),
            "{full:?}"
        );
        assert_eq!(steps.held.get(), 0);
        let done = report.total_bytes() as usize;
        assert!((1 << 20..7 << 20).contains(&done), "{done}");
        assert!(content(&*other).await[..done] == pattern(SIZE as usize, 1)[..done]);

        // The source file is shortened without the volume.
        let path = directory.path().join("one/volume");
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_len(3 * MIB).unwrap();
        let folder = tempfile::tempdir_in(directory.path()).unwrap();
        let third = open(&sparse_file(folder.path(), SIZE), OpenOptions::default());
        let mut report = CopyReport::default();
        let whole = range(&source, 0, &third, 0, SIZE);
        let ended = copy(&whole, Stability::Stable, &steps, &mut report).await;
        assert!(matches!(ended, Err(CopyError::Source(_))), "{ended:?}");
        assert!(report.total_bytes() <= 3 * MIB);
        file.set_len(SIZE).unwrap();
    });
}

/// A volume whose disk is full at the time of the flush.
struct Unflushed(Arc<dyn Volume>);

impl Volume for Unflushed {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn read(&self, offset: u64, buffer: Buffer) -> LocalBoxFuture<'_, Result<Buffer, VolumeError>> {
        self.0.read(offset, buffer)
    }

    fn write(
        &self,
        offset: u64,
        buffer: Buffer,
        stability: Stability,
    ) -> LocalBoxFuture<'_, Result<(), VolumeError>> {
        self.0.write(offset, buffer, stability)
    }

    fn flush(&self) -> LocalBoxFuture<'_, Result<(), VolumeError>> {
        Box::pin(async { Err(VolumeError::OutOfSpace) })
    }
}

#[test]
fn unstable_data_is_not_reported_as_copied() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    on_each_engine(async || {
        let [source, other] = two(directory.path());
        fill(&*source, 1).await;
        let other: Arc<dyn Volume> = Arc::new(Unflushed(other));
        let earlier = CopyReport {
            copied_bytes: MIB,
            ..CopyReport::default()
        };
        let whole = range(&source, 0, &other, 0, SIZE);
        for most in [None, Some(3)] {
            let steps = Recorded {
                most,
                ..Recorded::default()
            };
            let mut report = earlier.clone();
            let ended = copy(&whole, Stability::Stable, &steps, &mut report).await;
            match ended {
                Err(CopyError::Cancelled(_)) if most.is_some() => {}
                Err(CopyError::Destination(VolumeError::OutOfSpace)) if most.is_none() => {}
                other => panic!("{other:?}"),
            }
            assert_eq!(report, earlier);

            let mut report = earlier.clone();
            let steps = Recorded {
                most,
                ..Recorded::default()
            };
            let _ = copy(&whole, Stability::Cached, &steps, &mut report).await;
            assert!(report.total_bytes() > MIB);
        }
    });
}

#[test]
fn a_copy_is_cancelled_before_a_step() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    on_each_engine(async || {
        let [source, other] = two(directory.path());
        fill(&*source, 1).await;
        other.clear(0, SIZE, Stability::Stable).await.unwrap();
        let steps = Recorded {
            most: Some(3),
            ..Recorded::default()
        };
        let mut report = CopyReport::default();
        let whole = range(&source, 0, &other, 0, SIZE);
        let ended = copy(&whole, Stability::Stable, &steps, &mut report).await;
        assert!(matches!(ended, Err(CopyError::Cancelled(_))));
        // The first lock was for a clone, which this file system refused.
        assert_eq!((report.total_bytes(), steps.held.get()), (2 * MIB, 0));
    });
}
