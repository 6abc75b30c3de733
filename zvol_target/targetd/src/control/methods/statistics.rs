// SPDX-License-Identifier: Apache-2.0
//! `statistics.get`

use scsi::{
    Family, FamilyStatistics, LATENCY_BUCKETS, LatencyHistogram, OffloadStatistics, Statistics,
};
use serde::Deserialize;
use serde_json::{Value, json};

use volume::copy::FallbackReason;

use super::{RpcError, canonical};
use crate::configuration::Target;
use crate::service::Service;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Of {
    target: Option<String>,
}

pub(super) fn get(service: &Service, params: &Of) -> Result<Value, RpcError> {
    let requested = params.target.as_deref().map(canonical).transpose()?;
    let targets: Vec<&Target> = match &requested {
        Some(name) => vec![service.target(name)?],
        None => service.configuration().targets.iter().collect(),
    };
    let (mut luns, mut hosts) = (Vec::new(), Vec::new());
    for target in targets {
        for lun in &target.luns {
            if let Some(running) = service.running_lun(&target.name, lun.number) {
                let who = json!({"target": target.name, "number": lun.number, "uuid": lun.uuid});
                luns.push(counted(who, &running.unit.statistics()));
            }
        }
        let Some(device) = service.device(&target.name) else {
            continue;
        };
        for (initiator, statistics) in device.device().host_statistics() {
            let who = json!({"target": target.name, "initiator": initiator});
            hosts.push(counted(who, &statistics));
        }
    }
    let bounds = (0..LATENCY_BUCKETS).map_while(LatencyHistogram::upper_bound_microseconds);
    Ok(json!({
        "latency_bounds_microseconds": bounds.collect::<Vec<_>>(),
        "luns": luns,
        "hosts": hosts,
    }))
}

/// Adds the counters to the object that identifies their owner.
fn counted(mut who: Value, statistics: &Statistics) -> Value {
    for (family, name) in Family::ALL {
        who[name] = show(&statistics[family]);
    }
    who["offload"] = show_offload(&statistics.offload);
    who["aborted"] = json!(statistics.aborted);
    who
}

fn show_offload(offload: &OffloadStatistics) -> Value {
    let OffloadStatistics {
        cloned_bytes,
        copied_bytes,
        zeroed_bytes,
        unmapped_bytes,
        miscompares,
        fallback_bytes,
    } = offload;
    let fallbacks: serde_json::Map<_, _> = FallbackReason::ALL
        .into_iter()
        .map(|reason| {
            (
                reason_name(reason).to_owned(),
                json!(fallback_bytes[reason as usize]),
            )
        })
        .collect();
    json!({
        "cloned_bytes": cloned_bytes,
        "copied_bytes": copied_bytes,
        "zeroed_bytes": zeroed_bytes,
        "unmapped_bytes": unmapped_bytes,
        "miscompares": miscompares,
        "fallback_bytes": fallbacks,
    })
}

fn reason_name(reason: FallbackReason) -> &'static str {
    match reason {
        FallbackReason::Unsupported => "unsupported",
        FallbackReason::Unaligned => "unaligned",
        FallbackReason::OtherPool => "other_pool",
        FallbackReason::OtherBlockSize => "other_block_size",
        FallbackReason::OtherKey => "other_key",
        FallbackReason::Dirty => "dirty",
        FallbackReason::Thick => "thick",
        FallbackReason::Failed => "failed",
    }
}

fn show(family: &FamilyStatistics) -> Value {
    let FamilyStatistics {
        operations,
        bytes,
        errors,
        medium_errors,
        latency,
    } = family;
    let used = latency.counts.iter().rposition(|&count| count > 0);
    let counts = &latency.counts[..used.map_or(0, |last| last + 1)];
    json!({
        "operations": operations,
        "bytes": bytes,
        "errors": errors,
        "medium_errors": medium_errors,
        "latency": {"total_microseconds": latency.total_microseconds, "counts": counts},
    })
}
