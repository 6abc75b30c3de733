// SPDX-License-Identifier: Apache-2.0
//! JSON-RPC 2.0 (jsonrpc.org/specification): decodes messages, calls methods, encodes answers.

use serde::Serialize;
use serde_json::{Map, Value, json};

/// An error of the protocol.
#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// Number of the error, see [`code`].
    pub code: i64,
    /// One sentence: what failed, and why.
    pub message: String,
}

/// Error numbers: those of the specification, and from -32000 down those of this daemon.
pub mod code {
    /// The message is not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// The JSON is not a request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method does not exist.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters are invalid.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The named object does not exist.
    pub const NOT_FOUND: i64 = -32001;
    /// Another object has the same name or number.
    pub const CONFLICT: i64 = -32002;
    /// The path cannot be served as a volume.
    pub const VOLUME: i64 = -32003;
    /// The configuration file could not be written; nothing was changed.
    pub const NOT_STORED: i64 = -32004;
    /// The change was made and stored, but a power cut may undo it.
    pub const NOT_STABLE: i64 = -32005;
    /// The key for secrets is missing, or a secret cannot be read.
    pub const KEY: i64 = -32006;
    /// The portal cannot be opened, or portals cannot be changed.
    pub const PORTAL: i64 = -32007;
    /// Running commands did not end in time; nothing was changed.
    pub const BUSY: i64 = -32008;
}

impl RpcError {
    /// An error with a number of [`code`].
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

/// The methods of a server.
pub trait Methods {
    /// Calls a method; `params` has its parameters by name.
    ///
    /// # Errors
    /// The error for the answer.
    fn call(
        &self,
        method: &str,
        params: Map<String, Value>,
    ) -> impl Future<Output = Result<Value, RpcError>>;
}

/// Answers one request.
pub async fn answer(message: &[u8], methods: &impl Methods) -> Value {
    let request = match serde_json::from_slice::<Value>(message) {
        Ok(request) => Request::try_from(request),
        Err(error) => {
            let error = RpcError::new(code::PARSE_ERROR, format!("not JSON: {error}"));
            return failure(&Value::Null, &error);
        }
    };
    let Request { id, method, params } = match request {
        Ok(request) => request,
        Err((id, error)) => return failure(&id, &error),
    };
    let result = match params {
        Ok(params) => methods.call(&method, params).await,
        Err(error) => Err(error),
    };
    match result {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(error) => failure(&id, &error),
    }
}

fn failure(id: &Value, error: &RpcError) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": error})
}

struct Request {
    id: Value,
    method: String,
    params: Result<Map<String, Value>, RpcError>,
}

impl TryFrom<Value> for Request {
    type Error = (Value, RpcError);

    fn try_from(request: Value) -> Result<Self, Self::Error> {
        let refuse = |id: Value, what: &str| (id, RpcError::new(code::INVALID_REQUEST, what));
        let Value::Object(mut request) = request else {
            return Err(refuse(Value::Null, "a request is an object"));
        };
        let Some(id @ (Value::String(_) | Value::Number(_))) = request.remove("id") else {
            return Err(refuse(Value::Null, "id must be a string or a number"));
        };
        if request.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(refuse(id, "jsonrpc must be \"2.0\""));
        }
        let Some(Value::String(method)) = request.remove("method") else {
            return Err(refuse(id, "method must be a string"));
        };
        let params = match request.remove("params") {
            None => Ok(Map::new()),
            Some(Value::Object(params)) => Ok(params),
            Some(Value::Array(_)) => Err(RpcError::new(
                code::INVALID_PARAMS,
                "parameters are given by name, not by position",
            )),
            Some(_) => return Err(refuse(id, "params must be an object")),
        };
        Ok(Self { id, method, params })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds `a` and `b`.
    struct Adder;

    impl Methods for Adder {
        async fn call(&self, method: &str, params: Map<String, Value>) -> Result<Value, RpcError> {
            if method != "add" {
                return Err(RpcError::new(code::METHOD_NOT_FOUND, method));
            }
            let number = |name| params.get(name).and_then(Value::as_i64);
            match (number("a"), number("b")) {
                (Some(a), Some(b)) => Ok(json!(a + b)),
                _ => Err(RpcError::new(code::INVALID_PARAMS, "a and b")),
            }
        }
    }

    async fn of(message: &str) -> Value {
        answer(message.as_bytes(), &Adder).await
    }

    #[tokio::test(flavor = "current_thread")]
    async fn requests_are_answered_with_their_id() {
        let request = r#"{"jsonrpc":"2.0","id":"x","method":"add","params":{"a":1,"b":2}}"#;
        assert_eq!(
            of(request).await,
            json!({"jsonrpc": "2.0", "id": "x", "result": 3})
        );
    }

    #[tokio::test(flavor = "current_thread")]
    async fn errors_have_the_specifications_numbers() {
        for (message, number, id) in [
            ("{", code::PARSE_ERROR, json!(null)),
            ("[]", code::INVALID_REQUEST, json!(null)),
            ("1", code::INVALID_REQUEST, json!(null)),
            (
                r#"{"jsonrpc":"2.0","method":"add"}"#,
                code::INVALID_REQUEST,
                json!(null),
            ),
            (
                r#"{"id":7,"method":"add"}"#,
                code::INVALID_REQUEST,
                json!(7),
            ),
            (
                r#"{"jsonrpc":"2.0","id":{},"method":"add"}"#,
                code::INVALID_REQUEST,
                json!(null),
            ),
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"sub"}"#,
                code::METHOD_NOT_FOUND,
                json!(7),
            ),
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"add","params":[1,2]}"#,
                code::INVALID_PARAMS,
                json!(7),
            ),
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"add","params":1}"#,
                code::INVALID_REQUEST,
                json!(7),
            ),
        ] {
            let answer = of(message).await;
            assert_eq!(answer["error"]["code"], number, "{message}");
            assert_eq!(answer["id"], id, "{message}");
        }
    }
}
