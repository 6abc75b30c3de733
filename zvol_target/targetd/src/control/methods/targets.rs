//! `targets.*`

use serde::Deserialize;
use serde_json::{Value, json};

use super::{RpcError, canonical, luns};
use crate::configuration::Target;
use crate::service::{Closing, Service};

pub(super) fn list(service: &Service) -> Value {
    let targets = service.configuration().targets.iter();
    let shown: Vec<_> = targets.map(|target| show(service, target)).collect();
    json!({"targets": shown})
}

/// Secrets stay here.
fn show(service: &Service, target: &Target) -> Value {
    let accounts = target.accounts.iter();
    json!({
        "name": target.name,
        "alias": target.alias,
        "initiators": target.initiators,
        "accounts": accounts
            .map(|account| json!({"name": account.name, "initiator": account.initiator}))
            .collect::<Vec<_>>(),
        "mutual_account": target.mutual_account.as_ref().map(|account| &account.name),
        "luns": luns::show_all(service, target),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Create {
    name: String,
    alias: Option<String>,
}

pub(super) fn create(service: &mut Service, params: Create) -> Result<Value, RpcError> {
    let created = service.create_target(&canonical(&params.name)?, params.alias)?;
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
