#![no_main]
// SPDX-License-Identifier: Apache-2.0
//! libFuzzer on the target that `ZVAAI_FUZZ_TARGET` names. All are one program: to link one takes as long as many a short run.
//! Before libFuzzer reads any, the inputs to begin with are written to the folder `ZVAAI_FUZZ_SEEDS`.

use std::env;
use std::path::Path;
use std::sync::OnceLock;

static TARGET: OnceLock<&fuzz::Target> = OnceLock::new();

fn prepare() {
    let variable = |name: &str| env::var(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    let name = variable("ZVAAI_FUZZ_TARGET");
    let target = fuzz::TARGETS.iter().find(|target| target.name == name);
    let target = target.unwrap_or_else(|| panic!("there is no target {name}"));
    let written = target.write_seeds(Path::new(&variable("ZVAAI_FUZZ_SEEDS")));
    written.expect("the inputs to begin with can be written");
    TARGET.get_or_init(|| target);
}

libfuzzer_sys::fuzz_target!(init: prepare(), |data: &[u8]| {
    let target = TARGET.get().expect("it was prepared");
    (target.run)(data);
});
