// SPDX-License-Identifier: Apache-2.0
//! `access.*`

use serde::Deserialize;
use serde_json::{Value, json};

use super::{RpcError, canonical};
use crate::configuration::Access;
use crate::service::Service;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Set {
    target: String,
    /// Absent: the target itself.
    number: Option<u16>,
    initiators: Access,
}

pub(super) fn set(service: &mut Service, params: Set) -> Result<Value, RpcError> {
    let target = canonical(&params.target)?;
    match params.number {
        None => service.set_target_access(&target, params.initiators)?,
        Some(number) => service.set_lun_access(&target, number, params.initiators)?,
    }
    Ok(json!({}))
}
