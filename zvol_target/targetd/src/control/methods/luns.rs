// SPDX-License-Identifier: Apache-2.0
//! `luns.*`

use std::path::PathBuf;

use scsi::Designator;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use volume::Backend;
use volume::zfs::Sync;

use super::{RpcError, canonical};
use crate::configuration::{Access, DatasetGuid, Lun, ProvisioningChoice, Target, Threshold};
use crate::service::{
    self, Closing, LunChange, LunState, ReservationPlace, RunningLun, Service, Setting, Shared,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    target: String,
}

pub(super) fn list(service: &Service, params: &List) -> Result<Value, RpcError> {
    let target = service.target(&canonical(&params.target)?)?;
    Ok(json!({"luns": show_all(service, target)}))
}

pub(super) fn show_all(service: &Service, target: &Target) -> Vec<Value> {
    let luns = target.luns.iter();
    luns.map(|lun| show(service, lun, service.running_lun(&target.name, lun.number)))
        .collect()
}

fn show(service: &Service, lun: &Lun, running: Option<&RunningLun>) -> Value {
    let mut shown = json!({
        "number": lun.number,
        "uuid": lun.uuid,
        "path": lun.path,
        "write_cache": lun.write_cache,
        "read_only": lun.read_only,
        "product": lun.product,
        "initiators": lun.initiators,
        "provisioning": lun.provisioning,
    });
    if let Some(guid) = lun.guid {
        shown["guid"] = json!(guid);
    }
    if let Some(retained) = &lun.designation {
        shown["designation"] = json!(retained);
    }
    if let Some(directory) = &lun.reservations {
        shown["reservations"] = json!(directory);
    }
    if let Some(threshold) = lun.soft_threshold {
        shown["soft_threshold"] = json!(threshold);
    }
    let Some(RunningLun { unit, state }) = running else {
        return shown;
    };
    let naa = unit.designators().into_iter().find(Designator::is_naa);
    shown["naa"] = json!(naa.map(|naa| naa.to_string()));
    shown["serial_number"] = json!(unit.serial_number());
    match state {
        LunState::Serving { backend } => {
            let geometry = unit.volume().geometry();
            shown["state"] = json!("serving");
            shown["backend"] = json!(match backend {
                Backend::File => "file",
                Backend::Block => "block",
                Backend::Zvol => "zvol",
            });
            shown["size_bytes"] = json!(geometry.size_bytes);
            shown["logical_block_bytes"] = json!(geometry.logical_block_bytes);
            shown["physical_block_bytes"] = json!(geometry.physical_block_bytes);
            let space = service.space.luns.get(&lun.uuid);
            if let Some(reserved) = space.and_then(|space| space.refreservation_bytes) {
                shown["refreservation_bytes"] = json!(reserved);
                let thick = lun.provisioning == ProvisioningChoice::Thick;
                let covered = thick.then_some(reserved >= geometry.size_bytes);
                shown["covered"] = json!(covered);
            }
            if *backend == Backend::Zvol {
                let sync = space.and_then(|space| space.sync);
                let risks = durability_risks(sync, unit.volume().is_write_through());
                shown["durability_risks"] = json!(risks);
            }
        }
        LunState::Failed { reason } => {
            shown["state"] = json!("failed");
            shown["reason"] = json!(reason.to_string());
            if let Some(guid) = reason.other_dataset() {
                shown["dataset_guid"] = json!(guid);
            }
        }
        LunState::Changing => shown["state"] = json!("changing"),
    }
    shown
}

/// Why a power cut can lose completed writes of a zvol. `sync` is `None` until the figures of its pool were read.
fn durability_risks(sync: Option<Sync>, write_through: bool) -> Vec<&'static str> {
    let mut risks = Vec::new();
    if sync == Some(Sync::Disabled) {
        risks.push("sync_disabled");
    }
    // With `sync=always`, the intent log has every write, even if the block layer drops the flags.
    if write_through && sync != Some(Sync::Always) {
        risks.push("write_through");
    }
    risks
}

fn show_one(service: &Service, target: &str, number: u16) -> Result<Value, RpcError> {
    let lun = service.lun(target, number)?;
    Ok(show(service, lun, service.running_lun(target, number)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Create {
    target: String,
    lun: Lun,
}

pub(super) async fn create(service: &Shared, params: Create) -> Result<Value, RpcError> {
    let target = canonical(&params.target)?;
    let created = service::create_lun(service, &target, &params.lun).await?;
    let lun = show_one(&service.borrow(), &target, params.lun.number)?;
    Ok(json!({"created": created, "lun": lun}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    target: String,
    number: u16,
    path: Option<PathBuf>,
    #[serde(default)]
    guid: Setting<Option<DatasetGuid>>,
    write_cache: Option<bool>,
    read_only: Option<bool>,
    product: Option<String>,
    initiators: Option<Access>,
    /// `null` removes the directory; an absent field does not change it.
    #[serde(default, deserialize_with = "present")]
    reservations: Option<ReservationPlace>,
    provisioning: Option<ProvisioningChoice>,
    #[serde(default)]
    soft_threshold: Setting<Option<Threshold>>,
}

fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<ReservationPlace>, D::Error> {
    Option::deserialize(value).map(|directory: Option<_>| Some(directory.into()))
}

pub(super) async fn change(service: &Shared, params: Change) -> Result<Value, RpcError> {
    let target = canonical(&params.target)?;
    let number = params.number;
    let change = LunChange {
        path: params.path,
        guid: params.guid,
        write_cache: params.write_cache,
        read_only: params.read_only,
        product: params.product,
        initiators: params.initiators,
        reservations: params.reservations,
        provisioning: params.provisioning,
        soft_threshold: params.soft_threshold,
    };
    let changed = service::change_lun(service, &target, number, change).await?;
    let lun = show_one(&service.borrow(), &target, number)?;
    Ok(json!({"changed": changed, "lun": lun}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Existing {
    target: String,
    number: u16,
}

pub(super) fn delete(service: &mut Service, params: &Existing) -> Result<Closing, RpcError> {
    Ok(service.delete_lun(&canonical(&params.target)?, params.number)?)
}

pub(super) async fn refresh(service: &Shared, params: &Existing) -> Result<Value, RpcError> {
    let target = canonical(&params.target)?;
    service::refresh_lun(service, &target, params.number).await?;
    Ok(json!({"lun": show_one(&service.borrow(), &target, params.number)?}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_at_risk_unless_the_intent_log_has_them() {
        assert!(durability_risks(None, false).is_empty());
        assert!(durability_risks(Some(Sync::Standard), false).is_empty());
        assert!(durability_risks(Some(Sync::Always), true).is_empty());
        let both = ["sync_disabled", "write_through"];
        assert_eq!(durability_risks(Some(Sync::Disabled), true), both);
        assert_eq!(durability_risks(None, true), both[1..]);
    }
}
