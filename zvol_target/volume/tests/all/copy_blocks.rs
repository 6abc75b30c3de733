// SPDX-License-Identifier: Apache-2.0
//! Copies of blocks that are aligned differently, over holes, compared with a model.

use std::any::Any;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::common::{Mounted, is_root, on_each_engine, open, pattern, runtime, sparse_file};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use volume::copy::{Cancelled, CopyRange, CopyReport, FallbackReason, Step, Steps, copy};
use volume::engine::{self, EngineChoice};
use volume::{Allocation, Buffer, LocalBoxFuture, OpenOptions, Stability, Volume};

const MIB: u64 = 1 << 20;
const SIZE: u64 = 8 * MIB;

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

fn volume_in(directory: &Path, name: &str) -> Arc<dyn Volume> {
    let folder = directory.join(name);
    std::fs::create_dir_all(&folder).unwrap();
    open(&sparse_file(&folder, SIZE), OpenOptions::default())
}

#[test]
fn a_map_of_many_short_extents_is_copied_whole() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    on_each_engine(async || {
        let source = volume_in(directory.path(), "source");
        let destination = volume_in(directory.path(), "destination");
        let holes: Vec<_> = (0..300).map(|at| at * 8192..at * 8192 + 4096).collect();
        fill(&*source, 1, &holes).await;
        fill(&*destination, 2, &[]).await;
        check(&source, 512 * 3, &destination, 4096, 5 * MIB).await;
    });
}

#[test]
fn any_blocks_are_copied_within_and_between_volumes_and_over_holes() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
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
    let case = (offset(), offset(), length, holes, same);
    let config = ProptestConfig {
        cases: 50,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let runtime = runtime();
    runtime.block_on(async { engine::start(EngineChoice::Automatic).map(drop).unwrap() });
    let mut runner = TestRunner::new(config);
    let ran = runner.run(&case, |(from, to, length, holes, same)| {
        runtime.block_on(async {
            let source = volume_in(directory.path(), "source");
            fill(&*source, 1, &holes).await;
            if same {
                if from.abs_diff(to) >= length {
                    check(&source, from, &source, to, length).await;
                }
            } else {
                let destination = volume_in(directory.path(), "destination");
                fill(&*destination, 2, &[]).await;
                check(&source, from, &destination, to, length).await;
            }
        });
        Ok(())
    });
    ran.unwrap();
}

#[test]
fn a_hole_of_the_source_stays_a_hole() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    on_each_engine(async || {
        let source = volume_in(directory.path(), "source");
        let destination = volume_in(directory.path(), "destination");
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
