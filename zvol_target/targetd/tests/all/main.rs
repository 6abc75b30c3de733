// SPDX-License-Identifier: Apache-2.0
//! The tests of what this crate shows to others, as one program: it is linked once, and its tests wait side by side.

mod clients;
mod common;
mod configuration;
mod daemon;
mod documentation;
mod host_groups;
mod luns;
mod portals;
mod reservations;
mod secrets;
