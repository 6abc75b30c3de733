// SPDX-License-Identifier: Apache-2.0
//! The login phase: text, stages, negotiation, CHAP.
//!
//! Input: number of the [`Site`], portal group, and Login Requests: byte 1 of the header (T, C, CSG, NSG), a byte of differences
//! from the first request, the length of the text (2 bytes), and the text. In the text, `CHAP_R=?` becomes the right response to
//! the last challenge, which no fuzzer would find, and `CHAP_C=!` that challenge.

use std::cell::RefCell;
use std::sync::Arc;

use iscsi::fuzzing::{self, LoginStep, Site};
use iscsi::pdu::{LoginRequest, LoginResponse};
use iscsi::{
    Authentication, ChapAccount, NegotiatedParameters, Secret, ServerOptions, TargetAccess,
    TargetDefinition, TargetPort,
};
use md5::{Digest as _, Md5};
use scsi::{Device, ProductIdentification};

use crate::input::Input;
use crate::memory;

pub(crate) const TARGET: &str = "iqn.2026-11.example:disk";
pub(crate) const HOST: &str = "iqn.2026-11.example:host";
pub(crate) const PORTAL_GROUP: u16 = 1;
const ACCOUNT: &str = "host";
const SECRET: &[u8] = b"a secret of the host";

/// Longest data segment of a Login Request; a longer one never reaches the login.
const LOGIN_DATA_SEGMENT_LENGTH: usize = 8192;
/// Memory limit of one login: its text, twice and in pieces.
const LOGIN_MEMORY: usize = 8 << 20;

thread_local! {
    static SITES: [Site; 3] = [site(Demand::Nothing), site(Demand::Chap), site(Demand::Mutual)];
}

/// Authentication of the target of a site.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Demand {
    Nothing,
    Chap,
    /// CHAP with an account of certain initiators only, and an account of the target.
    Mutual,
}

fn site(demand: Demand) -> Site {
    let account = |name: &str, secret| ChapAccount {
        name: name.into(),
        secret: Secret::new(secret).expect("a valid length"),
        initiators: None,
    };
    let authentication = match demand {
        Demand::Nothing => Authentication::default(),
        Demand::Chap => Authentication {
            incoming: vec![
                account(ACCOUNT, SECRET),
                account("other", b"another secret"),
            ],
            outgoing: None,
        },
        Demand::Mutual => Authentication {
            incoming: vec![ChapAccount {
                initiators: Some(vec![
                    "iqn.2026-11.example:other".parse().expect("a name"),
                    HOST.parse().expect("a name"),
                ]),
                ..account(ACCOUNT, SECRET)
            }],
            outgoing: Some(account("target", b"the target's own secret")),
        },
    };
    let product = ProductIdentification::new("ZVAAI", "fuzz", "1").expect("short ASCII");
    let definition = TargetDefinition {
        name: TARGET.parse().expect("a name"),
        ports: vec![TargetPort {
            portal_group_tag: PORTAL_GROUP,
            relative_target_port: 1,
        }],
        access: TargetAccess::Initiators([HOST.parse().expect("a name")].into()),
        authentication,
        device: Arc::new(Device::new(product)),
    };
    Site::new(ServerOptions::default(), vec![definition]).expect("a valid configuration")
}

/// Checks that a login needs proof, that answers have the right format, and that negotiated values are valid.
pub fn run(data: &[u8]) {
    SITES.with(|sites| memory::bounded(LOGIN_MEMORY, || log_in(sites, data)));
}

fn log_in(sites: &[Site; 3], data: &[u8]) {
    let mut input = Input::new(data);
    let which = usize::from(input.byte()) % sites.len();
    let portal_group = PORTAL_GROUP + u16::from(input.byte() & 1);
    let mut login = sites[which].login(portal_group);
    let chap = RefCell::new(Prover::default());
    while !input.is_empty() {
        let (request, text) = next_request(&mut input, &mut chap.borrow_mut());
        check_text(&text);
        match login.handle(&request, &text) {
            LoginStep::Respond(response, text) => {
                check_response(&request, response, &text);
                chap.borrow_mut().hear(&text);
            }
            LoginStep::Complete {
                response,
                text,
                parameters,
                initiator,
                to_target,
                account,
            } => {
                check_response(&request, response, &text);
                check_parameters(&parameters);
                assert!(!to_target || (initiator == HOST && portal_group == PORTAL_GROUP));
                // The first site and discovery have no accounts.
                let guarded = to_target && which > 0;
                assert_eq!(account.as_deref(), guarded.then_some(ACCOUNT));
                assert!(!guarded || chap.borrow().proved, "logged in without proof");
                return;
            }
            LoginStep::Refuse(response) => {
                assert_ne!(response.status_class, 0);
                assert!(!response.transit);
                return;
            }
        }
    }
}

fn next_request(input: &mut Input, chap: &mut Prover) -> (LoginRequest, Vec<u8>) {
    let flags = input.byte();
    let deviations = input.byte();
    let length = usize::from(input.half()).min(LOGIN_DATA_SEGMENT_LENGTH);
    let text = chap.substitute(input.take(length));
    let deviates = |bit: u8| u16::from((deviations >> bit) & 1);
    let request = LoginRequest {
        transit: flags & 0x80 != 0,
        r#continue: flags & 0x40 != 0,
        current_stage: (flags >> 2) & 3,
        next_stage: flags & 3,
        version_max: deviations >> 7,
        version_min: (deviations >> 6) & 1,
        isid: [0x40, 0, 0, 1, 0, deviates(0) as u8],
        tsih: deviates(1),
        initiator_task_tag: u32::from(deviates(2)),
        cid: deviates(3),
        cmd_sn: 1,
        exp_stat_sn: u32::from(deviates(4)),
    };
    (request, text)
}

fn check_response(request: &LoginRequest, response: LoginResponse, text: &[u8]) {
    assert_eq!((response.status_class, response.status_detail), (0, 0));
    assert_eq!(response.initiator_task_tag, request.initiator_task_tag);
    assert_eq!(response.isid, request.isid);
    // RFC 7143 11.13.2: never without the initiator's T bit.
    assert!(!response.transit || (request.transit && response.next_stage == request.next_stage));
    assert!(text.len() <= LOGIN_DATA_SEGMENT_LENGTH);
    let pairs = fuzzing::parse_text(text).expect("text of the target");
    for (at, (key, _)) in pairs.iter().enumerate() {
        assert!(
            pairs[..at].iter().all(|(other, _)| other != key),
            "{key} twice"
        );
    }
}

/// RFC 7143 13, and the limits of this target.
fn check_parameters(parameters: &NegotiatedParameters) {
    let lengths = 512..1 << 24;
    assert!(lengths.contains(&parameters.initiator_max_recv_data_segment_length));
    assert!(lengths.contains(&parameters.target_max_recv_data_segment_length));
    assert!((512..=1 << 20).contains(&parameters.max_burst_length));
    assert!((512..=256 << 10).contains(&parameters.first_burst_length));
    assert!((1..=8).contains(&parameters.max_outstanding_r2t));
}

/// Calls the parsers of values with the text.
fn check_text(text: &[u8]) {
    for (_, value) in fuzzing::parse_text(text).unwrap_or_default() {
        let _ = fuzzing::parse_number(&value);
        if let Some(bytes) = fuzzing::parse_binary(&value, 1024) {
            assert!(!bytes.is_empty() && bytes.len() <= 1024);
            let written = fuzzing::format_binary(&bytes);
            assert_eq!(fuzzing::parse_binary(&written, 1024), Some(bytes));
        }
    }
}

/// An initiator that knows the secret.
#[derive(Default)]
struct Prover {
    algorithm: String,
    identifier: u8,
    challenge: Vec<u8>,
    /// Whether the right response was sent.
    proved: bool,
}

impl Prover {
    /// Stores the target's challenge.
    fn hear(&mut self, text: &[u8]) {
        for (key, value) in fuzzing::parse_text(text).unwrap_or_default() {
            match key.as_str() {
                "CHAP_A" => self.algorithm = value,
                "CHAP_I" => self.identifier = value.parse().unwrap_or(0),
                "CHAP_C" => {
                    self.challenge = fuzzing::parse_binary(&value, 1024).unwrap_or_default();
                }
                _ => {}
            }
        }
    }

    fn substitute(&mut self, text: &[u8]) -> Vec<u8> {
        let mut substituted = Vec::with_capacity(text.len());
        for pair in text.split_inclusive(|&byte| byte == 0) {
            let pair_text = pair.strip_suffix(&[0]).unwrap_or(pair);
            let value = match pair_text {
                b"CHAP_R=?" if !self.challenge.is_empty() && self.algorithm == "5" => {
                    self.proved = true;
                    Some(self.response())
                }
                b"CHAP_C=!" if !self.challenge.is_empty() => Some(self.challenge.clone()),
                _ => None,
            };
            match value {
                Some(value) => {
                    substituted.extend_from_slice(&pair[..7]);
                    substituted.extend_from_slice(fuzzing::format_binary(&value).as_bytes());
                    substituted.extend_from_slice(&pair[pair_text.len()..]);
                }
                None => substituted.extend_from_slice(pair),
            }
        }
        substituted
    }

    /// RFC 1994 4.1.
    fn response(&self) -> Vec<u8> {
        let parts = [&[self.identifier][..], SECRET, &self.challenge].concat();
        Md5::digest(parts).to_vec()
    }
}
