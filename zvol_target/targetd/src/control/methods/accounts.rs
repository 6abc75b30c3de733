// SPDX-License-Identifier: Apache-2.0
//! `accounts.*`

use serde::Deserialize;
use serde_json::{Value, json};

use super::{RpcError, canonical, code};
use crate::configuration::{Account, Direction, Holder, SecretText};
use crate::service::{AccountSetting, Service};

/// Whose accounts: exactly one of the two is given.
fn holder(target: Option<&str>, discovery: bool) -> Result<Holder, RpcError> {
    match (target, discovery) {
        (Some(name), false) => Ok(Holder::Target(canonical(name)?)),
        (None, true) => Ok(Holder::Discovery),
        _ => Err(RpcError::new(
            code::INVALID_PARAMS,
            "give a target's name, or \"discovery\": true",
        )),
    }
}

fn direction(mutual: bool) -> Direction {
    if mutual {
        Direction::Mutual
    } else {
        Direction::Incoming
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    target: Option<String>,
    #[serde(default)]
    discovery: bool,
}

pub(super) fn list(service: &Service, params: &List) -> Result<Value, RpcError> {
    show(
        service,
        &holder(params.target.as_deref(), params.discovery)?,
    )
}

/// Secrets stay here.
pub(super) fn show(service: &Service, holder: &Holder) -> Result<Value, RpcError> {
    let show = |account: &Account| json!({"name": account.name, "initiators": account.initiators});
    let accounts = service.accounts(holder)?;
    let problem = service.accounts_problem(holder)?;
    Ok(json!({
        "required": accounts.are_required(),
        "incoming": accounts.incoming.iter().map(show).collect::<Vec<_>>(),
        "mutual": accounts.mutual.as_ref().map(|account| &account.name),
        "problem": problem.map(|problem| problem.to_string()),
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Set {
    target: Option<String>,
    #[serde(default)]
    discovery: bool,
    name: String,
    secret: SecretText,
    initiators: Option<Vec<String>>,
    #[serde(default)]
    mutual: bool,
}

pub(super) fn set(service: &mut Service, params: Set) -> Result<Value, RpcError> {
    let initiators = params.initiators.map(|names| {
        let mut names = names
            .iter()
            .map(|name| canonical(name))
            .collect::<Result<Vec<_>, _>>()?;
        names.sort();
        Ok::<_, RpcError>(names)
    });
    service.set_account(&AccountSetting {
        holder: holder(params.target.as_deref(), params.discovery)?,
        direction: direction(params.mutual),
        name: params.name,
        secret: params.secret,
        initiators: initiators.transpose()?,
    })?;
    Ok(json!({}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Require {
    target: Option<String>,
    #[serde(default)]
    discovery: bool,
    required: bool,
}

pub(super) fn require(service: &mut Service, params: &Require) -> Result<Value, RpcError> {
    let holder = holder(params.target.as_deref(), params.discovery)?;
    service.require_accounts(&holder, params.required)?;
    Ok(json!({}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Delete {
    target: Option<String>,
    #[serde(default)]
    discovery: bool,
    name: String,
    #[serde(default)]
    mutual: bool,
}

pub(super) fn delete(service: &mut Service, params: &Delete) -> Result<Value, RpcError> {
    let holder = holder(params.target.as_deref(), params.discovery)?;
    service.delete_account(&holder, direction(params.mutual), &params.name)?;
    Ok(json!({}))
}
