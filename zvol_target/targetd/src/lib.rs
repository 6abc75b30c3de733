// SPDX-License-Identifier: Apache-2.0
//! The daemon `zvaai-target`: reads what to serve, serves it, and takes changes over its control socket.
//!
//! [`service`] keeps configuration and running state the same; [`control`] is the only way to change them. The data path is
//! elsewhere: `iscsi` calls `scsi`, `scsi` calls `volume`, on reactor threads of their own.

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
