// SPDX-License-Identifier: Apache-2.0
//! Volumes that may not allocate new space.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Tmpfs, is_root, on_each_engine, open, pattern, sparse_file};
use volume::{Buffer, Growth, OpenOptions, Stability, Volume, VolumeError};

const SIZE: u64 = 8 << 20;
const MIB: u64 = 1 << 20;

/// Only the second MiB of `volume` is data.
async fn exercise(volume: Arc<dyn Volume>) {
    let stable = Stability::Stable;
    let write = |offset, data| volume.write(offset, data, stable);
    write(MIB, pattern(MIB as usize, 1)).await.unwrap();
    volume.set_growth(Growth::Refused);
    for (offset, length) in [(0, 512), (MIB - 512, 1024), (2 * MIB - 4096, 8192)] {
        let refused = write(offset, pattern(length, 2)).await;
        assert!(
            matches!(refused, Err(VolumeError::OutOfSpace)),
            "{length} bytes at {offset}: {refused:?}"
        );
    }
    for (offset, length) in [(MIB, 512), (2 * MIB - 65536, 65536)] {
        write(offset, pattern(length, 3)).await.unwrap();
    }
    // A refused write has written nothing.
    let read = volume.read(0, Buffer::new(MIB as usize)).await.unwrap();
    assert!(read.iter().all(|&byte| byte == 0));
    let read = volume.read(MIB, Buffer::new(512)).await.unwrap();
    assert_eq!(read[..], pattern(512, 3)[..]);
    volume.clear(MIB, MIB / 2, stable).await.unwrap();
    volume.clear(4 * MIB, MIB, stable).await.unwrap();
    volume.set_growth(Growth::Limited(MIB));
    write(0, pattern(MIB as usize, 4)).await.unwrap();
    // Overwrites succeed. A write that needs new space waits for the next grant.
    write(0, pattern(MIB as usize, 4)).await.unwrap();
    let mut waiting = pin!(write(4 * MIB, pattern(MIB as usize, 5)));
    let waited = tokio::time::timeout(Duration::from_millis(50), waiting.as_mut()).await;
    assert!(waited.is_err(), "{waited:?}");
    volume.set_growth(Growth::Limited(MIB));
    waiting.await.unwrap();
    let mut waiting = pin!(write(5 * MIB, pattern(MIB as usize, 5)));
    let waited = tokio::time::timeout(Duration::from_millis(50), waiting.as_mut()).await;
    assert!(waited.is_err(), "{waited:?}");
    volume.set_growth(Growth::Refused);
    let refused = waiting.await;
    assert!(matches!(refused, Err(VolumeError::OutOfSpace)));
    volume.set_growth(Growth::Allowed);
    write(5 * MIB, pattern(MIB as usize, 5)).await.unwrap();
    volume.clear(4 * MIB, 2 * MIB, stable).await.unwrap();
}

#[test]
fn a_file_overwrites_and_unmaps_but_takes_no_more() {
    on_each_engine(|| async {
        let directory = tempfile::tempdir().unwrap();
        let path = sparse_file(directory.path(), SIZE);
        let volume = open(&path, OpenOptions::default());
        exercise(Arc::clone(&volume)).await;
        let space = volume.space().await.unwrap().unwrap();
        assert!((MIB..=2 * MIB).contains(&space.used_bytes), "{space:?}");
    });
}

#[test]
fn a_full_file_system_is_out_of_space_and_says_so() {
    if !is_root() {
        return;
    }
    on_each_engine(|| async {
        let tmpfs = Tmpfs::new(SIZE / 2);
        let path = sparse_file(tmpfs.0.path(), SIZE);
        let volume = open(&path, OpenOptions::default());
        let before = volume.space().await.unwrap().unwrap();
        assert_eq!(before.available_bytes, SIZE / 2);
        let full = volume
            .write(0, pattern(SIZE as usize, 1), Stability::Stable)
            .await;
        assert!(matches!(full, Err(VolumeError::OutOfSpace)), "{full:?}");
        let after = volume.space().await.unwrap().unwrap();
        assert_eq!(after.available_bytes, 0);
        assert!(after.used_bytes >= SIZE / 2 - MIB);
    });
}
