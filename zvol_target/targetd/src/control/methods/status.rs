//! `status`

use serde_json::{Value, json};

use super::portals;
use crate::service::{LunState, Service};

/// What the reactors run on.
#[derive(Clone, Debug)]
pub struct Engine {
    /// How many there are.
    pub reactors: usize,
    /// `io_uring` or `threads`.
    pub name: &'static str,
    /// Why not `io_uring`, when it was wanted.
    pub refusal: Option<String>,
}

pub(super) fn status(service: &Service, engine: &Engine) -> Value {
    let targets = &service.configuration().targets;
    let luns = || {
        let luns = targets.iter().flat_map(|target| {
            let luns = target.luns.iter();
            luns.map(|lun| service.lun_state(&target.name, lun.number))
        });
        luns.map(|state| matches!(state, Some(LunState::Serving { .. })))
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
    })
}
