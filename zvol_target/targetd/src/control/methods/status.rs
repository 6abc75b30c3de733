// SPDX-License-Identifier: Apache-2.0
//! `status`

use serde_json::{Value, json};

use super::portals;
use crate::service::{LunState, Service};

/// The I/O engine of the reactors.
#[derive(Clone, Debug)]
pub struct Engine {
    /// Number of reactors.
    pub reactors: usize,
    /// `io_uring` or `threads`.
    pub name: &'static str,
    /// Why not `io_uring`, if it was configured.
    pub refusal: Option<String>,
}

pub(super) fn status(service: &Service, engine: &Engine) -> Value {
    let targets = &service.configuration().targets;
    let luns = || {
        let luns = targets.iter().flat_map(|target| {
            let luns = target.luns.iter();
            luns.map(|lun| service.running_lun(&target.name, lun.number))
        });
        luns.map(|lun| lun.is_some_and(|lun| matches!(lun.state, LunState::Serving { .. })))
    };
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "process_id": std::process::id(),
        "uptime_seconds": service.started().elapsed().as_secs(),
        "configuration": service.configuration_path(),
        "portals": portals::show_all(service),
        "reactors": engine.reactors,
        "engine": {"name": engine.name, "refusal": engine.refusal},
        "targets": targets.len(),
        "luns_serving": luns().filter(|serving| *serving).count(),
        "luns_failed": luns().filter(|serving| !serving).count(),
        "sessions": service.sessions().len(),
        "resident_bytes": resident_bytes(),
    })
}

/// Resident memory of the process, bytes (proc(5): the second field of statm, in pages); `None` without /proc.
fn resident_bytes() -> Option<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size())
}
