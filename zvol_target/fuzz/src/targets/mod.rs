// SPDX-License-Identifier: Apache-2.0
//! The fuzz targets.

pub mod commands;
pub mod configuration;
pub mod connection;
pub mod control;
pub mod login;
mod observer;
pub mod parameter_lists;
pub mod pdu_stream;
