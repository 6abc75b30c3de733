// SPDX-License-Identifier: Apache-2.0
//! What `open` accepts and refuses, and its error texts.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use crate::common::{LoopDevice, is_root, open, sparse_file};
use volume::{Backend, OpenOptions, Problem};

fn problem(path: &Path, options: OpenOptions) -> Problem {
    match volume::open(path, options) {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(error) => {
            let text = error.to_string();
            assert!(text.starts_with(&path.display().to_string()), "{text}");
            error.problem
        }
    }
}

const SIZE: u64 = 1 << 20;

const READ_ONLY: OpenOptions = OpenOptions { read_only: true };

#[test]
fn refuses_other_file_types() {
    let directory = tempfile::tempdir().unwrap();
    let default = OpenOptions::default();
    let missing = problem(&directory.path().join("absent"), default);
    assert!(matches!(missing, Problem::Missing));
    let no_volume = problem(directory.path(), default);
    assert!(matches!(no_volume, Problem::NotAVolume("a directory")));
    let device = problem(Path::new("/dev/null"), default);
    assert!(matches!(device, Problem::NotAVolume("a character device")));
}

/// `tests/integration/kernel/volume/test_opening.py` has other disks, and partitions of a zvol.
#[test]
fn refuses_a_loop_device() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let device = LoopDevice::new(&sparse_file(directory.path(), SIZE));
    for options in [OpenOptions::default(), READ_ONLY] {
        let refused = volume::open(&device.0, options).err().unwrap();
        let path = device.0.display();
        assert_eq!(
            refused.to_string(),
            format!(
                "{path}: it is a block device that is not a whole zvol; give a zvol or a regular file"
            )
        );
    }
}

#[test]
fn refuses_sizes_with_partial_blocks() {
    let directory = tempfile::tempdir().unwrap();
    let empty = problem(&sparse_file(directory.path(), 0), OpenOptions::default());
    assert!(matches!(empty, Problem::Empty));
    let odd = problem(&sparse_file(directory.path(), 1000), OpenOptions::default());
    let Problem::PartialBlock { size_bytes, .. } = odd else {
        panic!("{odd}");
    };
    assert_eq!(size_bytes, 1000);
}

#[test]
fn a_file_has_one_writer_or_many_readers() {
    let directory = tempfile::tempdir().unwrap();
    let path = sparse_file(directory.path(), 1 << 20);
    let writer = volume::open(&path, OpenOptions::default()).unwrap();
    assert_eq!(writer.backend, Backend::File);
    for options in [OpenOptions::default(), READ_ONLY] {
        assert!(matches!(problem(&path, options), Problem::InUse));
    }
    drop(writer);
    let _reader = open(&path, READ_ONLY);
    let _other_reader = open(&path, READ_ONLY);
    let in_use = problem(&path, OpenOptions::default());
    assert!(matches!(in_use, Problem::InUse));
}

#[test]
fn a_new_size_is_seen_after_a_refresh() {
    let directory = tempfile::tempdir().unwrap();
    let path = sparse_file(directory.path(), 1 << 20);
    let file = File::options().write(true).open(&path).unwrap();
    let volume = open(&path, OpenOptions::default());
    file.set_len((2 << 20) + 100).unwrap();
    assert_eq!(volume.geometry().size_bytes, 1 << 20);
    let size = volume.refresh().unwrap().size_bytes;
    assert_eq!(size, 2 << 20, "whole blocks only");
}

#[test]
fn five_hundred_volumes_are_refreshed_quickly() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let volumes: Vec<_> = (0..500)
        .map(|number| {
            let path = directory.path().join(number.to_string());
            let file = File::create(&path).unwrap();
            file.set_len(SIZE).unwrap();
            volume::open(&path, OpenOptions::default()).unwrap().volume
        })
        .collect();
    let began = processor_time();
    for volume in &volumes {
        assert_eq!(volume.refresh().unwrap().size_bytes, SIZE);
    }
    let taken = processor_time() - began;
    println!("{taken:?}");
    // The real interval is two seconds, on a busy thread.
    assert!(taken < Duration::from_millis(100), "{taken:?}");
}

/// Processor time of this thread: other load on the machine does not count.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.try_into().unwrap()
}
