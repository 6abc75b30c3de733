// SPDX-License-Identifier: Apache-2.0
//! `reservations.*`

use std::path::PathBuf;

use scsi::RegisteredNexus;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{RpcError, canonical};
use crate::reservations::{Kind, key_name};
use crate::service::{self, Service, Shared};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Of {
    target: String,
    number: u16,
}

pub(super) fn list(service: &Service, params: &Of) -> Result<Value, RpcError> {
    let target = canonical(&params.target)?;
    let present = service.reservations(&target, params.number)?;
    let show = |nexus: &RegisteredNexus| {
        json!({
            "initiator_port": nexus.initiator_port,
            "relative_target_port": nexus.relative_target_port,
        })
    };
    let registrations = present.registrations.iter().map(|(nexus, &key)| {
        let mut shown = show(nexus);
        shown["key"] = json!(key_name(key));
        shown
    });
    let registrations: Vec<_> = registrations.collect();
    let reservation = present.reservation.as_ref().map(
        |held| json!({"type": Kind::from(held.kind), "holder": held.holder.as_ref().map(show)}),
    );
    Ok(json!({
        "registrations": registrations,
        "reservation": reservation,
    }))
}

pub(super) async fn clear(service: &Shared, params: Of) -> Result<Value, RpcError> {
    let target = canonical(&params.target)?;
    service::clear_reservations(service, &target, params.number).await?;
    Ok(json!({}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Forget {
    directory: PathBuf,
    uuid: Uuid,
}

pub(super) async fn forget(service: &Shared, params: Forget) -> Result<Value, RpcError> {
    let forgotten = service::forget_reservations(service, &params.directory, params.uuid).await?;
    Ok(json!({"forgotten": forgotten}))
}
