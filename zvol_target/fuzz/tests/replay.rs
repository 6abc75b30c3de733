// SPDX-License-Identifier: Apache-2.0
//! Runs every stored input without libFuzzer: seeds, and inputs that once showed a fault.

use std::fs;
use std::path::Path;

/// One test for all inputs, as the memory limit applies to the whole process.
#[test]
fn every_stored_input_runs() {
    for target in &fuzz::TARGETS {
        for (name, input) in (target.seeds)() {
            println!("{} seed {name}", target.name);
            (target.run)(&input);
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("regressions")
            .join(target.name);
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            println!("{} {}", target.name, path.display());
            (target.run)(&fs::read(&path).unwrap());
        }
    }
}

#[test]
fn folders_are_those_of_targets() {
    let regressions = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    for entry in fs::read_dir(regressions).into_iter().flatten() {
        let name = entry.unwrap().file_name();
        let known = fuzz::TARGETS.iter().any(|target| name == *target.name);
        assert!(known, "no target reads {name:?}");
    }
}
