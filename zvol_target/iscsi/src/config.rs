// SPDX-License-Identifier: Apache-2.0
//! Configuration of a [`crate::Server`]: targets, portals and accounts.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use scsi::sam::ScsiTarget;
use zeroize::Zeroizing;

use crate::name::IscsiName;

/// Shortest accepted CHAP secret, bytes: 96 bits (RFC 7143 9.2.1).
pub const SECRET_LENGTH_MIN: usize = 12;
/// Longest accepted CHAP secret, bytes.
pub const SECRET_LENGTH_MAX: usize = 255;
/// RFC 7143 9.2.1 requires random secrets. A secret with fewer different bytes is not random: less than one in a hundred million
/// secrets of 12 random letters and digits has so few.
const SECRET_DISTINCT_BYTES_MIN: usize = 5;

/// A CHAP secret. `Debug` output does not contain it, and its memory is overwritten before it is freed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Creates a secret of 12 to 255 bytes.
    ///
    /// # Errors
    /// [`ConfigurationError::SecretLength`], [`ConfigurationError::SecretWeak`].
    pub fn new(secret: &[u8]) -> Result<Self, ConfigurationError> {
        if !(SECRET_LENGTH_MIN..=SECRET_LENGTH_MAX).contains(&secret.len()) {
            return Err(ConfigurationError::SecretLength);
        }
        if HashSet::<&u8>::from_iter(secret).len() < SECRET_DISTINCT_BYTES_MIN {
            return Err(ConfigurationError::SecretWeak);
        }
        Ok(Self(Zeroizing::new(secret.to_vec())))
    }

    pub(crate) fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(..)")
    }
}

/// A CHAP name and secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChapAccount {
    /// `CHAP_N`.
    pub name: String,
    /// The secret.
    pub secret: Secret,
    /// The initiators that may use the account; `None`: all.
    pub initiators: Option<Vec<IscsiName>>,
}

/// CHAP accounts for both directions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authentication {
    /// Accounts of initiators. If there is one, CHAP is required; if there is none, CHAP is not used.
    pub incoming: Vec<ChapAccount>,
    /// The target's account, for initiators that request mutual CHAP.
    pub outgoing: Option<ChapAccount>,
}

/// Which initiators may log in to a target and see it in discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetAccess {
    /// All initiators.
    Any,
    /// Only these.
    Initiators(BTreeSet<IscsiName>),
}

/// One target port: a target in one portal group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetPort {
    /// Portal group tag. The portals with this tag belong to the port.
    pub portal_group_tag: u16,
    /// Relative target port identifier (SPC-5 7.7.6.8), 1 to 65535.
    pub relative_target_port: u16,
}

/// An iSCSI target node.
#[derive(Clone)]
pub struct TargetDefinition {
    /// iSCSI name.
    pub name: IscsiName,
    /// The ports, at least one, each in a different portal group.
    pub ports: Vec<TargetPort>,
    /// Initiators that may log in and see the target in discovery.
    pub access: TargetAccess,
    /// CHAP.
    pub authentication: Authentication,
    /// The SCSI target device behind it.
    pub device: Arc<dyn ScsiTarget>,
}

impl fmt::Debug for TargetDefinition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TargetDefinition")
            .field("name", &self.name)
            .field("ports", &self.ports)
            .field("access", &self.access)
            .field("authentication", &self.authentication)
            .finish_non_exhaustive()
    }
}

/// A network portal (RFC 7143 3.1): an address to listen at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Portal {
    /// Address and port. With port 0 the system chooses; an unspecified address means all local addresses of its family.
    pub address: SocketAddr,
    /// Portal group it belongs to.
    pub group_tag: u16,
    /// Address that discovery reports instead of `address`, behind address translation (`TargetAddress`, RFC 7143 13.8).
    pub advertised: Option<SocketAddr>,
}

/// Limits and timers of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Reactor threads; sessions are spread over them by load. At least 1.
    pub reactors: usize,
    /// Limit of normal sessions, over all portals. Each has one connection. Further logins are refused (0302h).
    pub max_connections: usize,
    /// Limit of normal sessions of one address. An IPv6 address counts by its first 64 bits, as a host has all addresses with
    /// this prefix.
    pub max_sessions_per_peer: usize,
    /// Limit of normal sessions of one initiator name.
    pub max_sessions_per_initiator: usize,
    /// Limit of connections that have not logged in, or only for discovery. A further one replaces the oldest connection of the
    /// address with the most connections. At least 1.
    pub max_logins: usize,
    /// The same limit for one address.
    pub max_logins_per_peer: usize,
    /// Time from accept to the end of login.
    pub login_timeout: Duration,
    /// After this time without data from an initiator, a NOP-In is sent. After the same time again, the connection is closed.
    pub keepalive_interval: Duration,
    /// How often the load of the reactors is measured, also without new connections.
    pub load_interval: Duration,
    /// Memory for the data and commands of all sessions, bytes. Above it, the session that holds the most is closed.
    pub memory_budget: usize,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            reactors: 1,
            max_connections: 1024,
            max_sessions_per_peer: 512,
            max_sessions_per_initiator: 32,
            max_logins: 256,
            max_logins_per_peer: 128,
            login_timeout: Duration::from_secs(15),
            keepalive_interval: Duration::from_secs(15),
            load_interval: Duration::from_secs(10),
            memory_budget: 512 << 20,
        }
    }
}

/// Why a configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    /// A CHAP secret is too short or too long.
    #[error("a CHAP secret has {SECRET_LENGTH_MIN} to {SECRET_LENGTH_MAX} bytes")]
    SecretLength,
    /// A CHAP secret repeats few characters.
    #[error(
        "a CHAP secret has at least {SECRET_DISTINCT_BYTES_MIN} different characters; choose it at random"
    )]
    SecretWeak,
    /// One secret is used for both directions (forbidden by RFC 7143 9.2.1).
    #[error("account \"{0}\": incoming and outgoing CHAP secrets must differ")]
    SecretReused(String),
    /// A target has no port, two ports in one portal group, or the relative target port 0.
    #[error("target {0}: at least one port, each in a different portal group, relative port not 0")]
    Ports(IscsiName),
    /// No reactor thread.
    #[error("at least one reactor thread is needed")]
    NoReactor,
}

impl Authentication {
    pub(crate) fn validate(&self) -> Result<(), ConfigurationError> {
        let reused = self.incoming.iter().find(|account| {
            self.outgoing
                .as_ref()
                .is_some_and(|outgoing| outgoing.secret == account.secret)
        });
        match reused {
            Some(account) => Err(ConfigurationError::SecretReused(account.name.clone())),
            None => Ok(()),
        }
    }
}

impl TargetDefinition {
    pub(crate) fn validate(&self) -> Result<(), ConfigurationError> {
        let mut tags: Vec<_> = self
            .ports
            .iter()
            .map(|port| port.portal_group_tag)
            .collect();
        tags.sort_unstable();
        tags.dedup();
        let no_relative_port = |port: &TargetPort| port.relative_target_port == 0;
        if tags.is_empty()
            || tags.len() < self.ports.len()
            || self.ports.iter().any(no_relative_port)
        {
            return Err(ConfigurationError::Ports(self.name.clone()));
        }
        self.authentication.validate()
    }

    /// The port of this target in a portal group.
    pub(crate) fn port(&self, portal_group_tag: u16) -> Option<TargetPort> {
        self.ports
            .iter()
            .copied()
            .find(|port| port.portal_group_tag == portal_group_tag)
    }

    /// Whether an initiator may log in.
    pub(crate) fn admits(&self, initiator: &IscsiName) -> bool {
        match &self.access {
            TargetAccess::Any => true,
            TargetAccess::Initiators(admitted) => admitted.contains(initiator),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(name: &str, secret: &[u8]) -> ChapAccount {
        ChapAccount {
            name: name.into(),
            secret: Secret::new(secret).unwrap(),
            initiators: None,
        }
    }

    #[test]
    fn short_secrets_are_refused_and_secrets_are_not_shown() {
        assert_eq!(
            Secret::new(b"elevenbytes"),
            Err(ConfigurationError::SecretLength)
        );
        assert_eq!(
            Secret::new(&[1; 256]),
            Err(ConfigurationError::SecretLength)
        );
        for weak in [
            &b"aaaaaaaaaaaaaaaa"[..],
            b"121212121212",
            b"abcdabcdabcdabcd",
        ] {
            assert_eq!(Secret::new(weak), Err(ConfigurationError::SecretWeak));
        }
        let shown = format!("{:?}", account("user", b"twelve bytes"));
        assert!(
            !shown.contains("twelve") && !shown.contains("116"),
            "{shown}"
        );
    }

    #[test]
    fn a_secret_is_for_one_direction() {
        let valid = Authentication {
            incoming: vec![
                account("a", b"secret number one"),
                account("b", b"secret number two"),
            ],
            outgoing: Some(account("a", b"secret number three")),
        };
        assert_eq!(valid.validate(), Ok(()));
        let mut reused = valid;
        reused.outgoing = Some(account("c", b"secret number two"));
        assert_eq!(
            reused.validate(),
            Err(ConfigurationError::SecretReused("b".into()))
        );
        let outgoing_only = Authentication {
            incoming: Vec::new(),
            outgoing: Some(account("c", b"secret number two")),
        };
        assert_eq!(outgoing_only.validate(), Ok(()));
    }
}
