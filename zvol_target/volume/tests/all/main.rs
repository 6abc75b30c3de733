// SPDX-License-Identifier: Apache-2.0
//! The tests of what this crate shows to others, as one program: it is linked once, and its tests wait side by side.

mod clearing;
#[path = "../common/mod.rs"]
mod common;
mod copy;
mod copy_bytes;
mod growth;
mod io;

mod open;
mod sharing;
