// SPDX-License-Identifier: Apache-2.0
//! Reading, writing and flushing on real files, with each engine.

use std::any::Any;
use std::cell::Cell;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::common::{
    LoopDevice, Tmpfs, is_root, on_each_engine, open, pattern, runtime, set_direct, sparse_file,
};
use volume::engine::{self, EngineChoice, EngineError};
use volume::{Buffer, LOGICAL_BLOCK_BYTES, OpenOptions, Stability, Volume, VolumeError};

const SIZE: u64 = 16 << 20;

async fn exercise(volume: &dyn Volume) {
    let block = LOGICAL_BLOCK_BYTES as usize;
    let end = volume.geometry().size_bytes;
    for (offset, length) in [
        (0, block),
        (block as u64, 7 * block),
        (4 << 20, 3 << 20),
        (end - block as u64, block),
    ] {
        for (seed, stability) in [(1, Stability::Cached), (2, Stability::Stable)] {
            volume
                .write(offset, pattern(length, seed), stability)
                .await
                .unwrap();
            let read = volume.read(offset, Buffer::new(length)).await.unwrap();
            assert!(
                read[..] == pattern(length, seed)[..],
                "{length} at {offset}"
            );
        }
    }
    volume.flush().await.unwrap();
}

async fn refuses_ranges_that_do_not_fit(volume: &dyn Volume) {
    let block = u64::from(LOGICAL_BLOCK_BYTES);
    let end = volume.geometry().size_bytes;
    for (offset, length) in [
        (1, block),
        (0, block - 1),
        (end, block),
        (end - block, 2 * block),
        (u64::MAX - block + 1, block),
    ] {
        let read = volume.read(offset, Buffer::zeroed(length as usize)).await;
        assert!(
            matches!(read, Err(VolumeError::OutOfRange { size_bytes, .. }) if size_bytes == end),
            "read of {length} at {offset}: {read:?}"
        );
        let write = volume
            .write(offset, Buffer::zeroed(length as usize), Stability::Cached)
            .await;
        assert!(matches!(write, Err(VolumeError::OutOfRange { .. })));
    }
}

/// 32 tasks at once, each with separate blocks. Some drop their futures early.
async fn concurrently(volume: std::sync::Arc<dyn Volume>) {
    let volume = Rc::new(volume);
    let tasks: Vec<_> = (0..32_u64)
        .map(|task| {
            let volume = Rc::clone(&volume);
            tokio::task::spawn_local(async move {
                let offset = task * (128 << 10);
                for turn in 0..3_u8 {
                    let seed = task as u8 ^ turn;
                    let write = volume.write(offset, pattern(64 << 10, seed), Stability::Cached);
                    write.await.unwrap();
                    let read = volume.read(offset, Buffer::new(64 << 10)).await.unwrap();
                    assert!(read[..] == pattern(64 << 10, seed)[..]);
                    give_up(volume.read(offset, Buffer::new(64 << 10))).await;
                    let other = offset + (64 << 10);
                    give_up(volume.write(other, pattern(4096, seed), Stability::Stable)).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

/// Polls `future` once, so that its operation runs, and drops it.
async fn give_up<T>(future: impl Future<Output = T>) {
    let mut future = Box::pin(future);
    std::future::poll_fn(|context| {
        let _ = future.as_mut().poll(context);
        std::task::Poll::Ready(())
    })
    .await;
}

#[test]
fn file_through_the_page_cache_and_past_it() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = sparse_file(directory.path(), SIZE);
    for direct in [false, true] {
        on_each_engine(async || {
            let volume = open(&path, OpenOptions::default());
            if direct {
                set_direct(&path);
            }
            assert_eq!(volume.geometry().size_bytes, SIZE);
            exercise(&*volume).await;
            refuses_ranges_that_do_not_fit(&*volume).await;
            concurrently(volume).await;
        });
    }
}

#[test]
fn a_short_operation_does_not_wait_for_all_long_ones() {
    const LONG: u64 = 64;
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = sparse_file(directory.path(), SIZE);
    on_each_engine(async || {
        let volume = open(&path, OpenOptions::default());
        set_direct(&path);
        let ended = Rc::new(Cell::new(0_u64));
        let long: Vec<_> = (0..LONG)
            .map(|number| {
                let (volume, ended) = (volume.clone(), Rc::clone(&ended));
                tokio::task::spawn_local(async move {
                    let offset = (number << 20) % SIZE;
                    let data = pattern(1 << 20, number as u8);
                    let write = volume.write(offset, data, Stability::Stable);
                    write.await.unwrap();
                    ended.set(ended.get() + 1);
                })
            })
            .collect();
        // Behind all of them: tasks run in the order of their start.
        let (volume, ended) = (volume.clone(), Rc::clone(&ended));
        let short = tokio::task::spawn_local(async move {
            let read = volume.read(0, Buffer::new(4096));
            read.await.unwrap();
            ended.get()
        });
        let before = short.await.unwrap();
        assert!(
            before < 3 * LONG / 4,
            "{before} of {LONG} long writes went before"
        );
        for write in long {
            write.await.unwrap();
        }
    });
}

#[test]
fn file_in_memory() {
    if !is_root() {
        return;
    }
    let tmpfs = Tmpfs::new(2 * SIZE);
    let path = sparse_file(tmpfs.0.path(), SIZE);
    on_each_engine(async || {
        let volume = open(&path, OpenOptions::default());
        exercise(&*volume).await;
        refuses_ranges_that_do_not_fit(&*volume).await;
        concurrently(volume).await;
    });
}

#[test]
fn a_full_file_system_is_out_of_space() {
    if !is_root() {
        return;
    }
    // A file on tmpfs is written in place, a file on a small ext4 by the engine.
    let tmpfs = Tmpfs::new(1 << 20);
    let path = sparse_file(tmpfs.0.path(), SIZE);
    on_each_engine(async || {
        let volume = open(&path, OpenOptions::default());
        let write = volume
            .write(0, pattern(2 << 20, 1), Stability::Cached)
            .await;
        assert!(matches!(write, Err(VolumeError::OutOfSpace)), "{write:?}");
        let read = volume.read(2 << 20, Buffer::new(4096)).await.unwrap();
        assert!(read.iter().all(|&byte| byte == 0), "reads still succeed");
    });
    let ext4 = Ext4::new();
    let path = sparse_file(ext4.directory.path(), 64 << 20);
    on_each_engine(async || {
        let volume = open(&path, OpenOptions::default());
        set_direct(&path);
        let write = volume
            .write(0, pattern(40 << 20, 1), Stability::Stable)
            .await;
        assert!(matches!(write, Err(VolumeError::OutOfSpace)), "{write:?}");
    });
}

#[test]
fn after_cached_writes_were_lost_no_flush_succeeds() {
    if !is_root() {
        return;
    }
    on_each_engine(async || {
        let ext4 = Ext4::with_too_little_space();
        let path = sparse_file(ext4.directory.path(), SIZE / 2);
        let volume = open(&path, OpenOptions::default());
        let write = volume.write(0, pattern(2 << 20, 1), Stability::Cached);
        write.await.unwrap();
        let first = volume.flush().await;
        assert!(first.is_err(), "the writes cannot have been stored");
        // The kernel has reported the error once, and reports success from now on.
        for _ in 0..2 {
            let again = volume.flush().await;
            assert!(matches!(again, Err(VolumeError::Device(_))), "{again:?}");
        }
        // `refresh` returns an error, so that the owner opens the volume again, which repairs it.
        assert!(matches!(volume.refresh(), Err(VolumeError::Device(_))));
        drop(volume);
        let volume = open(&path, OpenOptions::default());
        volume.flush().await.unwrap();
        volume.refresh().unwrap();
    });
}

#[test]
fn a_stable_write_without_space_does_not_affect_later_flushes() {
    if !is_root() {
        return;
    }
    let ext4 = Ext4::new();
    let path = sparse_file(ext4.directory.path(), SIZE);
    let filler = ext4.directory.path().join("filler");
    on_each_engine(async || {
        let volume = open(&path, OpenOptions::default());
        let write = volume.write(0, pattern(4096, 1), Stability::Stable);
        write.await.unwrap();
        let full = std::fs::write(&filler, vec![1; SIZE as usize]);
        assert_eq!(full.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
        let rest = pattern((SIZE >> 1) as usize, 1);
        let write = volume.write(SIZE >> 1, rest, Stability::Stable).await;
        assert!(matches!(write, Err(VolumeError::OutOfSpace)), "{write:?}");
        std::fs::remove_file(&filler).unwrap();
        let write = volume.write(0, pattern(4096, 2), Stability::Stable);
        write.await.unwrap();
        volume.flush().await.unwrap();
        let write = volume.write(4096, pattern(4096, 3), Stability::Cached);
        write.await.unwrap();
        volume.flush().await.unwrap();
    });
}

#[test]
fn dirty_pages_of_an_earlier_user_that_cannot_be_stored_fail_flushes() {
    if !is_root() {
        return;
    }
    on_each_engine(async || {
        let ext4 = Ext4::with_too_little_space();
        let path = sparse_file(ext4.directory.path(), SIZE / 2);
        let mut earlier = std::fs::File::options();
        let earlier = earlier.write(true).open(&path).unwrap();
        earlier.write_all_at(&pattern(2 << 20, 1), 0).unwrap();
        let volume = open(&path, OpenOptions::default());
        let flushed = volume.flush().await;
        assert!(
            matches!(flushed, Err(VolumeError::Device(_))),
            "{flushed:?}"
        );
    });
}

#[test]
fn of_many_flushes_at_once_none_hides_the_loss() {
    if !is_root() {
        return;
    }
    on_each_engine(async || {
        let ext4 = Ext4::with_too_little_space();
        let path = sparse_file(ext4.directory.path(), SIZE / 2);
        let volume = open(&path, OpenOptions::default());
        let write = volume.write(0, pattern(2 << 20, 1), Stability::Cached);
        write.await.unwrap();
        // The kernel reports the error to one of them, and success to the others.
        let flushes: Vec<_> = (0..16)
            .map(|number| {
                let volume = volume.clone();
                tokio::task::spawn_local(async move {
                    if number % 4 == 3 {
                        let write = volume.write(0, pattern(512, 1), Stability::Stable);
                        let _ = write.await;
                    }
                    volume.flush().await
                })
            })
            .collect();
        for flush in flushes {
            let result = flush.await.unwrap();
            assert!(result.is_err(), "{result:?}");
        }
    });
}

#[test]
fn a_flush_given_up_is_not_followed_by_a_good_one() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = sparse_file(directory.path(), SIZE);
    on_each_engine(async || {
        let volume = open(&path, OpenOptions::default());
        volume
            .write(0, pattern(4096, 1), Stability::Cached)
            .await
            .unwrap();
        // The kernel never again reports the error that this flush missed.
        give_up(volume.flush()).await;
        let flushed = volume.flush().await;
        assert!(
            matches!(flushed, Err(VolumeError::Device(_))),
            "{flushed:?}"
        );
    });
}

#[test]
fn writers_that_flush_at_once_all_succeed() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = sparse_file(directory.path(), SIZE);
    on_each_engine(async || {
        let volume = open(&path, OpenOptions::default());
        let tasks: Vec<_> = (0..64_u64)
            .map(|task| {
                let volume = volume.clone();
                tokio::task::spawn_local(async move {
                    let data = pattern(4096, task as u8);
                    let write = volume.write(task * 4096, data, Stability::Cached);
                    write.await.unwrap();
                    volume.flush().await.unwrap();
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn a_file_system_that_became_read_only_refuses_writes() {
    if !is_root() {
        return;
    }
    for direct in [false, true] {
        on_each_engine(async || {
            let ext4 = Ext4::new();
            let path = sparse_file(ext4.directory.path(), 1 << 20);
            let volume = open(&path, OpenOptions::default());
            if direct {
                set_direct(&path);
            }
            let write = volume.write(0, pattern(4096, 1), Stability::Stable);
            write.await.unwrap();
            // As after an error of its journal.
            let mut remount = std::process::Command::new("mount");
            remount
                .args(["-o", "remount,abort"])
                .arg(ext4.directory.path());
            assert!(remount.status().unwrap().success());
            let write = volume
                .write(4096, pattern(4096, 2), Stability::Stable)
                .await;
            assert!(
                matches!(write, Err(VolumeError::ReadOnly | VolumeError::Device(_))),
                "{write:?}"
            );
            let read = volume.read(0, Buffer::new(4096)).await.unwrap();
            assert!(read[..] == pattern(4096, 1)[..], "reads still succeed");
        });
    }
}

#[test]
fn a_stable_write_is_on_the_device_when_it_ends_and_a_cached_one_after_the_flush() {
    if !is_root() {
        return;
    }
    let ext4 = Ext4::new();
    let path = sparse_file(ext4.directory.path(), 1 << 20);
    let seed = Cell::new(0);
    on_each_engine(async || {
        let volume = open(&path, OpenOptions::default());
        let unlike_any_before = || {
            seed.set(seed.get() + 1);
            pattern(4096, seed.get())
        };
        let (stable, mut cached) = (unlike_any_before(), unlike_any_before());
        let again = |data: &Buffer| Buffer::from(&data[..]);
        let write = volume.write(0, again(&stable), Stability::Stable);
        write.await.unwrap();
        assert!(ext4.device_holds(&stable));
        // The kernel, or another test's sync(2), can write it at once.
        for attempt in 0.. {
            let write = volume.write(8192, again(&cached), Stability::Cached);
            write.await.unwrap();
            if !ext4.device_holds(&cached) {
                break;
            }
            assert!(attempt < 40, "this test shows nothing here");
            cached = unlike_any_before();
        }
        volume.flush().await.unwrap();
        assert!(ext4.device_holds(&cached));
    });
}

#[test]
fn a_file_system_that_hangs_blocks_only_its_writers() {
    if !is_root() {
        return;
    }
    let ext4 = Ext4::new();
    let overlay = Overlay::new(ext4.directory.path());
    let path = sparse_file(overlay.directory.path(), 1 << 20);
    on_each_engine(async || {
        let volume = open(&path, OpenOptions::default());
        let before = volume.write(0, pattern(4096, 1), Stability::Cached);
        before.await.unwrap();
        let frozen = Frozen::new(ext4.directory.path());
        let mut write = volume.write(0, pattern(4096, 2), Stability::Cached);
        // This thread must not block, or the file system would thaw before the timer is checked.
        let waited = tokio::time::timeout(Duration::from_millis(50), &mut write).await;
        assert!(waited.is_err(), "{waited:?}");
        drop(frozen);
        write.await.unwrap();
    });
}

/// A file system that blocks its writers until it is dropped, or for a minute.
struct Frozen(Option<(mpsc::Sender<()>, thread::JoinHandle<()>)>);

impl Frozen {
    fn new(directory: &Path) -> Self {
        let change = |option: &str, directory: &Path| {
            let mut fsfreeze = std::process::Command::new("fsfreeze");
            let status = fsfreeze.arg(option).arg(directory).status().unwrap();
            assert!(status.success(), "{option}");
        };
        change("--freeze", directory);
        let (dropped, until) = mpsc::channel();
        let directory = directory.to_owned();
        let thaw = thread::spawn(move || {
            let _ = until.recv_timeout(Duration::from_secs(60));
            change("--unfreeze", &directory);
        });
        Self(Some((dropped, thaw)))
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if let Some((dropped, thaw)) = self.0.take() {
            drop(dropped);
            let _ = thaw.join();
        }
    }
}

/// An overlay file system whose files are in `directory`.
struct Overlay {
    directory: tempfile::TempDir,
}

impl Overlay {
    fn new(below: &Path) -> Self {
        let layers = ["lower", "upper", "work"].map(|layer| below.join(layer));
        for layer in &layers {
            std::fs::create_dir(layer).unwrap();
        }
        let [lower, upper, work] = layers.each_ref().map(|layer| layer.display());
        let layers = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        let directory = tempfile::tempdir().unwrap();
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "overlay", "overlay", "-o", &layers]);
        let status = mount.arg(directory.path()).status().unwrap();
        assert!(status.success(), "{mount:?}");
        Self { directory }
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        let mut umount = std::process::Command::new("umount");
        let _ = umount.arg("--lazy").arg(self.directory.path()).status();
    }
}

/// A small ext4 on a loop device.
struct Ext4 {
    directory: tempfile::TempDir,
    _device: LoopDevice,
    image: PathBuf,
    _folder: Box<dyn Any>,
}

impl Ext4 {
    fn new() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        Self::on(sparse_file(folder.path(), SIZE), folder)
    }

    /// Cached writes of 1 MiB and more succeed, and their writeback fails.
    fn with_too_little_space() -> Self {
        let tmpfs = Tmpfs::new(1 << 20);
        Self::on(sparse_file(tmpfs.0.path(), SIZE), tmpfs)
    }

    fn on(image: PathBuf, folder: impl Any) -> Self {
        let device = LoopDevice::new(&image);
        let directory = tempfile::tempdir().unwrap();
        for (program, arguments) in [
            ("mkfs.ext4", vec!["-q", "-N", "64", "-O", "^has_journal"]),
            ("mount", vec![]),
        ] {
            let mut command = std::process::Command::new(program);
            command.args(arguments).arg(&device.0);
            if program == "mount" {
                command.arg(directory.path());
            }
            assert!(command.status().unwrap().success(), "{command:?}");
        }
        Self {
            directory,
            _device: device,
            image,
            _folder: Box::new(folder),
        }
    }
}

impl Ext4 {
    /// Whether some blocks of the device are `data`, regardless of the page cache.
    fn device_holds(&self, data: &[u8]) -> bool {
        let device = std::fs::read(&self.image).unwrap();
        device
            .windows(data.len())
            .step_by(1024)
            .any(|block| block == data)
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        let mut umount = std::process::Command::new("umount");
        let _ = umount.arg("--lazy").arg(self.directory.path()).status();
    }
}

#[test]
fn a_read_only_volume_refuses_writes() {
    let directory = tempfile::tempdir().unwrap();
    let path = sparse_file(directory.path(), SIZE);
    on_each_engine(async || {
        let read_only = OpenOptions { read_only: true };
        let volume = open(&path, read_only);
        assert!(volume.read_only());
        let write = volume.write(0, pattern(512, 1), Stability::Stable).await;
        assert!(matches!(write, Err(VolumeError::ReadOnly)));
        volume.read(0, Buffer::new(512)).await.unwrap();
        volume.flush().await.unwrap();
    });
}

#[test]
fn a_file_that_shrank_is_an_error_of_the_device() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = sparse_file(directory.path(), SIZE);
    on_each_engine(async || {
        let volume = open(&path, OpenOptions::default());
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_len(6144).unwrap();
        let read = volume.read(4096, Buffer::new(4096)).await;
        assert!(matches!(read, Err(VolumeError::Device(_))), "{read:?}");
        file.set_len(SIZE).unwrap();
    });
}

#[test]
fn writes_given_up_run_to_their_end() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = sparse_file(directory.path(), SIZE);
    on_each_engine(async || {
        let volume = open(&path, OpenOptions::default());
        set_direct(&path);
        // Cached: a flush that is given up counts as a loss.
        give_up(volume.write(0, pattern(1 << 20, 7), Stability::Cached)).await;
        let file = std::fs::File::open(&path).unwrap();
        let mut content = vec![0; 1 << 20];
        while content[..] != pattern(1 << 20, 7)[..] {
            tokio::task::yield_now().await;
            file.read_exact_at(&mut content, 0).unwrap();
        }
        volume
            .write(0, Buffer::zeroed(1 << 20), Stability::Stable)
            .await
            .unwrap();
    });
}

#[test]
fn a_runtime_that_ends_waits_for_the_kernel() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = sparse_file(directory.path(), SIZE);
    for _ in 0..16 {
        on_each_engine(async || {
            let volume = open(&path, OpenOptions::default());
            set_direct(&path);
            for task in 0..32_u64 {
                let offset = task * (64 << 10);
                give_up(volume.read(offset, Buffer::new(64 << 10))).await;
                // A task still waits for this one when the runtime ends.
                let path = path.clone();
                tokio::task::spawn_local(async move {
                    let read_only = OpenOptions { read_only: true };
                    if let Ok(opened) = volume::open(&path, read_only) {
                        let _ = opened.volume.read(0, Buffer::new(1 << 20)).await;
                    }
                });
            }
            tokio::task::yield_now().await;
        });
    }
}

#[test]
fn more_operations_than_the_ring_holds() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = sparse_file(directory.path(), SIZE);
    on_each_engine(async || {
        let volume = Rc::new(open(&path, OpenOptions::default()));
        set_direct(&path);
        volume
            .write(0, pattern(SIZE as usize, 3), Stability::Stable)
            .await
            .unwrap();
        let tasks: Vec<_> = (0..2000_u64)
            .map(|task| {
                let volume = Rc::clone(&volume);
                let offset = task * 4096;
                tokio::task::spawn_local(async move {
                    let read = volume.read(offset, Buffer::new(4096)).await.unwrap();
                    (offset as usize, read)
                })
            })
            .collect();
        let expected = pattern(SIZE as usize, 3);
        for task in tasks {
            let (offset, read) = task.await.unwrap();
            assert!(read[..] == expected[offset..offset + 4096], "{offset}");
        }
    });
}

#[test]
fn a_thread_starts_its_engine_once() {
    runtime().block_on(async {
        if engine::start(EngineChoice::Uring).is_err() {
            println!("skipped: no io_uring here");
            return;
        }
        let again = engine::start(EngineChoice::Automatic);
        assert!(matches!(again, Err(EngineError::Started)));
    });
    runtime().block_on(async {
        engine::start(EngineChoice::Uring).expect("the engine ended with its runtime");
    });
}
