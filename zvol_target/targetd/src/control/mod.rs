// SPDX-License-Identifier: Apache-2.0
//! The control socket: JSON-RPC 2.0, one message a line. Methods: `docs/control.md`.

mod allowed_user;
pub mod client;
pub mod json_rpc;
mod methods;
mod socket;

pub use allowed_user::AllowedUser;
pub use methods::{ControlMethods, Engine};
pub use socket::{ControlSocket, SocketError};
