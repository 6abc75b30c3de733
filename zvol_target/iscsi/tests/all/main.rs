// SPDX-License-Identifier: Apache-2.0
//! The tests of this crate's public interface, in one program: it is linked once, and its tests wait in parallel.

mod arrivals;
mod clients;
mod fairness;
mod flow;
mod headers;
mod login;
mod login_rules;
mod protocol;
mod read_write;
mod spread;
#[path = "../support/mod.rs"]
mod support;
mod task_management;
mod text;
