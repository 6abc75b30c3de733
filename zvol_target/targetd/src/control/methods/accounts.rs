//! `accounts.*`

use serde::Deserialize;
use serde_json::{Value, json};

use super::{RpcError, canonical};
use crate::configuration::{Account, SecretText};
use crate::service::Service;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Set {
    target: String,
    name: String,
    secret: SecretText,
    initiator: Option<String>,
    #[serde(default)]
    mutual: bool,
}

pub(super) fn set(service: &mut Service, params: Set) -> Result<Value, RpcError> {
    let account = Account {
        name: params.name,
        secret: params.secret,
        initiator: params.initiator.as_deref().map(canonical).transpose()?,
    };
    service.set_account(&canonical(&params.target)?, account, params.mutual)?;
    Ok(json!({}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Delete {
    target: String,
    name: String,
    #[serde(default)]
    mutual: bool,
}

pub(super) fn delete(service: &mut Service, params: &Delete) -> Result<Value, RpcError> {
    service.delete_account(&canonical(&params.target)?, &params.name, params.mutual)?;
    Ok(json!({}))
}
