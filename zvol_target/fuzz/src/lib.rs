// SPDX-License-Identifier: Apache-2.0
//! Fuzz targets: everything others can say to the target, and what has to hold whatever they say.
//!
//! Each module of [`targets`] has a `run` that takes any bytes and panics when something does not hold. libFuzzer calls it in the
//! program of `fuzz_targets/`; `tests/replay.rs` calls it with every input that is kept.

mod input;
pub mod memory;
mod memory_volume;
pub mod seeds;
pub mod targets;

use std::path::Path;
use std::{fs, io};

/// A fuzz target.
pub struct Target {
    /// Its name; its folder in `corpus` and `regressions` has the same.
    pub name: &'static str,
    /// Runs it with one input.
    pub run: fn(&[u8]),
    /// Inputs to begin with.
    pub seeds: fn() -> Vec<(&'static str, Vec<u8>)>,
}

impl Target {
    /// Writes the inputs to begin with into a folder, which is made.
    ///
    /// # Errors
    /// What making the folder and writing files there can give.
    pub fn write_seeds(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        for (name, input) in (self.seeds)() {
            fs::write(folder.join(name), input)?;
        }
        Ok(())
    }
}

/// All of them.
pub static TARGETS: [Target; 11] = [
    Target {
        name: "pdu_stream",
        run: targets::pdu_stream::run,
        seeds: seeds::pdu_stream,
    },
    Target {
        name: "login",
        run: targets::login::run,
        seeds: seeds::login,
    },
    Target {
        name: "connection",
        run: targets::connection::run,
        seeds: seeds::connection,
    },
    Target {
        name: "commands",
        run: targets::commands::run,
        seeds: seeds::commands,
    },
    Target {
        name: "extended_copy",
        run: targets::parameter_lists::run_extended_copy,
        seeds: seeds::parameter_lists::extended_copy,
    },
    Target {
        name: "unmap",
        run: targets::parameter_lists::run_unmap,
        seeds: seeds::parameter_lists::unmap,
    },
    Target {
        name: "persistent_reserve_out",
        run: targets::parameter_lists::run_persistent_reserve_out,
        seeds: seeds::parameter_lists::persistent_reserve_out,
    },
    Target {
        name: "mode_select",
        run: targets::parameter_lists::run_mode_select,
        seeds: seeds::parameter_lists::mode_select,
    },
    Target {
        name: "token",
        run: targets::parameter_lists::run_token,
        seeds: seeds::parameter_lists::token,
    },
    Target {
        name: "control",
        run: targets::control::run,
        seeds: seeds::control,
    },
    Target {
        name: "configuration",
        run: targets::configuration::run,
        seeds: seeds::configuration,
    },
];
