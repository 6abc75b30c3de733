// SPDX-License-Identifier: Apache-2.0
//! A session in full feature phase. It has one connection (`MaxConnections` is 1), and is one future on one reactor. It receives,
//! runs commands and sends in turn, without locks and hand-offs.

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
