// SPDX-License-Identifier: Apache-2.0
//! ROD tokens of one device (SPC-4 5.17.6).
//!
//! A token is a bearer token, as in SPC-4: any host that has it may write with it. On Windows, one host creates a token and
//! another one uses it. It cannot be guessed: it contains 384 random bytes, and is compared as a whole. It represents blocks at
//! one point in time. It is cancelled when one of them is about to change, or its creator may no longer read them.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use subtle::ConstantTimeEq as _;
use volume::LOGICAL_BLOCK_BYTES;

use super::token_lists::{CHANGE_VULNERABLE, TOKEN_BYTES};
use super::{MAXIMUM_TOKENS, MAXIMUM_TOKENS_OF_HOST};
use crate::additional_sense::AdditionalSense;
use crate::designation::Designator;
use crate::lock;
use crate::logical_unit::LogicalUnit;
use crate::range_lock::Watch;
use crate::sense::Sense;

/// ROD TOKEN LENGTH: bytes after this field.
pub(super) const ROD_TOKEN_LENGTH: [u8; 2] = [0x01, 0xf8];

/// Blocks that a token represents.
#[derive(Debug)]
pub(super) struct Rod {
    /// Weak: a token does not prevent a unit from closing its volume.
    pub(super) unit: Weak<LogicalUnit>,
    pub(super) number: u16,
    /// Initiator device that created the token; it must have the right to read the blocks.
    pub(super) host: String,
    /// Byte ranges of the volume, in the order of the ROD.
    pub(super) ranges: Vec<Range<u64>>,
    /// Shows whether one of them changed.
    pub(super) watch: Arc<Watch>,
}

impl Rod {
    pub(super) fn bytes(&self) -> u64 {
        self.ranges
            .iter()
            .map(|range| range.end - range.start)
            .sum()
    }
}

#[derive(Debug)]
struct Token {
    bytes: Box<[u8; TOKEN_BYTES]>,
    /// Same as in its [`Rod`].
    host: String,
    /// The reason if the token is no longer valid, for example deleted.
    rod: Result<Arc<Rod>, AdditionalSense>,
    inactivity_timeout: Duration,
    last_used: Instant,
}

impl Token {
    /// Drops the blocks of a token that is no longer valid.
    fn expire(&mut self, now: Instant) {
        let Ok(rod) = &self.rod else { return };
        if rod.watch.has_changed() || rod.unit.strong_count() == 0 {
            self.rod = Err(AdditionalSense::INVALID_TOKEN_OPERATION_TOKEN_CANCELLED);
        } else if now.saturating_duration_since(self.last_used) > self.inactivity_timeout {
            self.rod = Err(AdditionalSense::INVALID_TOKEN_OPERATION_TOKEN_EXPIRED);
        }
    }
}

/// The tokens of a device, in the order of their creation.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    tokens: Mutex<Vec<Token>>,
    made: AtomicU64,
}

impl Tokens {
    /// Creates a token. Tokens that are no longer valid are removed, and then the host's oldest if it has reached its limit.
    ///
    /// # Errors
    /// INSUFFICIENT RESOURCES TO CREATE ROD TOKEN: all hosts together have reached the limit, or the operating system returned no
    /// random bytes.
    pub(super) fn create(
        &self,
        unit: &LogicalUnit,
        rod: Rod,
        inactivity_timeout: Duration,
    ) -> Result<Box<[u8; TOKEN_BYTES]>, Sense> {
        let code = AdditionalSense::INSUFFICIENT_RESOURCES_TO_CREATE_ROD_TOKEN;
        let full = Sense::illegal_request(code);
        let identifier = self.made.fetch_add(1, Ordering::Relaxed);
        let bytes = token_bytes(unit, rod.bytes(), identifier).ok_or(full)?;
        let now = Instant::now();
        let mut tokens = lock(&self.tokens);
        tokens.iter_mut().for_each(|token| token.expire(now));
        let host = &rod.host;
        let of_host = tokens.iter().filter(|token| token.host == *host).count();
        if of_host >= MAXIMUM_TOKENS_OF_HOST {
            let of_host = |token: &Token| token.host == *host;
            let useless = tokens
                .iter()
                .position(|token| of_host(token) && token.rod.is_err());
            let oldest = useless.or_else(|| tokens.iter().position(of_host));
            oldest.map(|at| tokens.remove(at));
        } else if tokens.len() >= MAXIMUM_TOKENS {
            let useless = tokens.iter().position(|token| token.rod.is_err());
            tokens.remove(useless.ok_or(full)?);
        }
        tokens.push(Token {
            bytes: bytes.clone(),
            host: host.clone(),
            rod: Ok(Arc::new(rod)),
            inactivity_timeout,
            last_used: now,
        });
        Ok(bytes)
    }

    /// Blocks of a valid token. If `permits` shows that its creator lost access to the unit, the token is cancelled. The use of
    /// the token begins: it does not expire during its use.
    ///
    /// # Errors
    /// INVALID TOKEN OPERATION: unknown, expired, cancelled or deleted.
    pub(super) fn find(
        &self,
        bytes: &[u8; TOKEN_BYTES],
        permits: impl Fn(u16, &str) -> bool,
    ) -> Result<Arc<Rod>, Sense> {
        let now = Instant::now();
        let mut tokens = lock(&self.tokens);
        let token = find(&mut tokens, bytes).ok_or(Sense::illegal_request(
            AdditionalSense::INVALID_TOKEN_OPERATION_TOKEN_UNKNOWN,
        ))?;
        token.expire(now);
        token.last_used = now;
        if matches!(&token.rod, Ok(rod) if !permits(rod.number, &rod.host)) {
            token.rod = Err(AdditionalSense::INVALID_TOKEN_OPERATION_TOKEN_CANCELLED);
        }
        let rod = token.rod.as_ref();
        rod.map(Arc::clone)
            .map_err(|&code| Sense::illegal_request(code))
    }

    /// Ends a use of the token; with `delete`, deletes the token.
    pub(super) fn used(&self, bytes: &[u8; TOKEN_BYTES], delete: bool) {
        if let Some(token) = find(&mut lock(&self.tokens), bytes) {
            token.last_used = Instant::now();
            if delete {
                token.rod = Err(AdditionalSense::INVALID_TOKEN_OPERATION_TOKEN_DELETED);
            }
        }
    }
}

/// Compares all tokens completely: the duration discloses nothing.
fn find<'a>(tokens: &'a mut [Token], bytes: &[u8; TOKEN_BYTES]) -> Option<&'a mut Token> {
    let mut matching = None;
    for token in tokens {
        if bool::from(token.bytes[..].ct_eq(&bytes[..])) {
            matching = Some(token);
        }
    }
    matching
}

/// Longest designator of an identification descriptor CSCD descriptor (SPC-4 table 117).
const CREATOR_DESIGNATOR_BYTES: usize = 20;

/// A generic ROD token (SPC-4 5.17.6.5) with the device type specific data of SBC-4 4.28.5; `None` without random bytes.
fn token_bytes(unit: &LogicalUnit, bytes: u64, identifier: u64) -> Option<Box<[u8; TOKEN_BYTES]>> {
    let capacity = unit.capacity();
    let mut token = Box::new([0; TOKEN_BYTES]);
    token[..4].copy_from_slice(&CHANGE_VULNERABLE.to_be_bytes());
    token[6..8].copy_from_slice(&ROD_TOKEN_LENGTH);
    token[8..16].copy_from_slice(&identifier.to_be_bytes());
    // CREATOR LOGICAL UNIT DESCRIPTOR: a name of association 0 that fits, preferably an NAA name.
    let designators = unit.designators();
    let fitting = |designator: &&Designator| designator.bytes().len() <= CREATOR_DESIGNATOR_BYTES;
    let naa = designators.iter().find(|designator| designator.is_naa());
    if let Some(creator) = naa.or_else(|| designators.iter().find(fitting)) {
        let length = creator.bytes().len();
        let head = [
            0xe4,
            0,
            0,
            0,
            creator.code_set(),
            creator.kind(),
            0,
            length as u8,
        ];
        token[16..24].copy_from_slice(&head);
        token[24..24 + length].copy_from_slice(creator.bytes());
    }
    token[44..48].copy_from_slice(&LOGICAL_BLOCK_BYTES.to_be_bytes());
    // NUMBER OF BYTES REPRESENTED, 16 bytes.
    token[56..64].copy_from_slice(&bytes.to_be_bytes());
    // READ CAPACITY(16) data from its logical block length on.
    token[96..100].copy_from_slice(&LOGICAL_BLOCK_BYTES.to_be_bytes());
    token[101] = capacity.physical_block_exponent();
    // TARGET DEVICE DESCRIPTOR and EXTENDED ROD TOKEN DATA: unused bytes are random.
    getrandom::fill(&mut token[128..]).ok()?;
    Some(token)
}
