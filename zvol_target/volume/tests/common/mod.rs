// SPDX-License-Identifier: Apache-2.0
//! Shared by the tests on real files.
#![allow(dead_code, reason = "each test file uses a part")]

use std::fs::File;
use std::future::Future;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use volume::engine::{self, EngineChoice, EngineKind};
use volume::{Buffer, OpenOptions, Problem, Volume};

pub fn runtime() -> LocalRuntime {
    Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .unwrap()
}

/// Runs `body` on `io_uring` and on the thread pool; only on the thread pool if the kernel refuses `io_uring`.
pub fn on_each_engine<F: Future<Output = ()>>(body: impl Fn() -> F) {
    for choice in [EngineChoice::Automatic, EngineChoice::ThreadPool] {
        runtime().block_on(async {
            let kind = engine::start(choice).unwrap();
            if let EngineKind::ThreadPool {
                refusal: Some(refusal),
            } = kind
            {
                println!("no io_uring here: {refusal}");
            }
            body().await;
        });
    }
}

pub fn sparse_file(directory: &Path, size: u64) -> PathBuf {
    let path = directory.join("volume");
    File::create(&path).unwrap().set_len(size).unwrap();
    path
}

/// Opens a volume, after waiting for other users: the kernel closes the files of a ring some time after the ring.
pub fn open(path: &Path, options: OpenOptions) -> Arc<dyn Volume> {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        match volume::open(path, options) {
            Ok(opened) => return opened.volume,
            Err(error) if matches!(error.problem, Problem::InUse) && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Bytes that depend on their position and on `seed`.
pub fn pattern(length: usize, seed: u8) -> Buffer {
    let mut buffer = Buffer::new(length);
    for (at, byte) in buffer.iter_mut().enumerate() {
        *byte = (at % 251) as u8 ^ (at >> 12) as u8 ^ seed;
    }
    buffer
}

pub fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("skipped: only root can set this up");
    }
    root
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A loop device on a file, detached when dropped.
pub struct LoopDevice(pub PathBuf);

impl LoopDevice {
    pub fn new(file: &Path) -> Self {
        let path = run(Command::new("losetup").args(["--find", "--show"]).arg(file));
        Self(path.into())
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup")
            .arg("--detach")
            .arg(&self.0)
            .status();
    }
}

/// A small tmpfs, unmounted when dropped.
pub struct Tmpfs(pub tempfile::TempDir);

impl Tmpfs {
    pub fn new(bytes: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        run(Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"])
            .arg(directory.path()));
        Self(directory)
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("--lazy")
            .arg(self.0.path())
            .status();
    }
}

/// A file system on a loop device, unmounted when dropped.
pub struct Mounted {
    directory: tempfile::TempDir,
    _device: LoopDevice,
    _image: tempfile::TempDir,
}

impl Mounted {
    pub fn new(mkfs: &str, options: &[&str], bytes: u64) -> Self {
        let image = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let device = LoopDevice::new(&sparse_file(image.path(), bytes));
        let directory = tempfile::tempdir().unwrap();
        run(Command::new(mkfs).args(options).arg(&device.0));
        run(Command::new("mount").arg(&device.0).arg(directory.path()));
        Self {
            directory,
            _device: device,
            _image: image,
        }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Free bytes.
    pub fn free(&self) -> u64 {
        let statistics = rustix::fs::statvfs(self.directory.path()).unwrap();
        statistics.f_bfree * statistics.f_frsize
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("--lazy")
            .arg(self.path())
            .status();
    }
}

/// Switches the open volume at `path` to direct I/O, as zvols have it.
pub fn set_direct(path: &Path) {
    for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        if !std::fs::read_link(entry.path()).is_ok_and(|opened| opened == path) {
            continue;
        }
        let number = entry.file_name().to_str().unwrap().parse().unwrap();
        #[expect(unsafe_code, reason = "the volume has the descriptor open")]
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        let flags = fcntl_getfl(descriptor).unwrap();
        fcntl_setfl(descriptor, flags | OFlags::DIRECT).unwrap();
    }
}
