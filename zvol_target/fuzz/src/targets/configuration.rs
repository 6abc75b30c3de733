// SPDX-License-Identifier: Apache-2.0
//! The configuration file.
//!
//! Input: its content.

use std::path::PathBuf;

use targetd::configuration::ConfigurationFile;
use tempfile::TempDir;

use crate::memory;

/// Memory limit of reading and writing a file of a few KiB.
const FILE_MEMORY: usize = 64 << 20;

thread_local! {
    static FOLDER: TempDir = folder();
}

/// A folder in memory.
pub(super) fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").expect("a folder for temporary files")
}

/// Checks that a file is refused with a reason, or read, written and read again with the same content.
pub fn run(data: &[u8]) {
    let path: PathBuf = FOLDER.with(|folder| folder.path().join("configuration"));
    std::fs::write(&path, data).expect("a file in memory");
    memory::bounded(FILE_MEMORY, || match ConfigurationFile::open(&path) {
        Ok((mut file, configuration, _)) => {
            file.store(&configuration).expect("a file in memory");
            drop(file);
            let again = ConfigurationFile::open(&path).map(|(_, configuration, _)| configuration);
            assert_eq!(again.expect("what was written is read"), configuration);
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            let left = std::fs::read(&path).expect("the file");
            assert_eq!(left, data, "a refused file is not changed");
        }
    });
}
