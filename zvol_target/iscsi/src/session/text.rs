// SPDX-License-Identifier: Apache-2.0
//! Text Requests in full feature phase (RFC 7143 11.10): discovery, and the few keys that may change in this phase.

use std::collections::HashSet;
use std::net::SocketAddr;

use super::connection::Connection;
use crate::config::{Portal, TargetDefinition};
use crate::login::{Answer, SessionType, is_answer};
use crate::name::IscsiName;
use crate::pdu::{Header, RESERVED_TAG, TextRequest, TextResponse, reject};
use crate::text::{self, TextCollector};

/// A running text negotiation; an initiator has at most one.
#[derive(Default)]
pub(super) struct TextNegotiation {
    collector: TextCollector,
    /// The rest of the answer.
    answer: Vec<u8>,
    /// Target Transfer Tag for the next request, and the Initiator Task Tag of the negotiation.
    tags: Option<(u32, u32)>,
}

impl Connection {
    pub(super) fn handle_text_request(
        &mut self,
        header: &Header,
        request: &TextRequest,
        data: &[u8],
    ) {
        if request.target_transfer_tag == RESERVED_TAG {
            self.text = TextNegotiation::default();
        } else if self.text.tags != Some((request.target_transfer_tag, request.initiator_task_tag))
        {
            return self.push_reject(reject::INVALID_PDU_FIELD, header);
        }
        // 11.10.2: a request with more text to come cannot be final.
        let contradiction = request.r#continue && request.r#final;
        if contradiction || self.text.collector.push(data).is_err() {
            self.text = TextNegotiation::default();
            return self.push_reject(reject::PROTOCOL_ERROR, header);
        }
        if request.r#continue {
            return self.push_text(request, &[], false);
        }
        let Ok(pairs) = self.text.collector.finish() else {
            self.text = TextNegotiation::default();
            return self.push_reject(reject::PROTOCOL_ERROR, header);
        };
        let mut answer = std::mem::take(&mut self.text.answer);
        // A key may occur once, and a new request must wait for the rest of the answer: this limits the answer.
        let mut keys = HashSet::new();
        let twice = pairs.iter().any(|(key, _)| !keys.insert(key));
        if twice || (!answer.is_empty() && !pairs.is_empty()) {
            self.text = TextNegotiation::default();
            return self.push_reject(reject::PROTOCOL_ERROR, header);
        }
        for (key, value) in &pairs {
            // Answers without a request of ours are ignored, so that no exchange is endless.
            if is_answer(value) {
                continue;
            }
            self.answer_key(key, value, &mut answer);
        }
        let limit = self.parameters.initiator_max_recv_data_segment_length as usize;
        if answer.len() > limit {
            self.text.answer = answer.split_off(limit);
        }
        self.push_text(request, &answer, true);
    }

    /// Sends one response. `complete`: the request was complete, so the negotiation can end.
    fn push_text(&mut self, request: &TextRequest, segment: &[u8], complete: bool) {
        let more = !self.text.answer.is_empty();
        let end = complete && !more && request.r#final;
        let tag = match self.text.tags {
            _ if end => RESERVED_TAG,
            Some((tag, _)) => tag,
            None => self.new_transfer_tag(),
        };
        self.text.tags = (!end).then_some((tag, request.initiator_task_tag));
        let response = TextResponse {
            r#final: end,
            r#continue: more,
            lun: request.lun,
            initiator_task_tag: request.initiator_task_tag,
            target_transfer_tag: tag,
            stat_sn: self.take_stat_sn(),
            exp_cmd_sn: self.window.expected(),
            max_cmd_sn: self.window.announce_maximum(),
        };
        self.push(response.encode(), segment);
    }

    fn answer_key(&mut self, key: &str, value: &str, answer: &mut Vec<u8>) {
        let session_type = self.registration.record.session_type;
        let result = match key {
            "SendTargets" => match self.send_targets(value, session_type) {
                Some(targets) => {
                    answer.extend_from_slice(&targets);
                    Answer::Nothing
                }
                None => Answer::Reject,
            },
            // 13.12: may be declared at any time.
            "MaxRecvDataSegmentLength" => self.parameters.negotiate(key, value, session_type),
            // Other keys are for login, except declarations without effect here.
            _ => match self.parameters.clone().negotiate(key, value, session_type) {
                unchanged @ (Answer::NotUnderstood | Answer::Nothing) => unchanged,
                _ => Answer::Reject,
            },
        };
        if let Some(value) = result.as_value() {
            text::push(answer, key, value);
        }
    }

    /// Target names and addresses (Appendix C); `None` if this session does not allow the value.
    fn send_targets(&self, value: &str, session_type: SessionType) -> Option<Vec<u8>> {
        let record = &self.registration.record;
        let visible = self.registry.visible_targets(&record.initiator);
        let requested = match (value, session_type, &record.target) {
            ("All", SessionType::Discovery, _) => None,
            ("All", ..) | ("", SessionType::Discovery, _) => return None,
            ("", _, target) => target.as_ref().map(|(target, _)| target.name.clone()),
            (name, ..) => Some(name.parse::<IscsiName>().ok()?),
        };
        let mut text = Vec::new();
        for target in visible {
            if requested
                .as_ref()
                .is_none_or(|requested| *requested == target.name)
            {
                self.describe(&target, record.local, &mut text);
            }
        }
        Some(text)
    }

    /// Name and addresses of a target. Nothing if no address is known: a name without address means the address that the
    /// initiator connected to.
    fn describe(&self, target: &TargetDefinition, local: SocketAddr, text: &mut Vec<u8>) {
        let portals = self.registry.portals();
        let addresses: Vec<_> = portals
            .iter()
            .filter(|portal| target.port(portal.group_tag).is_some())
            .filter_map(|portal| Some((reachable_address(portal, local)?, portal.group_tag)))
            .collect();
        if addresses.is_empty() {
            return;
        }
        text::push(text, "TargetName", target.name.as_str());
        for (address, group_tag) in addresses {
            text::push(text, "TargetAddress", &format!("{address},{group_tag}"));
        }
    }
}

/// Address of a portal for an initiator that connected to `local`; `None` if it cannot reach the portal.
fn reachable_address(portal: &Portal, local: SocketAddr) -> Option<SocketAddr> {
    if let Some(advertised) = portal.advertised {
        return Some(advertised);
    }
    let ip = portal.address.ip();
    if !ip.is_unspecified() {
        return Some(portal.address);
    }
    // Of all local addresses, the initiator certainly reaches that of its connection.
    (ip.is_ipv4() == local.is_ipv4()).then(|| SocketAddr::new(local.ip(), portal.address.port()))
}
