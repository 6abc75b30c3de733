//! `luns.*`

use serde::Deserialize;
use serde_json::{Value, json};
use volume::Backend;

use super::{RpcError, canonical};
use crate::configuration::{Lun, Target};
use crate::service::{Closing, LunState, Service};

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
    luns.map(|lun| show(lun, service.lun_state(&target.name, lun.number)))
        .collect()
}

fn show(lun: &Lun, state: Option<&LunState>) -> Value {
    let mut shown = json!({
        "number": lun.number,
        "uuid": lun.uuid,
        "path": lun.path,
        "write_cache": lun.write_cache,
        "read_only": lun.read_only,
        "product": lun.product,
        "caching": lun.caching,
    });
    match state {
        Some(LunState::Serving { unit, backend }) => {
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
            shown["naa"] = json!(format!("naa.{:032x}", u128::from_be_bytes(unit.naa())));
            shown["serial_number"] = json!(unit.serial_number());
        }
        Some(LunState::Failed { reason }) => {
            shown["state"] = json!("failed");
            shown["reason"] = json!(reason.to_string());
        }
        None => shown["state"] = json!("failed"),
    }
    shown
}

fn show_one(service: &Service, target: &str, number: u16) -> Result<Value, RpcError> {
    let lun = service.lun(target, number)?;
    Ok(show(lun, service.lun_state(target, number)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Create {
    target: String,
    lun: Lun,
}

pub(super) fn create(service: &mut Service, params: &Create) -> Result<Value, RpcError> {
    let target = canonical(&params.target)?;
    let number = params.lun.number;
    let created = service.create_lun(&target, &params.lun)?;
    Ok(json!({"created": created, "lun": show_one(service, &target, number)?}))
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

pub(super) fn refresh(service: &mut Service, params: &Existing) -> Result<Value, RpcError> {
    let target = canonical(&params.target)?;
    service.refresh_lun(&target, params.number)?;
    Ok(json!({"lun": show_one(service, &target, params.number)?}))
}
