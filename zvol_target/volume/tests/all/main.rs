// SPDX-License-Identifier: Apache-2.0
//! The tests of this crate's public interface, in one program: it is linked once, and its tests wait in parallel.

mod clearing;
#[path = "../common/mod.rs"]
mod common;
mod copy;
mod copy_blocks;
mod growth;
mod io;

mod open;
mod sharing;
