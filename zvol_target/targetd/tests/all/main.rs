// SPDX-License-Identifier: Apache-2.0
//! The tests of this crate's public interface, in one program: it is linked once, and its tests wait in parallel.

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
