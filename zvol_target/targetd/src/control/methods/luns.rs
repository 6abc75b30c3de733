// SPDX-License-Identifier: Apache-2.0
//! `luns.*`

use scsi::Designator;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use volume::Backend;

use super::{RpcError, canonical, code, with_settings};
use crate::configuration::{Lun, Target};
use crate::service::{self, Closing, LunState, RunningLun, Service, Shared};

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
    let mut shown = json!(lun);
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
                Backend::Zvol => "zvol",
            });
            shown["size_bytes"] = json!(geometry.size_bytes);
            shown["physical_block_bytes"] = json!(geometry.physical_block_bytes);
            let space = service.space.luns.get(&lun.uuid);
            if let Some(reserved) = space.and_then(|space| space.refreservation_bytes) {
                shown["refreservation_bytes"] = json!(reserved);
                shown["covered"] = json!(space.and_then(|space| space.covered));
            }
            if *backend == Backend::Zvol {
                shown["write_through"] = json!(unit.volume().is_write_through());
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
pub(super) struct Change {
    target: String,
    number: u16,
    #[serde(flatten)]
    settings: Map<String, Value>,
}

pub(super) async fn change(service: &Shared, params: Change) -> Result<Value, RpcError> {
    let target = canonical(&params.target)?;
    let number = params.number;
    let new = changed(service.borrow().lun(&target, number)?, params.settings)?;
    let changed = service::change_lun(service, &target, new).await?;
    let lun = show_one(&service.borrow(), &target, number)?;
    Ok(json!({"changed": changed, "lun": lun}))
}

/// The LUN with other settings, but the same identity.
fn changed(lun: &Lun, settings: Map<String, Value>) -> Result<Lun, RpcError> {
    if let Some(name) = ["uuid", "designation"]
        .iter()
        .find(|&&name| settings.contains_key(name))
    {
        let reason = format!("{name} is part of the LUN's identity");
        return Err(RpcError::new(code::INVALID_PARAMS, reason));
    }
    with_settings(lun, settings)
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
    fn a_change_retains_the_other_settings_and_the_identity() {
        let lun: Lun = serde_json::from_value(json!({
            "number": 3, "uuid": "4f1c6d2e-903b-4a57-8c01-223344556677", "path": "/a", "guid": "7", "read_only": true,
            "initiators": ["iqn.2026-11.example:host"], "soft_threshold": {"percent": 80},
        }))
        .unwrap();
        let with = |settings: Value| {
            let settings = settings.as_object().unwrap().clone();
            changed(&lun, settings).map_err(|error| error.message)
        };
        assert_eq!(with(json!({})), Ok(lun.clone()));
        let expected = Lun {
            path: "/b".into(),
            guid: None,
            soft_threshold: None,
            ..lun.clone()
        };
        let settings = json!({"path": "/b", "guid": null, "soft_threshold": null});
        assert_eq!(with(settings), Ok(expected));
        for (settings, said) in [
            (json!({"uuid": null}), "uuid is part of"),
            (json!({"designation": {}}), "designation is part of"),
            (json!({"path": null}), "invalid type: null"),
            (json!({"initiators": null}), "\"any\" or a list"),
            (json!({"caching": "direct"}), "unknown field `caching`"),
            (json!({"read_only": 1}), "invalid type"),
        ] {
            let refused = with(settings.clone()).unwrap_err();
            assert!(refused.contains(said), "{settings}: {refused}");
        }
    }
}
