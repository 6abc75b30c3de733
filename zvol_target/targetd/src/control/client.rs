// SPDX-License-Identifier: Apache-2.0
//! `zvaai-target call`: calls one method of a running daemon.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::json_rpc::RpcError;

/// Longest accepted answer, bytes.
const MOST_ANSWER_BYTES: u64 = 64 << 20;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error texts name the fields")]
pub enum CallError {
    /// No connection.
    #[error("cannot connect to {}: {error}; is the daemon running, and are you root, its user or an allowed user?", path.display())]
    Connect {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    /// The connection failed, or was closed without an answer.
    #[error("the daemon did not answer: {0}")]
    NoAnswer(#[from] io::Error),
    /// The daemon returned an error.
    #[error(transparent)]
    Refused(#[from] RpcError),
}

/// Calls `method` with `params` (an object) of the daemon at `socket`, and returns the result.
///
/// # Errors
/// [`CallError`].
pub fn call(socket: &Path, method: &str, params: &Value) -> Result<Value, CallError> {
    let mut stream = UnixStream::connect(socket).map_err(|error| CallError::Connect {
        path: socket.to_owned(),
        error,
    })?;
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    writeln!(stream, "{request}")?;
    let mut line = Vec::new();
    BufReader::new(stream.take(MOST_ANSWER_BYTES)).read_until(b'\n', &mut line)?;
    let mut answer: Value = serde_json::from_slice(&line).map_err(io::Error::from)?;
    if let Some(error) = answer.get("error") {
        let text = |name| error.get(name).and_then(Value::as_str).unwrap_or_default();
        let code = error.get("code").and_then(Value::as_i64);
        return Err(RpcError::new(code.unwrap_or_default(), text("message")).into());
    }
    Ok(answer["result"].take())
}
