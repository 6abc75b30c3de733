// SPDX-License-Identifier: Apache-2.0
//! The login phase (RFC 7143 6.3, 11.12, 11.13) as a state machine without I/O.

mod chap;
mod exchange;
mod parameters;

use std::collections::HashSet;
use std::sync::Arc;

use crate::config::{Authentication, TargetDefinition, TargetPort};
use crate::name::IscsiName;
use crate::pdu::{LoginRequest, LoginResponse};
use crate::registry::Registry;
use crate::text::{self, TextCollector};
use chap::{Chap, ChapError};
pub(crate) use exchange::{LoggedIn, LoginFailure, log_in};
pub(crate) use parameters::{Answer, is_answer};
pub use parameters::{NegotiatedParameters, SessionType, TARGET_MAX_RECV_DATA_SEGMENT_LENGTH};

/// Stages (11.12.3).
const SECURITY_NEGOTIATION: u8 = 0;
const LOGIN_OPERATIONAL_NEGOTIATION: u8 = 1;
const FULL_FEATURE_PHASE: u8 = 3;

/// Limit of data segments in both directions during login: the default of `MaxRecvDataSegmentLength`.
pub(crate) const LOGIN_DATA_SEGMENT_LENGTH: usize = 8192;
/// Limit of the keys in one login; RFC 7143 has 27.
const KEYS_MAX: usize = 128;

/// Status-Class and Status-Detail of a refused login (11.13.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u16)]
pub(crate) enum LoginStatus {
    #[error("invalid keys or stages")]
    InitiatorError = 0x0200,
    #[error("authentication failed")]
    AuthenticationFailure = 0x0201,
    #[error("no such target at this portal")]
    NotFound = 0x0203,
    #[error("the target was deleted, or its portals or hosts changed")]
    TargetRemoved = 0x0204,
    #[error("unsupported version of iSCSI")]
    UnsupportedVersion = 0x0205,
    #[error("a session has one connection")]
    TooManyConnections = 0x0206,
    #[error("no InitiatorName or TargetName")]
    MissingParameter = 0x0207,
    #[error("the session belongs to another target or portal group")]
    CannotIncludeInSession = 0x0208,
    #[error("unknown SessionType")]
    SessionTypeNotSupported = 0x0209,
    #[error("the session does not exist")]
    SessionDoesNotExist = 0x020a,
    #[error("the request does not continue this login")]
    InvalidDuringLogin = 0x020b,
    #[error("internal error")]
    TargetError = 0x0300,
    #[error("the target stops")]
    ServiceUnavailable = 0x0301,
    #[error("too many sessions, or too many keys")]
    OutOfResources = 0x0302,
}

/// Why a login is refused. The initiator gets the status alone.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error(transparent)]
    Status(#[from] LoginStatus),
    #[error("the initiator does not use AuthMethod={0}")]
    Method(&'static str),
    #[error(transparent)]
    Chap(#[from] ChapError),
    #[error("no LUN of {0} is for this initiator")]
    NotAdmitted(IscsiName),
}

impl Refusal {
    pub const fn status(&self) -> LoginStatus {
        match self {
            Self::Status(status) => *status,
            Self::Chap(ChapError::Random) => LoginStatus::TargetError,
            Self::Method(_) | Self::Chap(_) => LoginStatus::AuthenticationFailure,
            // Not 0x0202, Authorization Failure: the response must not disclose which targets exist.
            Self::NotAdmitted(_) => LoginStatus::NotFound,
        }
    }
}

/// Result of a successful login.
#[derive(Clone, Debug)]
pub(crate) struct Established {
    pub initiator: IscsiName,
    pub isid: [u8; 6],
    /// TSIH of the request; 0 for a new session.
    pub tsih: u16,
    pub cid: u16,
    pub session_type: SessionType,
    pub target: Option<(Arc<TargetDefinition>, TargetPort)>,
    pub account: Option<String>,
    pub parameters: NegotiatedParameters,
}

/// Result of one Login Request.
#[derive(Debug)]
pub(crate) enum Step {
    /// Send this response; the login continues.
    Respond(LoginResponse, Vec<u8>),
    /// Register the session and send this response; then the full feature phase begins.
    Complete(LoginResponse, Vec<u8>, Box<Established>),
    /// Send this response and close the connection.
    Refuse(LoginResponse, Refusal),
}

/// The session that the first request describes.
struct Leading {
    session_type: SessionType,
    target: Option<(Arc<TargetDefinition>, TargetPort)>,
}

/// State of the security negotiation.
enum Security {
    /// No `AuthMethod` yet.
    Open,
    /// `AuthMethod=None`
    None,
    /// `AuthMethod=CHAP`
    Chap(Chap),
}

/// The login of one connection.
pub(crate) struct Login<'a> {
    registry: &'a Registry,
    portal_group_tag: u16,
    /// The fields that must not change during the login.
    first: Option<LoginRequest>,
    stage: u8,
    leading: Option<Leading>,
    initiator: Option<IscsiName>,
    /// Whether no target permits the initiator.
    unknown: bool,
    security: Security,
    collector: TextCollector,
    seen: HashSet<String>,
    declared: bool,
    parameters: NegotiatedParameters,
}

impl<'a> Login<'a> {
    /// The login of a connection to a portal of `portal_group_tag`.
    pub fn new(registry: &'a Registry, portal_group_tag: u16) -> Self {
        Self {
            registry,
            portal_group_tag,
            first: None,
            stage: SECURITY_NEGOTIATION,
            leading: None,
            initiator: None,
            unknown: false,
            security: Security::Open,
            collector: TextCollector::default(),
            seen: HashSet::new(),
            declared: false,
            parameters: NegotiatedParameters::default(),
        }
    }

    /// Processes one request. The caller sets the sequence numbers and TSIH of the response.
    pub fn handle(&mut self, request: &LoginRequest, data: &[u8]) -> Step {
        match self.advance(request, data) {
            Ok(step) => step,
            Err(cause) => Step::Refuse(refusal(request, cause.status()), cause),
        }
    }

    fn advance(&mut self, request: &LoginRequest, data: &[u8]) -> Result<Step, Refusal> {
        self.check_header(request)?;
        self.collector
            .push(data)
            .map_err(|_| LoginStatus::OutOfResources)?;
        let mut response = response(request);
        if request.r#continue {
            return Ok(Step::Respond(response, Vec::new()));
        }
        let mut pairs = self
            .collector
            .finish()
            .map_err(|_| LoginStatus::InitiatorError)?;
        let mut answer = Vec::new();
        if self.leading.is_none() {
            self.lead(&pairs, &mut answer)?;
        }
        // The limit of FirstBurstLength is the result of MaxBurstLength.
        pairs.sort_by_key(|(key, _)| key == "FirstBurstLength");
        self.answer(&pairs, &mut answer)?;
        // Not if the initiator sent "Reject": a key has one value.
        let answered = text::parse(&answer).is_ok_and(|pairs| {
            let mut keys = pairs.iter().map(|(key, _)| key);
            keys.any(|key| key == "MaxRecvDataSegmentLength")
        });
        if self.stage == LOGIN_OPERATIONAL_NEGOTIATION && !self.declared && !answered {
            self.declared = true;
            let length = TARGET_MAX_RECV_DATA_SEGMENT_LENGTH;
            self.parameters.target_max_recv_data_segment_length = length;
            text::push(&mut answer, "MaxRecvDataSegmentLength", &length.to_string());
        }
        if answer.len() > LOGIN_DATA_SEGMENT_LENGTH {
            return Err(LoginStatus::OutOfResources.into());
        }
        if !request.transit || !self.is_stage_complete()? {
            return Ok(Step::Respond(response, answer));
        }
        response.transit = true;
        response.next_stage = request.next_stage;
        self.stage = request.next_stage;
        if self.stage == FULL_FEATURE_PHASE {
            let established = Box::new(self.established(request)?);
            return Ok(Step::Complete(response, answer, established));
        }
        Ok(Step::Respond(response, answer))
    }

    fn check_header(&mut self, request: &LoginRequest) -> Result<(), LoginStatus> {
        match &self.first {
            None => {
                // This target supports only version 0, as in RFC 7143.
                if request.version_min > 0 {
                    return Err(LoginStatus::UnsupportedVersion);
                }
                self.stage = request.current_stage;
                self.first = Some(*request);
            }
            Some(first) => {
                let same = first.isid == request.isid
                    && first.tsih == request.tsih
                    && first.cid == request.cid
                    && first.initiator_task_tag == request.initiator_task_tag;
                if !same {
                    return Err(LoginStatus::InvalidDuringLogin);
                }
            }
        }
        let stage_exists = matches!(
            self.stage,
            SECURITY_NEGOTIATION | LOGIN_OPERATIONAL_NEGOTIATION
        );
        let next_exists = matches!(
            request.next_stage,
            LOGIN_OPERATIONAL_NEGOTIATION | FULL_FEATURE_PHASE
        );
        let transit = !request.transit
            || (!request.r#continue && next_exists && request.next_stage > request.current_stage);
        if stage_exists && request.current_stage == self.stage && transit {
            Ok(())
        } else {
            Err(LoginStatus::InitiatorError)
        }
    }

    /// Reads the keys with initiator, target and session type (6.3.1).
    fn lead(&mut self, pairs: &[(String, String)], answer: &mut Vec<u8>) -> Result<(), Refusal> {
        let find = |name| {
            pairs
                .iter()
                .find(|(key, _)| key == name)
                .map(|(_, value)| value.as_str())
        };
        let initiator = find("InitiatorName").ok_or(LoginStatus::MissingParameter)?;
        let initiator: IscsiName = initiator.parse().map_err(|_| LoginStatus::InitiatorError)?;
        let initiator = &*self.initiator.insert(initiator);
        self.unknown = self.registry.visible_targets(initiator).is_empty();
        let session_type = match find("SessionType") {
            None | Some("Normal") => SessionType::Normal,
            Some("Discovery") => SessionType::Discovery,
            Some(_) => return Err(LoginStatus::SessionTypeNotSupported.into()),
        };
        let mut target = None;
        if session_type == SessionType::Normal {
            let name = find("TargetName").ok_or(LoginStatus::MissingParameter)?;
            let named = name
                .parse()
                .ok()
                .and_then(|name| self.registry.target(&name));
            let named = named.ok_or(LoginStatus::NotFound)?;
            let port = named
                .port(self.portal_group_tag)
                .ok_or(LoginStatus::NotFound)?;
            if !named.admits(initiator) {
                return Err(Refusal::NotAdmitted(named.name.clone()));
            }
            // 13.9: in the first response.
            text::push(
                answer,
                "TargetPortalGroupTag",
                &self.portal_group_tag.to_string(),
            );
            target = Some((named, port));
        }
        self.leading = Some(Leading {
            session_type,
            target,
        });
        if self.stage != SECURITY_NEGOTIATION && self.is_chap_required() {
            return Err(Refusal::Method("CHAP"));
        }
        Ok(())
    }

    /// The accounts of the target. Discovery needs none: it names only targets that admit the initiator.
    fn authentication(&self) -> Option<&Authentication> {
        let (target, _) = self.leading.as_ref()?.target.as_ref()?;
        Some(&target.authentication)
    }

    fn is_chap_required(&self) -> bool {
        self.authentication()
            .is_some_and(|authentication| !authentication.incoming.is_empty())
    }

    fn answer(&mut self, pairs: &[(String, String)], answer: &mut Vec<u8>) -> Result<(), Refusal> {
        let session_type = match &self.leading {
            Some(leading) => leading.session_type,
            None => return Err(LoginStatus::MissingParameter.into()),
        };
        let mut chap_keys = Vec::new();
        for (key, value) in pairs {
            if key.starts_with("CHAP_") && self.stage == SECURITY_NEGOTIATION {
                chap_keys.push((key.clone(), value.clone()));
                continue;
            }
            // 6.2: a key is negotiated once.
            if !self.seen.insert(key.clone()) {
                return Err(LoginStatus::InitiatorError.into());
            }
            if self.seen.len() > KEYS_MAX {
                return Err(LoginStatus::OutOfResources.into());
            }
            match key.as_str() {
                "InitiatorName" | "InitiatorAlias" | "SessionType" | "TargetName" => {}
                // 13.6, 13.8, 13.9: only a target sends these.
                "TargetAlias" | "TargetAddress" | "TargetPortalGroupTag" => {
                    return Err(LoginStatus::InitiatorError.into());
                }
                "AuthMethod" if self.stage == SECURITY_NEGOTIATION => {
                    self.choose_method(value, answer)?;
                }
                // Answers to our declarations.
                _ if is_answer(value) => {}
                _ => {
                    let result = self.parameters.negotiate(key, value, session_type);
                    if let Some(value) = result.as_value() {
                        text::push(answer, key, value);
                    }
                }
            }
        }
        if chap_keys.is_empty() {
            return Ok(());
        }
        let (Some(leading), Some(initiator)) = (&self.leading, &self.initiator) else {
            return Err(LoginStatus::MissingParameter.into());
        };
        let (Security::Chap(chap), Some((target, _))) = (&mut self.security, &leading.target)
        else {
            return Err(ChapError::MissingKey.into());
        };
        Ok(chap.step(&chap_keys, &target.authentication, initiator, answer)?)
    }

    fn choose_method(&mut self, offer: &str, answer: &mut Vec<u8>) -> Result<(), Refusal> {
        let method = if self.is_chap_required() {
            "CHAP"
        } else {
            "None"
        };
        if !offer.split(',').any(|offered| offered == method) {
            return Err(Refusal::Method(method));
        }
        text::push(answer, "AuthMethod", method);
        self.security = match method {
            "CHAP" => Security::Chap(Chap::AwaitAlgorithm),
            _ => Security::None,
        };
        Ok(())
    }

    /// Whether this stage is complete.
    fn is_stage_complete(&self) -> Result<bool, Refusal> {
        if self.stage != SECURITY_NEGOTIATION {
            return Ok(true);
        }
        match &self.security {
            Security::None => Ok(true),
            Security::Open if !self.is_chap_required() => Ok(true),
            // The initiator leaves the stage without authentication.
            Security::Open => Err(Refusal::Method("CHAP")),
            Security::Chap(chap) => Ok(matches!(chap, Chap::Done { .. })),
        }
    }

    fn established(&mut self, request: &LoginRequest) -> Result<Established, LoginStatus> {
        let (Some(leading), Some(initiator)) = (self.leading.take(), self.initiator.clone()) else {
            return Err(LoginStatus::MissingParameter);
        };
        let account = match &self.security {
            Security::Chap(Chap::Done { account }) => Some(account.clone()),
            _ => None,
        };
        Ok(Established {
            initiator,
            isid: request.isid,
            tsih: request.tsih,
            cid: request.cid,
            session_type: leading.session_type,
            target: leading.target,
            account,
            parameters: self.parameters.clone(),
        })
    }
}

fn response(request: &LoginRequest) -> LoginResponse {
    LoginResponse {
        current_stage: request.current_stage,
        isid: request.isid,
        tsih: request.tsih,
        initiator_task_tag: request.initiator_task_tag,
        ..LoginResponse::default()
    }
}

/// The response that refuses a login.
pub(crate) fn refusal(request: &LoginRequest, status: LoginStatus) -> LoginResponse {
    let [status_class, status_detail] = (status as u16).to_be_bytes();
    LoginResponse {
        status_class,
        status_detail,
        ..response(request)
    }
}
