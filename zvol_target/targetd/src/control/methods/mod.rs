// SPDX-License-Identifier: Apache-2.0
//! The methods of the control socket, one module for each noun.

mod access;
mod accounts;
mod host_groups;
mod luns;
mod portals;
mod reservations;
mod sessions;
mod space;
mod statistics;
mod status;
mod targets;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;

use super::json_rpc::{Methods, RpcError, code};
use crate::configuration::FileError;
use crate::service::{CLOSING_TIMEOUT, Closing, ServiceError, Shared};

/// The methods of a service.
pub struct ControlMethods {
    service: Shared,
    engine: status::Engine,
    /// Held during a change: one change at a time.
    change: Mutex<()>,
}

impl ControlMethods {
    /// Methods of `service`; `status` reports `engine`.
    pub fn new(service: Shared, engine: status::Engine) -> Self {
        Self {
            service,
            engine,
            change: Mutex::default(),
        }
    }
}

pub use status::Engine;

impl Methods for ControlMethods {
    async fn call(&self, method: &str, params: Map<String, Value>) -> Result<Value, RpcError> {
        let result = self.dispatch(method, params).await;
        match &result {
            // Parameters can contain secrets: do not log them.
            Ok(_) if is_question(method) || method == "lun.space" => {
                tracing::debug!(method, "control");
            }
            Ok(_) => tracing::info!(method, "control"),
            Err(error) => tracing::info!(method, %error, "control refused"),
        }
        result
    }
}

impl ControlMethods {
    async fn dispatch(&self, method: &str, params: Map<String, Value>) -> Result<Value, RpcError> {
        if method == "lun.space" {
            return space::of_lun(&self.service, parse(params)?).await;
        }
        if is_question(method) {
            return self.ask(method, params);
        }
        let (answer, closing) = {
            let _one_at_a_time = self.change.lock().await;
            let answer = self.change(method, params).await?;
            // The change is in the file; only now it is known to be stable.
            self.service.borrow_mut().sync()?;
            answer
        };
        match closing {
            Some(closing) => Ok(json!({"closed": closing.wait(CLOSING_TIMEOUT).await})),
            None => Ok(answer),
        }
    }

    fn ask(&self, method: &str, params: Map<String, Value>) -> Result<Value, RpcError> {
        let service = &*self.service.borrow();
        match method {
            "status" => {
                parse::<None>(params)?;
                Ok(status::status(service, &self.engine))
            }
            "targets.list" => {
                parse::<None>(params)?;
                Ok(targets::list(service))
            }
            "luns.list" => luns::list(service, &parse(params)?),
            "portals.list" => {
                parse::<None>(params)?;
                Ok(portals::list(service))
            }
            "host_groups.list" => {
                parse::<None>(params)?;
                Ok(host_groups::list(service))
            }
            "reservations.list" => reservations::list(service, &parse(params)?),
            "space.get" => {
                parse::<None>(params)?;
                Ok(space::get(service))
            }
            "unknown_initiators.list" => {
                parse::<None>(params)?;
                Ok(sessions::unknown(service))
            }
            "sessions.list" => {
                parse::<None>(params)?;
                Ok(sessions::list(service))
            }
            "statistics.get" => statistics::get(service, &parse(params)?),
            _ => Err(unknown(method)),
        }
    }

    /// Makes a change. Returns its answer, or what must close before the answer.
    async fn change(
        &self,
        method: &str,
        params: Map<String, Value>,
    ) -> Result<(Value, Option<Closing>), RpcError> {
        let service = &self.service;
        let answer = match method {
            "targets.create" => targets::create(&mut service.borrow_mut(), parse(params)?),
            "targets.delete" => {
                let closing = targets::delete(&mut service.borrow_mut(), &parse(params)?)?;
                return Ok((Value::Null, Some(closing)));
            }
            "luns.create" => luns::create(service, parse(params)?).await,
            "luns.change" => luns::change(service, parse(params)?).await,
            "luns.delete" => {
                let closing = luns::delete(&mut service.borrow_mut(), &parse(params)?)?;
                return Ok((Value::Null, Some(closing)));
            }
            "luns.refresh" => luns::refresh(service, &parse(params)?).await,
            "accounts.set" => accounts::set(&mut service.borrow_mut(), parse(params)?),
            "accounts.delete" => accounts::delete(&mut service.borrow_mut(), &parse(params)?),
            "accounts.require" => accounts::require(&mut service.borrow_mut(), &parse(params)?),
            "access.set" => access::set(&mut service.borrow_mut(), parse(params)?),
            "host_groups.set" => host_groups::set(&mut service.borrow_mut(), parse(params)?),
            "host_groups.delete" => host_groups::delete(&mut service.borrow_mut(), &parse(params)?),
            "reservations.clear" => reservations::clear(service, parse(params)?).await,
            "reservations.forget" => reservations::forget(service, parse(params)?).await,
            "portals.create" => portals::create(&mut service.borrow_mut(), parse(params)?),
            "portals.change" => portals::change(&mut service.borrow_mut(), &parse(params)?),
            "portals.delete" => portals::delete(&mut service.borrow_mut(), &parse(params)?),
            "space.set_pool" => space::set_pool(&mut service.borrow_mut(), parse(params)?),
            _ => Err(unknown(method)),
        };
        Ok((answer?, None))
    }
}

fn is_question(method: &str) -> bool {
    matches!(method.split_once('.'), None | Some((_, "list" | "get")))
}

fn unknown(method: &str) -> RpcError {
    RpcError::new(
        code::METHOD_NOT_FOUND,
        format!("there is no method {method:?}"),
    )
}

/// Parameters of methods without parameters.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct None {}

fn parse<T: DeserializeOwned>(params: Map<String, Value>) -> Result<T, RpcError> {
    serde_json::from_value(Value::Object(params))
        .map_err(|error| RpcError::new(code::INVALID_PARAMS, error.to_string()))
}

impl From<ServiceError> for RpcError {
    fn from(error: ServiceError) -> Self {
        let number = match error {
            ServiceError::NoTarget(_)
            | ServiceError::NoLun { .. }
            | ServiceError::NoAccount { .. }
            | ServiceError::NoPortal(_)
            | ServiceError::NoHostGroup(_) => code::NOT_FOUND,
            ServiceError::TargetDiffers(_)
            | ServiceError::LunDiffers { .. }
            | ServiceError::PortalDiffers(_) => code::CONFLICT,
            ServiceError::Invalid(_) | ServiceError::Refused(_) => code::INVALID_PARAMS,
            ServiceError::Unusable(_)
            | ServiceError::Size { .. }
            | ServiceError::ReservationsNotStored { .. } => code::VOLUME,
            ServiceError::NotStored(FileError::NotStable { .. }) => code::NOT_STABLE,
            ServiceError::NotStored(_) => code::NOT_STORED,
            ServiceError::Key(_) | ServiceError::NoAccounts => code::KEY,
            ServiceError::PortalsGiven | ServiceError::Server(_) => code::PORTAL,
            ServiceError::Busy { .. } | ServiceError::StillSharing { .. } => code::BUSY,
        };
        Self::new(number, error.to_string())
    }
}

/// The object with other settings; `null` removes one, or restores its default.
fn with_settings<T: Serialize + DeserializeOwned>(
    object: &T,
    settings: Map<String, Value>,
) -> Result<T, RpcError> {
    let mut content = json!(object);
    for (name, value) in settings {
        content[name] = value;
    }
    serde_json::from_value(content)
        .map_err(|error| RpcError::new(code::INVALID_PARAMS, error.to_string()))
}

/// An iSCSI name in the form for comparisons: lower case.
fn canonical(name: &str) -> Result<String, RpcError> {
    let name: iscsi::IscsiName = name
        .parse()
        .map_err(|error| RpcError::new(code::INVALID_PARAMS, format!("{name:?}: {error}")))?;
    Ok(name.as_str().to_owned())
}
