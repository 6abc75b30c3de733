// SPDX-License-Identifier: Apache-2.0
//! `sessions.list`, `unknown_initiators.list`

use std::time::UNIX_EPOCH;

use iscsi::{SessionRecord, SessionType};
use serde_json::{Value, json};

use crate::service::Service;

pub(super) fn list(service: &Service) -> Value {
    let sessions = service.sessions();
    let shown: Vec<_> = sessions.iter().map(|session| show(session)).collect();
    json!({"sessions": shown})
}

pub(super) fn unknown(service: &Service) -> Value {
    let shown: Vec<_> = service
        .unknown_initiators()
        .iter()
        .map(|known| {
            let at = known.at.duration_since(UNIX_EPOCH);
            json!({
                "initiator": known.initiator.as_str(),
                "address": known.address,
                "at": at.map(|at| at.as_secs()).unwrap_or_default(),
            })
        })
        .collect();
    json!({"initiators": shown})
}

fn show(session: &SessionRecord) -> Value {
    let logged_in_at = session.logged_in_at.duration_since(UNIX_EPOCH);
    let isid = session.isid.iter().map(|byte| format!("{byte:02x}"));
    let parameters = &session.parameters;
    json!({
        "tsih": session.tsih,
        "type": match session.session_type {
            SessionType::Normal => "normal",
            SessionType::Discovery => "discovery",
        },
        "initiator": session.initiator.as_str(),
        "isid": isid.collect::<String>(),
        "target": session.target.as_ref().map(|(target, _)| target.name.as_str()),
        "portal_group_tag": session.target.as_ref().map(|(_, port)| port.portal_group_tag),
        "account": session.account,
        "peer": session.peer,
        "portal": session.local,
        "logged_in_at": logged_in_at.map(|logged_in_at| logged_in_at.as_secs()).unwrap_or_default(),
        "reactor": session.reactor(),
        "commands": session.counters.commands,
        "data_in_bytes": session.counters.data_in_bytes,
        "data_out_bytes": session.counters.data_out_bytes,
        "parameters": {
            "header_digest": parameters.header_digest,
            "data_digest": parameters.data_digest,
            "initial_r2t": parameters.initial_r2t,
            "immediate_data": parameters.immediate_data,
            "initiator_max_recv_data_segment_length": parameters.initiator_max_recv_data_segment_length,
            "target_max_recv_data_segment_length": parameters.target_max_recv_data_segment_length,
            "max_burst_length": parameters.max_burst_length,
            "first_burst_length": parameters.first_burst_length,
            "max_outstanding_r2t": parameters.max_outstanding_r2t,
        },
    })
}
