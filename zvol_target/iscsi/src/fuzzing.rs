// SPDX-License-Identifier: Apache-2.0
//! Entry points of the fuzz targets (`zvol_target/fuzz`): a connection without reactor thread and listener, and a login without a
//! connection. Not part of the crate's interface.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpStream;

use crate::login::{Login, Step};
use crate::pdu::{LoginRequest, LoginResponse};
use crate::reactor::{Place, serve_stream};
use crate::registry::Registry;
use crate::{ConfigurationError, NegotiatedParameters, ServerOptions, TargetDefinition, text};

/// Both addresses of a connection that has none.
const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The state that the reactors of a server share, without reactors.
pub struct Site(Arc<Registry>);

impl Site {
    /// A site that serves `targets`.
    ///
    /// # Errors
    /// The [`ConfigurationError`] of [`crate::Server`].
    pub fn new(
        options: ServerOptions,
        targets: Vec<TargetDefinition>,
    ) -> Result<Self, ConfigurationError> {
        let registry = Registry::new(options);
        let mut by_name = HashMap::new();
        for target in targets {
            target.validate()?;
            by_name.insert(target.name.clone(), Arc::new(target));
        }
        registry.set_targets(by_name);
        Ok(Self(Arc::new(registry)))
    }

    /// Serves one connection from its first to its last byte, like a reactor.
    pub fn serve(
        &self,
        stream: TcpStream,
        portal_group_tag: u16,
    ) -> impl Future<Output = ()> + 'static {
        let place = Place {
            registry: Arc::clone(&self.0),
            number: 0,
        };
        let addresses = (NOWHERE, NOWHERE);
        async move {
            serve_stream(stream, addresses, portal_group_tag, &place, None).await;
        }
    }

    /// Number of sessions.
    pub fn sessions(&self) -> usize {
        self.0.sessions().len()
    }

    /// Like the stop of a server: sessions get a message and end.
    pub fn stop(&self) {
        self.0.stop();
    }

    /// The login of one connection.
    pub fn login(&self, portal_group_tag: u16) -> Exchange<'_> {
        Exchange(Login::new(&self.0, portal_group_tag))
    }
}

/// A running login phase.
pub struct Exchange<'a>(Login<'a>);

/// Result of one Login Request.
#[derive(Debug)]
pub enum LoginStep {
    /// The login continues.
    Respond(LoginResponse, Vec<u8>),
    /// The full feature phase would begin.
    Complete {
        /// The response.
        response: LoginResponse,
        /// Text of the response.
        text: Vec<u8>,
        /// The negotiated parameters.
        parameters: NegotiatedParameters,
        /// Name of the initiator.
        initiator: String,
        /// Whether it is a session with a target, not for discovery.
        to_target: bool,
        /// CHAP account, if one was used.
        account: Option<String>,
    },
    /// The login is refused.
    Refuse(LoginResponse),
}

impl Exchange<'_> {
    /// Handles one request with its data segment.
    pub fn handle(&mut self, request: &LoginRequest, data: &[u8]) -> LoginStep {
        match self.0.handle(request, data) {
            Step::Respond(response, text) => LoginStep::Respond(response, text),
            Step::Complete(response, text, established) => LoginStep::Complete {
                response,
                text,
                parameters: established.parameters,
                initiator: established.initiator.to_string(),
                to_target: established.target.is_some(),
                account: established.account,
            },
            Step::Refuse(response, _) => LoginStep::Refuse(response),
        }
    }
}

/// The pairs of a text; `None` if its format is wrong.
pub fn parse_text(text: &[u8]) -> Option<Vec<(String, String)>> {
    text::parse(text).ok()
}

/// Reads a numerical value like login and text negotiation.
pub fn parse_number(value: &str) -> Option<u32> {
    text::parse_number(value)
}

/// Reads a binary value of at most `limit` bytes like CHAP.
pub fn parse_binary(value: &str, limit: usize) -> Option<Vec<u8>> {
    text::parse_binary(value, limit)
}

/// Writes a binary value like CHAP.
pub fn format_binary(bytes: &[u8]) -> String {
    text::format_binary(bytes)
}
