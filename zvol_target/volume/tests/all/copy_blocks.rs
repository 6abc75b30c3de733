// SPDX-License-Identifier: Apache-2.0
//! Copies between volumes with blocks of different lengths, and of blocks that are aligned differently, compared with a model.

use std::any::Any;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::common::{Mounted, is_root, on_each_engine, open, pattern, runtime, sparse_file};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use volume::copy::{Cancelled, CopyRange, CopyReport, FallbackReason, Step, Steps, copy};
use volume::engine::{self, EngineChoice};
use volume::{
    Allocation, Buffer, Extent, Geometry, LocalBoxFuture, OpenOptions, Stability, Volume,
    VolumeError,
};

const MIB: u64 = 1 << 20;
const SIZE: u64 = 8 * MIB;

/// A volume with logical blocks of this length. Like a device, it refuses everything else.
struct Blocks(Arc<dyn Volume>, u32);

impl Blocks {
    fn check(&self, offset: u64, length: u64) -> Result<(), VolumeError> {
        let block = u64::from(self.1);
        if offset % block == 0 && length % block == 0 {
            return Ok(());
        }
        Err(VolumeError::OutOfRange {
            offset,
            length,
            size_bytes: SIZE,
        })
    }
}

impl Volume for Blocks {
    fn geometry(&self) -> Geometry {
        Geometry {
            logical_block_bytes: self.1,
            ..self.0.geometry()
        }
    }

    fn read(&self, offset: u64, buffer: Buffer) -> LocalBoxFuture<'_, Result<Buffer, VolumeError>> {
        Box::pin(async move {
            self.check(offset, buffer.len() as u64)?;
            self.0.read(offset, buffer).await
        })
    }

    fn write(
        &self,
        offset: u64,
        buffer: Buffer,
        stability: Stability,
    ) -> LocalBoxFuture<'_, Result<(), VolumeError>> {
        Box::pin(async move {
            self.check(offset, buffer.len() as u64)?;
            self.0.write(offset, buffer, stability).await
        })
    }

    fn flush(&self) -> LocalBoxFuture<'_, Result<(), VolumeError>> {
        self.0.flush()
    }

    fn unmap_granularity(&self) -> Option<u32> {
        self.0.unmap_granularity()
    }

    fn clear(
        &self,
        offset: u64,
        length: u64,
        stability: Stability,
    ) -> LocalBoxFuture<'_, Result<(), VolumeError>> {
        Box::pin(async move {
            self.check(offset, length)?;
            self.0.clear(offset, length, stability).await
        })
    }

    fn has_allocation_map(&self) -> bool {
        true
    }

    fn allocation(
        &self,
        offset: u64,
        length: u64,
        most: usize,
    ) -> LocalBoxFuture<'_, Result<Vec<Extent>, VolumeError>> {
        Box::pin(async move {
            self.check(offset, length)?;
            self.0.allocation(offset, length, most).await
        })
    }
}

struct NoLocks;

impl Steps for NoLocks {
    fn lock(&self, _: Step) -> LocalBoxFuture<'_, Result<Box<dyn Any>, Cancelled>> {
        Box::pin(async { Ok(Box::new(()) as Box<dyn Any>) })
    }
}

async fn content(volume: &dyn Volume) -> Vec<u8> {
    let whole = volume.read(0, Buffer::new(SIZE as usize)).await;
    whole.unwrap().to_vec()
}

/// Fills a volume with data that depends on its position, except for the holes.
async fn fill(volume: &dyn Volume, seed: u8, holes: &[Range<u64>]) {
    let data = pattern(SIZE as usize, seed);
    volume.write(0, data, Stability::Stable).await.unwrap();
    for hole in holes {
        let length = hole.end - hole.start;
        let unmapped = volume.clear(hole.start, length, Stability::Stable);
        unmapped.await.unwrap();
    }
}

/// Copies a range, and checks the whole destination.
async fn check(
    source: &Arc<dyn Volume>,
    from: u64,
    destination: &Arc<dyn Volume>,
    to: u64,
    length: u64,
) -> CopyReport {
    let mut expected = content(&**destination).await;
    let data = content(&**source).await;
    let [first, at, bytes] = [from, to, length].map(|bytes| bytes as usize);
    expected[at..at + bytes].copy_from_slice(&data[first..first + bytes]);
    let range = CopyRange {
        source: Arc::clone(source),
        source_offset: from,
        destination: Arc::clone(destination),
        destination_offset: to,
        length,
    };
    let mut report = CopyReport::default();
    copy(&range, Stability::Stable, &NoLocks, &mut report)
        .await
        .unwrap();
    let actual = content(&**destination).await;
    assert!(actual == expected, "{from} to {to}, {length} bytes");
    assert_eq!(report.total_bytes(), length, "{report:?}");
    report
}

fn volume_in(directory: &Path, name: &str, block: u32) -> Arc<dyn Volume> {
    let folder = directory.join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let volume = open(&sparse_file(&folder, SIZE), OpenOptions::default());
    Arc::new(Blocks(volume, block))
}

#[test]
fn whole_blocks_of_other_lengths_are_copied_wherever_they_begin() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    on_each_engine(async || {
        for (source_block, destination_block) in [(512, 4096), (4096, 512)] {
            let source = volume_in(directory.path(), "source", source_block);
            let destination = volume_in(directory.path(), "destination", destination_block);
            // A hole whose edges are not multiples of 4096 in the destination.
            fill(&*source, 1, std::slice::from_ref(&(MIB..3 * MIB))).await;
            let [odd_source, odd_destination] = if source_block == 512 {
                [512 * 3, 4096]
            } else {
                [4096, 512 * 3]
            };
            for length in [4096, MIB, 5 * MIB + 4096] {
                fill(&*destination, 2, &[]).await;
                let report =
                    check(&source, odd_source, &destination, odd_destination, length).await;
                let hole = if length < 2 * MIB { 0 } else { MIB };
                assert!(report.zeroed_bytes >= hole, "{report:?}");
            }
        }
    });
}

#[test]
fn a_map_of_many_short_extents_ends_in_whole_blocks() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    on_each_engine(async || {
        let source = volume_in(directory.path(), "source", 512);
        let destination = volume_in(directory.path(), "destination", 4096);
        let holes: Vec<_> = (0..300).map(|at| at * 8192..at * 8192 + 4096).collect();
        fill(&*source, 1, &holes).await;
        fill(&*destination, 2, &[]).await;
        check(&source, 512 * 3, &destination, 4096, 5 * MIB).await;
    });
}

#[test]
fn blocks_are_copied_between_any_volumes_and_over_holes() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let blocks = || prop_oneof![Just(512_u32), Just(4096)];
    let length = prop_oneof![1_u64..20, 1_u64..6144].prop_map(|blocks| blocks * 512);
    // Often at a block of 4096, and often with the same alignment.
    let offset = || {
        let any = (0_u64..8192).prop_map(|block| block * 512);
        let block = (0_u64..1024).prop_map(|block| block * 4096);
        prop_oneof![any, block]
    };
    let hole = (0_u64..1900, 1_u64..100).prop_map(|(at, length)| at * 4096..(at + length) * 4096);
    let holes = prop::collection::vec(hole, 0..3);
    let same = any::<bool>();
    let case = (blocks(), blocks(), offset(), offset(), length, holes, same);
    let config = ProptestConfig {
        cases: 50,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let runtime = runtime();
    runtime.block_on(async { engine::start(EngineChoice::Automatic).map(drop).unwrap() });
    let mut runner = TestRunner::new(config);
    let ran = runner.run(&case, |(first, other, from, to, length, holes, same)| {
        runtime.block_on(async {
            let source = volume_in(directory.path(), "source", first);
            fill(&*source, 1, &holes).await;
            // Whole blocks of the destination.
            let block = u64::from(if same { first } else { other });
            let (to, length) = (to - to % block, length.next_multiple_of(block));
            if same {
                if from.abs_diff(to) >= length {
                    check(&source, from, &source, to, length).await;
                }
            } else {
                let destination = volume_in(directory.path(), "destination", other);
                fill(&*destination, 2, &[]).await;
                check(&source, from, &destination, to, length).await;
            }
        });
        Ok(())
    });
    ran.unwrap();
}

#[test]
fn a_hole_of_the_source_stays_a_hole_in_whole_blocks() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    on_each_engine(async || {
        let source = volume_in(directory.path(), "source", 512);
        let destination = volume_in(directory.path(), "destination", 4096);
        fill(&*source, 1, std::slice::from_ref(&(MIB..5 * MIB))).await;
        fill(&*destination, 2, &[]).await;
        check(&source, 4608, &destination, 4096, 6 * MIB).await;
        destination.flush().await.unwrap();
        let map = destination.allocation(MIB, 3 * MIB, 9).await.unwrap();
        assert_eq!(map.len(), 1, "{map:?}");
        assert_eq!(map[0].allocation, Allocation::Hole);
    });
}

#[test]
fn blocks_between_edges_that_are_aligned_alike_are_shared() {
    if !is_root() {
        return;
    }
    let xfs = Mounted::new("mkfs.xfs", &["-q", "-m", "reflink=1"], 320 << 20);
    on_each_engine(async || {
        let [source, destination] = ["one", "other"].map(|name| {
            let folder = xfs.path().join(name);
            std::fs::create_dir_all(&folder).unwrap();
            open(&sparse_file(&folder, SIZE), OpenOptions::default())
        });
        fill(&*source, 1, &[]).await;
        fill(&*destination, 2, &[]).await;
        let report = check(&source, 4608, &destination, 8704, 2 * MIB).await;
        assert_eq!(report.cloned_bytes, 2 * MIB - 4096, "{report:?}");
        let unaligned = report.fallback_bytes[FallbackReason::Unaligned as usize];
        assert_eq!(unaligned, 4096);
        let report = check(&source, 512, &destination, 1024, MIB).await;
        assert_eq!((report.cloned_bytes, report.copied_bytes), (0, MIB));
    });
}
