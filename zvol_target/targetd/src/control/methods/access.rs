//! `access.set`

use serde::Deserialize;
use serde_json::{Value, json};

use super::{RpcError, canonical};
use crate::service::Service;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Set {
    target: String,
    initiators: Vec<String>,
}

pub(super) fn set(service: &mut Service, params: &Set) -> Result<Value, RpcError> {
    let initiators = params.initiators.iter().map(|name| canonical(name));
    let initiators = initiators.collect::<Result<_, _>>()?;
    service.set_initiators(&canonical(&params.target)?, initiators)?;
    Ok(json!({}))
}
