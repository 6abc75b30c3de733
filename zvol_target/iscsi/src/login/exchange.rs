// SPDX-License-Identifier: Apache-2.0
//! Runs the login phase on a socket.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;
use tracing::debug;

use super::{LOGIN_DATA_SEGMENT_LENGTH, Login, NegotiatedParameters, Refusal, Step, refusal};
use crate::name::IscsiName;
use crate::pdu::{self, Digests, FrameError, Header, InitiatorPdu, LoginRequest, LoginResponse};
use crate::registry::{Registration, Registry};
use crate::session::{COMMAND_WINDOW, Inbound, Outbound};

/// A connection in full feature phase.
pub(crate) struct LoggedIn {
    pub registration: Registration,
    pub parameters: NegotiatedParameters,
    /// `CmdSN` of the first command.
    pub cmd_sn: u32,
    /// Next `StatSN` to send.
    pub stat_sn: u32,
}

/// Why a login failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoginFailure {
    #[error("{cause}")]
    Refused {
        initiator: Option<IscsiName>,
        cause: Refusal,
    },
    #[error("the initiator closed the connection")]
    Closed,
    #[error("expected a Login Request (opcode {0:#04x})")]
    NotLogin(u8),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Runs the login phase to its end.
pub(crate) async fn log_in(
    stream: &mut TcpStream,
    inbound: &mut Inbound,
    registry: &Arc<Registry>,
    portal_group_tag: u16,
    (peer, local): (SocketAddr, SocketAddr),
) -> Result<LoggedIn, LoginFailure> {
    let mut login = Login::new(registry, portal_group_tag);
    let mut stat_sn = None;
    loop {
        let (request, data) = receive(stream, inbound).await?;
        // StatSN begins at the initiator's ExpStatSN.
        let mut sequence = Sequence {
            cmd_sn: request.cmd_sn,
            stat_sn: *stat_sn.get_or_insert(request.exp_stat_sn),
        };
        let mut step = login.handle(&request, &data);
        if let (true, Some(initiator)) = (std::mem::take(&mut login.unknown), &login.initiator) {
            registry.remember_unknown(initiator.clone(), peer.ip().to_canonical());
        }
        let mut registration = None;
        if let Step::Complete(response, _, established) = &mut step {
            match registry.register(established, peer, local).await {
                Ok(entered) => {
                    response.tsih = entered.record.tsih;
                    registration = Some(entered);
                }
                Err(status) => step = Step::Refuse(refusal(&request, status), status.into()),
            }
        }
        let (response, text, established) = match step {
            Step::Respond(response, text) => (response, text, None),
            Step::Complete(response, text, established) => (response, text, Some(established)),
            Step::Refuse(response, cause) => {
                sequence.send(stream, response, &[]).await?;
                let initiator = login.initiator;
                return Err(LoginFailure::Refused { initiator, cause });
            }
        };
        sequence.send(stream, response, &text).await?;
        stat_sn = Some(sequence.stat_sn);
        if let (Some(registration), Some(established)) = (registration, established) {
            debug!(initiator = %established.initiator, tsih = registration.record.tsih, "logged in");
            return Ok(LoggedIn {
                registration,
                parameters: established.parameters,
                cmd_sn: sequence.cmd_sn,
                stat_sn: sequence.stat_sn,
            });
        }
    }
}

/// Sequence numbers during login.
struct Sequence {
    cmd_sn: u32,
    stat_sn: u32,
}

impl Sequence {
    async fn send(
        &mut self,
        stream: &mut TcpStream,
        mut response: LoginResponse,
        text: &[u8],
    ) -> Result<(), std::io::Error> {
        response.stat_sn = self.stat_sn;
        response.exp_cmd_sn = self.cmd_sn;
        response.max_cmd_sn = self.cmd_sn.wrapping_add(COMMAND_WINDOW - 1);
        self.stat_sn = self.stat_sn.wrapping_add(1);
        let mut outbound = Outbound::default();
        outbound.push(response.encode(), text, Digests::default());
        poll_fn(|context| outbound.poll_flush(stream, context)).await
    }
}

/// Receives the next Login Request with its data segment.
async fn receive(
    stream: &mut TcpStream,
    inbound: &mut Inbound,
) -> Result<(LoginRequest, Vec<u8>), LoginFailure> {
    loop {
        let limit = LOGIN_DATA_SEGMENT_LENGTH;
        // Refuse by the first byte, without waiting for the rest of a PDU that is not a login.
        if let Some(&first) = inbound.available().first() {
            if first & pdu::OPCODE_MASK != LoginRequest::OPCODE {
                return Err(LoginFailure::NotLogin(first));
            }
        }
        if let Some(frame) = pdu::decode(inbound.available(), Digests::default(), limit)? {
            let header: Header = frame.header;
            let data = frame.data.to_vec();
            let length = frame.length;
            inbound.consume(length);
            return match InitiatorPdu::decode(&header) {
                Some(InitiatorPdu::LoginRequest(request)) => Ok((request, data)),
                _ => Err(LoginFailure::NotLogin(header[0])),
            };
        }
        if poll_fn(|context| inbound.poll_receive(stream, context, false)).await? == 0 {
            return Err(LoginFailure::Closed);
        }
    }
}
