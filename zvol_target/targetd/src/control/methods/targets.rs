// SPDX-License-Identifier: Apache-2.0
//! `targets.*`

use serde::Deserialize;
use serde_json::{Value, json};

use super::{RpcError, accounts, canonical, luns};
use crate::configuration::{Access, Target};
use crate::service::{Closing, Service};

pub(super) fn list(service: &Service) -> Value {
    let targets = service.configuration().targets.iter();
    let shown: Vec<_> = targets.map(|target| show(service, target)).collect();
    json!({"targets": shown})
}

fn show(service: &Service, target: &Target) -> Value {
    json!({
        "name": target.name,
        "initiators": target.initiators,
        "accounts": accounts::show(service, target),
        "luns": luns::show_all(service, target),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Create {
    name: String,
    initiators: Option<Access>,
}

pub(super) fn create(service: &mut Service, params: Create) -> Result<Value, RpcError> {
    let name = canonical(&params.name)?;
    let created = service.create_target(&name, params.initiators)?;
    Ok(json!({"created": created}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Delete {
    name: String,
}

pub(super) fn delete(service: &mut Service, params: &Delete) -> Result<Closing, RpcError> {
    Ok(service.delete_target(&canonical(&params.name)?)?)
}
