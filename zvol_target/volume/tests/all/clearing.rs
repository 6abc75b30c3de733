// SPDX-License-Identifier: Apache-2.0
//! Unmapping, writing zeroes, and allocation, on real files.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::common::{Tmpfs, is_root, on_each_engine, open, pattern, set_direct, sparse_file};
use volume::{
    Allocation, Buffer, Extent, LOGICAL_BLOCK_BYTES, OpenOptions, Stability, Volume, VolumeError,
};

const SIZE: u64 = 12 << 20;
const MIB: u64 = 1 << 20;

fn stored(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().blocks() * 512
}

async fn fill(volume: &dyn Volume) {
    let whole = pattern(SIZE as usize, 1);
    volume.write(0, whole, Stability::Stable).await.unwrap();
}

/// Reads the whole volume: zeroes in the ranges, the data of `fill` elsewhere.
async fn only_these_are_zero(volume: &dyn Volume, ranges: &[(u64, u64)]) {
    let mut expected = pattern(SIZE as usize, 1);
    for &(offset, length) in ranges {
        expected[offset as usize..(offset + length) as usize].fill(0);
    }
    let actual = volume.read(0, Buffer::new(SIZE as usize)).await.unwrap();
    assert!(actual[..] == expected[..]);
}

/// Clears parts of the volume on the file `path`.
async fn exercise(volume: &dyn Volume, path: &Path) {
    let block = u64::from(LOGICAL_BLOCK_BYTES);
    for stability in [Stability::Cached, Stability::Stable] {
        fill(volume).await;
        volume.flush().await.unwrap();
        let full = stored(path);
        // Whole granules, and edges of single blocks.
        let ranges = [
            (0, 4 * MIB),
            (5 * MIB + block, 2 * MIB),
            (8 * MIB - block, block),
            (9 * MIB + 3 * block, block),
            (SIZE - MIB, MIB),
        ];
        for (offset, length) in ranges {
            volume.clear(offset, length, stability).await.unwrap();
        }
        only_these_are_zero(volume, &ranges).await;
        volume.flush().await.unwrap();
        let left = stored(path);
        assert!(
            left <= full - 6 * MIB,
            "{left} of {full} bytes are still stored"
        );
        // Writing zeroes over zeroes takes no space.
        for (offset, length) in ranges {
            volume.clear(offset, length, stability).await.unwrap();
        }
        volume.flush().await.unwrap();
        assert!(stored(path) <= left, "{} {left}", stored(path));
    }
    let granularity = u64::from(volume.unmap_granularity().unwrap());
    assert!(granularity % block == 0);
    // The whole volume in one call.
    volume.clear(0, SIZE, Stability::Stable).await.unwrap();
    only_these_are_zero(volume, &[(0, SIZE)]).await;
    assert!(stored(path) < MIB);
    volume.clear(SIZE, 0, Stability::Stable).await.unwrap();
    for (offset, length) in [
        (1, block),
        (SIZE, block),
        (0, SIZE + block),
        (u64::MAX - block + 1, block),
    ] {
        let refused = volume.clear(offset, length, Stability::Cached).await;
        assert!(matches!(refused, Err(VolumeError::OutOfRange { .. })));
    }
}

#[test]
fn files() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = sparse_file(directory.path(), SIZE);
    for direct in [false, true] {
        on_each_engine(async || {
            let volume = open(&path, OpenOptions::default());
            if direct {
                set_direct(&path);
            }
            exercise(&*volume, &path).await;
        });
    }
}

#[test]
fn a_file_in_memory() {
    if !is_root() {
        return;
    }
    let tmpfs = Tmpfs::new(2 * SIZE);
    let path = sparse_file(tmpfs.0.path(), SIZE);
    on_each_engine(async || exercise(&*open(&path, OpenOptions::default()), &path).await);
}

#[test]
fn a_read_only_volume_is_not_cleared() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = sparse_file(directory.path(), SIZE);
    on_each_engine(async || {
        let options = OpenOptions { read_only: true };
        let volume = open(&path, options);
        assert_eq!(volume.unmap_granularity(), None);
        let refused = volume.clear(0, MIB, Stability::Cached).await;
        assert!(matches!(refused, Err(VolumeError::ReadOnly)));
    });
}

#[test]
fn the_map_of_a_file_has_exactly_the_written_data() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = sparse_file(directory.path(), SIZE);
    on_each_engine(async || {
        let volume = open(&path, OpenOptions::default());
        volume.clear(0, SIZE, Stability::Stable).await.unwrap();
        for offset in [0, 2 * MIB, 3 * MIB, SIZE - MIB] {
            let data = pattern(MIB as usize, 9);
            volume.write(offset, data, Stability::Cached).await.unwrap();
        }
        let extent = |from, to, allocation| Extent {
            offset: from * MIB,
            length: (to - from) * MIB,
            allocation,
        };
        let all = volume.allocation(0, SIZE, 100).await.unwrap();
        let expected = [
            extent(0, 1, Allocation::Allocated),
            extent(1, 2, Allocation::Hole),
            extent(2, 4, Allocation::Allocated),
            extent(4, 11, Allocation::Hole),
            extent(11, 12, Allocation::Allocated),
        ];
        assert_eq!(all, expected);
        let some = volume.allocation(3 * MIB, 2 * MIB, 1).await.unwrap();
        assert_eq!(some, [extent(3, 4, Allocation::Allocated)]);
        let hole = volume.allocation(5 * MIB, MIB, 5).await.unwrap();
        assert_eq!(hole, [extent(5, 6, Allocation::Hole)]);
        let beyond = volume.allocation(SIZE, 512, 1).await;
        assert!(matches!(beyond, Err(VolumeError::OutOfRange { .. })));
        // The file is shortened without the volume: an error, not a hole.
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_len(MIB).unwrap();
        let gone = volume.allocation(2 * MIB, MIB, 1).await;
        assert!(matches!(gone, Err(VolumeError::Device(_))), "{gone:?}");
        file.set_len(SIZE).unwrap();
    });
}
