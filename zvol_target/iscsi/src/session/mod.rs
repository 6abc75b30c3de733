// SPDX-License-Identifier: Apache-2.0
//! A session in full feature phase. It is its one connection (`MaxConnections` is 1), and one future on one reactor: it
//! receives, runs commands and sends in turn, with no lock and no hand-off.

mod commands;
mod connection;
mod data_in;
mod dispatch;
mod inbound;
mod memory;
mod outbound;
mod receive;
mod respond;
mod sense;
mod solicit;
mod task;
mod text;
mod transfer;
mod window;

pub(crate) use connection::Connection;
pub(crate) use inbound::Inbound;
pub(crate) use outbound::Outbound;
pub(crate) use window::COMMAND_WINDOW;
