// SPDX-License-Identifier: Apache-2.0
//! `accounts.*`

use serde::Deserialize;
use serde_json::{Value, json};

use super::{RpcError, canonical, code};
use crate::configuration::{Access, Account, Direction, SecretText, Target};
use crate::service::{AccountSetting, Service};

fn direction(mutual: bool) -> Direction {
    if mutual {
        Direction::Mutual
    } else {
        Direction::Incoming
    }
}

/// Does not return secrets. For `targets.list`.
pub(super) fn show(service: &Service, target: &Target) -> Value {
    let show = |account: &Account| match &account.initiators {
        Some(names) => json!({"name": account.name, "initiators": names}),
        None => json!({"name": account.name, "initiators": Access::any()}),
    };
    let accounts = &target.authentication;
    let problem = service.accounts_problem(target);
    json!({
        "required": accounts.required,
        "incoming": accounts.incoming.iter().map(show).collect::<Vec<_>>(),
        "mutual": accounts.mutual.as_ref().map(|account| &account.name),
        "problem": problem.map(|problem| problem.to_string()),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Set {
    target: String,
    name: String,
    secret: SecretText,
    initiators: Option<Names>,
    #[serde(default)]
    mutual: bool,
}

/// Like [`Access`], but the names are checked with the account.
#[derive(Deserialize)]
#[serde(untagged)]
enum Names {
    List(Vec<String>),
    Word(String),
}

/// The initiators that may use the account; `None`: all.
///
/// # Errors
/// If an account of initiators has no list. Otherwise anyone with its secret could log in with any name, and end that host's
/// sessions.
fn initiators(given: Option<Names>, mutual: bool) -> Result<Option<Vec<String>>, RpcError> {
    let refused = || {
        RpcError::new(
            code::INVALID_PARAMS,
            "initiators: name the initiators that may use the account, or write \"any\"",
        )
    };
    match given {
        Some(Names::List(names)) => {
            let names = names.iter().map(|name| canonical(name));
            let mut names = names.collect::<Result<Vec<_>, _>>()?;
            names.sort();
            Ok(Some(names))
        }
        Some(Names::Word(word)) if word == "any" => Ok(None),
        None if mutual => Ok(None),
        _ => Err(refused()),
    }
}

pub(super) fn set(service: &mut Service, params: Set) -> Result<Value, RpcError> {
    let initiators = initiators(params.initiators, params.mutual)?;
    service.set_account(&AccountSetting {
        target: canonical(&params.target)?,
        direction: direction(params.mutual),
        name: params.name,
        secret: params.secret,
        initiators,
    })?;
    Ok(json!({}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Require {
    target: String,
    required: bool,
}

pub(super) fn require(service: &mut Service, params: &Require) -> Result<Value, RpcError> {
    let target = canonical(&params.target)?;
    service.require_accounts(&target, params.required)?;
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
    let target = canonical(&params.target)?;
    service.delete_account(&target, direction(params.mutual), &params.name)?;
    Ok(json!({}))
}
