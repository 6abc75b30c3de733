// SPDX-License-Identifier: Apache-2.0
//! The tests of what this crate shows to others, as one program: it is linked once, and its tests wait side by side.

mod arrivals;
mod clients;
mod fairness;
mod flow;
mod headers;
mod login;
mod login_rules;
mod protocol;
mod read_write;
#[path = "../support/mod.rs"]
mod support;
mod task_management;
mod text;
