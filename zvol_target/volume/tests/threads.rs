// SPDX-License-Identifier: Apache-2.0
//! The number of threads of the engine without `io_uring`. It counts the threads of its process, so the process has no other
//! test.

mod common;

use std::sync::Arc;

use common::{open, runtime, sparse_file};
use volume::engine::{self, EngineChoice};
use volume::{Buffer, OpenOptions, Stability, Volume};

const VOLUMES: usize = 16;
/// More than the number of threads that the runtime would start.
const OPERATIONS: usize = 1024;
/// 96 threads work; others are about to become idle when another is needed, above all on few CPUs. The runtime's limit is 512.
const MOST_THREADS: usize = 400;

fn threads_of_this_process() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("Threads:"));
    line.unwrap().trim().parse().unwrap()
}

#[test]
fn they_are_bounded_and_all_operations_run() {
    let folders: Vec<_> = (0..VOLUMES)
        .map(|_| tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
        .collect();
    runtime().block_on(async {
        engine::start(EngineChoice::ThreadPool).unwrap();
        let volumes: Vec<Arc<dyn Volume>> = folders
            .iter()
            .map(|folder| open(&sparse_file(folder.path(), 1 << 20), OpenOptions::default()))
            .collect();
        // Created first, so that operations arrive faster than the device completes them.
        let buffers: Vec<_> = (0..OPERATIONS).map(|_| Buffer::zeroed(4096)).collect();
        let tasks: Vec<_> = buffers
            .into_iter()
            .enumerate()
            .map(|(number, data)| {
                let volume = Arc::clone(&volumes[number % VOLUMES]);
                tokio::task::spawn_local(async move {
                    // Stable, so that each takes its time on the device.
                    volume.write(0, data, Stability::Stable).await
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        // The runtime keeps idle threads for some seconds.
        let threads = threads_of_this_process();
        assert!(threads <= MOST_THREADS, "{threads} threads");
    });
}
