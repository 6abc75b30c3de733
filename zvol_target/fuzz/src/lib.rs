// SPDX-License-Identifier: Apache-2.0
//! Fuzz targets: all input from hosts and administrators, and the properties that hold for every input.
//!
//! Each module of [`targets`] has a `run` that accepts any bytes, and panics if a property is violated. libFuzzer calls it in the
//! program of `fuzz_targets/`; `tests/replay.rs` calls it with every stored input.

mod input;
pub mod memory;
mod memory_volume;
pub mod seeds;
pub mod targets;

use std::path::Path;
use std::{fs, io};

/// A fuzz target.
pub struct Target {
    /// Name of the target, and of its folder in `corpus` and `regressions`.
    pub name: &'static str,
    /// Runs it with one input.
    pub run: fn(&[u8]),
    /// Seeds.
    pub seeds: fn() -> Vec<(&'static str, Vec<u8>)>,
}

impl Target {
    /// Creates a folder and writes the seeds into it.
    ///
    /// # Errors
    /// The errors of creating the folder and writing files.
    pub fn write_seeds(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        for (name, input) in (self.seeds)() {
            fs::write(folder.join(name), input)?;
        }
        Ok(())
    }
}

/// All targets.
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
