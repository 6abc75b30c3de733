#![no_main]
// SPDX-License-Identifier: Apache-2.0
//! Runs libFuzzer on the target that `ZVAAI_FUZZ_TARGET` names. All targets are in one program, as linking takes as long as many
//! a short run. First writes the seeds to the folder `ZVAAI_FUZZ_SEEDS`.

use std::env;
use std::path::Path;
use std::sync::OnceLock;

static TARGET: OnceLock<&fuzz::Target> = OnceLock::new();

fn prepare() {
    let variable = |name: &str| env::var(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    let name = variable("ZVAAI_FUZZ_TARGET");
    let target = fuzz::TARGETS.iter().find(|target| target.name == name);
    let target = target.unwrap_or_else(|| panic!("unknown target {name}"));
    let written = target.write_seeds(Path::new(&variable("ZVAAI_FUZZ_SEEDS")));
    written.expect("the seeds can be written");
    TARGET.get_or_init(|| target);
}

libfuzzer_sys::fuzz_target!(init: prepare(), |data: &[u8]| {
    let target = TARGET.get().expect("it was prepared");
    (target.run)(data);
});
