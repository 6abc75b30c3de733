// SPDX-License-Identifier: Apache-2.0
//! `space.*`

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;
use volume::Growth;

use super::{RpcError, with_settings};
use crate::configuration::{Lun, PoolSettings, Target};
use crate::control::json_rpc::code;
use crate::service::{Service, Shared};
use crate::space::{Counted, LunSpace, Usage, usage};

pub(super) fn get(service: &Service) -> Value {
    let report = &service.space;
    let pools = report.pools.iter().map(|(name, pool)| {
        let settings = service.configuration().pools.iter();
        let settings = settings.clone().find(|settings| settings.name == *name);
        json!({
            "pool": name,
            "total_bytes": pool.total_bytes,
            "available_bytes": pool.available_bytes,
            "headroom_bytes": pool.headroom_bytes,
            "soft_threshold": settings.and_then(|settings| settings.soft_threshold),
            "problem": pool.problem,
        })
    });
    let targets = service.configuration().targets.iter();
    let luns = targets.flat_map(|target| target.luns.iter().map(move |lun| (target, lun)));
    let luns =
        luns.filter_map(|(target, lun)| Some(show(target, lun, report.luns.get(&lun.uuid)?)));
    json!({"pools": pools.collect::<Vec<_>>(), "luns": luns.collect::<Vec<_>>()})
}

fn show(target: &Target, lun: &Lun, space: &LunSpace) -> Value {
    json!({
        "target": target.name,
        "number": lun.number,
        "uuid": lun.uuid,
        "pool": space.pool,
        "dataset": space.dataset,
        "provisioning": lun.provisioning,
        "growth": match space.growth {
            Growth::Allowed | Growth::Limited(_) => "allowed",
            Growth::Refused => "refused",
        },
        "used_bytes": space.used_bytes,
        "available_bytes": space.available_bytes,
        "held_bytes": space.held_bytes,
        "headroom_bytes": space.headroom_bytes,
        "problem": space.problem,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OfLun {
    uuid: Uuid,
}

/// `lun.space`
pub(super) async fn of_lun(service: &Shared, params: OfLun) -> Result<Value, RpcError> {
    let uuid = params.uuid;
    let usage = usage(service, uuid).await.ok_or_else(|| {
        RpcError::new(
            code::NOT_FOUND,
            format!("no LUN with the UUID {uuid} is served"),
        )
    })?;
    let seconds = |time: SystemTime| {
        let elapsed = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        elapsed.as_secs_f64()
    };
    Ok(match usage {
        Usage::Counted(Counted { as_of, usage }) => json!({
            "allocated_bytes": usage.allocated_bytes,
            "shared_bytes": usage.shared_bytes,
            "unique_bytes": usage.allocated_bytes.saturating_sub(usage.shared_bytes),
            "unique_exact": true,
            "snapshot_bytes": usage.snapshot_bytes,
            "deduplicated_bytes": usage.deduplicated_bytes,
            "as_of": seconds(as_of),
        }),
        Usage::AtMost(bytes) => json!({
            "allocated_bytes": bytes,
            "shared_bytes": null,
            "unique_bytes": bytes,
            "unique_exact": false,
            "snapshot_bytes": null,
            "deduplicated_bytes": null,
            "as_of": seconds(SystemTime::now()),
        }),
    })
}

#[derive(Deserialize)]
pub(super) struct SetPool {
    pool: String,
    #[serde(flatten)]
    settings: Map<String, Value>,
}

pub(super) fn set_pool(service: &mut Service, params: SetPool) -> Result<Value, RpcError> {
    let mut pools = service.configuration().pools.iter();
    let present = pools.find(|pool| pool.name == params.pool).cloned();
    let present = present.unwrap_or(PoolSettings {
        name: params.pool,
        headroom_bytes: None,
        soft_threshold: None,
    });
    if params.settings.contains_key("name") {
        return Err(RpcError::new(code::INVALID_PARAMS, "unknown field `name`"));
    }
    service.set_pool(with_settings(&present, params.settings)?)?;
    Ok(json!({}))
}
