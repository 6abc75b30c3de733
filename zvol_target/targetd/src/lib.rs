// SPDX-License-Identifier: Apache-2.0
//! The daemon `zvaai-target`: serves the targets of its configuration, and accepts changes over its control socket.
//!
//! [`service`] keeps configuration and running state equal; [`control`] is the only interface for changes. The data path is in
//! other crates: `iscsi` calls `scsi`, and `scsi` calls `volume`, on reactor threads.

pub mod command_line;
pub mod configuration;
pub mod control;
pub mod daemon;
pub mod logs;
mod notify;
mod reactor_device;
pub mod reservations;
pub mod service;
pub mod space;
