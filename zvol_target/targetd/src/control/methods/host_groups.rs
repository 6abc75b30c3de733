// SPDX-License-Identifier: Apache-2.0
//! `host_groups.*`

use serde::Deserialize;
use serde_json::{Value, json};

use super::RpcError;
use crate::configuration::HostGroup;
use crate::service::Service;

pub(super) fn list(service: &Service) -> Value {
    json!({"host_groups": service.configuration().host_groups})
}

pub(super) fn set(service: &mut Service, group: HostGroup) -> Result<Value, RpcError> {
    service.set_host_group(group)?;
    Ok(json!({}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Delete {
    name: String,
}

pub(super) fn delete(service: &mut Service, params: &Delete) -> Result<Value, RpcError> {
    service.delete_host_group(&params.name)?;
    Ok(json!({}))
}
