//! `space.*`

use serde::Deserialize;
use serde_json::{Value, json};
use volume::Growth;

use super::RpcError;
use crate::configuration::{Lun, PoolSettings, Target, Threshold};
use crate::service::Service;
use crate::space::LunSpace;

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
        "provisioning": if space.thick { "thick" } else { "thin" },
        "growth": match space.growth {
            Growth::Allowed | Growth::Limited(_) => "allowed",
            Growth::Refused => "refused",
        },
        "used_bytes": space.used_bytes,
        "available_bytes": space.available_bytes,
        "held_bytes": space.held_bytes,
        "slack_bytes": space.slack_bytes,
        "shared_bytes": space.shared_bytes,
        "problem": space.problem,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SetPool {
    pool: String,
    headroom_bytes: Option<u64>,
    soft_threshold: Option<Threshold>,
}

pub(super) fn set_pool(service: &mut Service, params: SetPool) -> Result<Value, RpcError> {
    service.set_pool(PoolSettings {
        name: params.pool,
        headroom_bytes: params.headroom_bytes,
        soft_threshold: params.soft_threshold,
    })?;
    Ok(json!({}))
}
