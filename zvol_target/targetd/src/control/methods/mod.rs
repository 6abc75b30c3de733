//! The methods of the control socket, one module for each noun.

mod access;
mod accounts;
mod luns;
mod portals;
mod sessions;
mod statistics;
mod status;
mod targets;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::json_rpc::{Methods, RpcError, code};
use crate::service::{Closing, Service, ServiceError};

/// How long a deletion waits for the commands of what it deleted.
const CLOSING_TIMEOUT: Duration = Duration::from_secs(20);

/// The methods, on a service.
pub struct ControlMethods {
    service: Rc<RefCell<Service>>,
    engine: status::Engine,
}

impl ControlMethods {
    /// Methods on `service`; `engine` is what `status` says of the reactors.
    pub fn new(service: Rc<RefCell<Service>>, engine: status::Engine) -> Self {
        Self { service, engine }
    }
}

pub use status::Engine;

impl Methods for ControlMethods {
    async fn call(&self, method: &str, params: Map<String, Value>) -> Result<Value, RpcError> {
        let result = self.dispatch(method, params).await;
        match &result {
            // The parameters may hold secrets, and are not logged.
            Ok(_) if is_question(method) => tracing::debug!(method, "control"),
            Ok(_) => tracing::info!(method, "control"),
            Err(error) => tracing::info!(method, %error, "control refused"),
        }
        result
    }
}

impl ControlMethods {
    async fn dispatch(&self, method: &str, params: Map<String, Value>) -> Result<Value, RpcError> {
        let service = &*self.service;
        match method {
            "status" => {
                parse::<None>(params)?;
                Ok(status::status(&service.borrow(), &self.engine))
            }
            "targets.list" => {
                parse::<None>(params)?;
                Ok(targets::list(&service.borrow()))
            }
            "targets.create" => targets::create(&mut service.borrow_mut(), parse(params)?),
            "targets.delete" => {
                let closing = targets::delete(&mut service.borrow_mut(), &parse(params)?)?;
                Ok(closed(closing).await)
            }
            "luns.list" => luns::list(&service.borrow(), &parse(params)?),
            "luns.create" => luns::create(&mut service.borrow_mut(), &parse(params)?),
            "luns.delete" => {
                let closing = luns::delete(&mut service.borrow_mut(), &parse(params)?)?;
                Ok(closed(closing).await)
            }
            "luns.refresh" => luns::refresh(&mut service.borrow_mut(), &parse(params)?),
            "accounts.set" => accounts::set(&mut service.borrow_mut(), parse(params)?),
            "accounts.delete" => accounts::delete(&mut service.borrow_mut(), &parse(params)?),
            "access.set" => access::set(&mut service.borrow_mut(), &parse(params)?),
            "portals.list" => {
                parse::<None>(params)?;
                Ok(portals::list(&service.borrow()))
            }
            "sessions.list" => sessions::list(&service.borrow(), &parse(params)?),
            "statistics" => statistics::statistics(&service.borrow(), &parse(params)?),
            _ => Err(RpcError::new(
                code::METHOD_NOT_FOUND,
                format!("there is no method {method:?}"),
            )),
        }
    }
}

fn is_question(method: &str) -> bool {
    matches!(method.split_once('.'), None | Some((_, "list")))
}

/// Parameters of methods that take none.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct None {}

fn parse<T: DeserializeOwned>(params: Map<String, Value>) -> Result<T, RpcError> {
    serde_json::from_value(Value::Object(params))
        .map_err(|error| RpcError::new(code::INVALID_PARAMS, error.to_string()))
}

/// Waits, for a time, until what was removed has closed.
async fn closed(closing: Closing) -> Value {
    let until = tokio::time::Instant::now() + CLOSING_TIMEOUT;
    let mut pause = Duration::from_millis(1);
    while !closing.is_over() && tokio::time::Instant::now() < until {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(100));
    }
    serde_json::json!({"closed": closing.is_over()})
}

impl From<ServiceError> for RpcError {
    fn from(error: ServiceError) -> Self {
        let number = match error {
            ServiceError::NoTarget(_)
            | ServiceError::NoLun { .. }
            | ServiceError::NoAccount { .. } => code::NOT_FOUND,
            ServiceError::TargetDiffers(_) | ServiceError::LunDiffers { .. } => code::CONFLICT,
            ServiceError::Invalid(_) | ServiceError::Refused(_) => code::INVALID_PARAMS,
            ServiceError::Server(_) => code::INTERNAL_ERROR,
            ServiceError::Unusable(_) | ServiceError::Size { .. } => code::VOLUME,
            ServiceError::NotStored(_) => code::NOT_STORED,
        };
        Self::new(number, error.to_string())
    }
}

/// An iSCSI name as it is compared: in lower case.
fn canonical(name: &str) -> Result<String, RpcError> {
    let name: iscsi::IscsiName = name
        .parse()
        .map_err(|error| RpcError::new(code::INVALID_PARAMS, format!("{name:?}: {error}")))?;
    Ok(name.as_str().to_owned())
}
