//! `statistics`

use scsi::{FamilyStatistics, LogicalUnit, Statistics};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{RpcError, canonical};
use crate::configuration::{Lun, Target};
use crate::service::{LunState, Service};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Of {
    target: Option<String>,
}

pub(super) fn statistics(service: &Service, params: &Of) -> Result<Value, RpcError> {
    let wanted = params.target.as_deref().map(canonical).transpose()?;
    if let Some(name) = &wanted {
        service.target(name)?;
    }
    let targets = service.configuration().targets.iter();
    let mut shown = Vec::new();
    for target in targets.filter(|target| wanted.as_ref().is_none_or(|name| *name == target.name)) {
        for lun in &target.luns {
            if let Some(LunState::Serving { unit, .. }) =
                service.lun_state(&target.name, lun.number)
            {
                shown.push(show(target, lun, unit));
            }
        }
    }
    Ok(json!({"luns": shown}))
}

fn show(target: &Target, lun: &Lun, unit: &LogicalUnit) -> Value {
    let Statistics {
        read,
        write,
        verify,
        synchronize_cache,
        other,
        aborted,
        unit_attentions,
    } = unit.statistics();
    json!({
        "target": target.name,
        "number": lun.number,
        "uuid": lun.uuid,
        "read": family(&read),
        "write": family(&write),
        "verify": family(&verify),
        "synchronize_cache": family(&synchronize_cache),
        "other": family(&other),
        "aborted": aborted,
        "unit_attentions": unit_attentions,
    })
}

fn family(family: &FamilyStatistics) -> Value {
    json!({"operations": family.operations, "bytes": family.bytes, "errors": family.errors})
}
