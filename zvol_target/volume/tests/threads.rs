// SPDX-License-Identifier: Apache-2.0
//! How many threads the engine without `io_uring` has. The only test of its process, which it counts the threads of.

mod common;

use std::sync::Arc;

use common::{open, runtime, sparse_file};
use volume::engine::{self, EngineChoice};
use volume::{Buffer, OpenOptions, Stability, Volume};

const VOLUMES: usize = 16;
/// More than the runtime would have threads for.
const OPERATIONS: usize = 1024;
/// 96 work; others are on their way to be idle when another is needed, most of all on few CPUs. The runtime alone has 512.
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
        // Made before, so that the operations come faster than the device does them.
        let buffers: Vec<_> = (0..OPERATIONS).map(|_| Buffer::zeroed(4096)).collect();
        let tasks: Vec<_> = buffers
            .into_iter()
            .enumerate()
            .map(|(number, data)| {
                let volume = Arc::clone(&volumes[number % VOLUMES]);
                tokio::task::spawn_local(async move {
                    // To the device, so that each takes its time.
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
