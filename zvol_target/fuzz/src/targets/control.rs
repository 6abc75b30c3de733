// SPDX-License-Identifier: Apache-2.0
//! The control socket: lines of JSON-RPC, and its methods on a private service.
//!
//! Input: lines. Paths and addresses in them are replaced, so that nothing outside the fuzzer's folder is opened.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use iscsi::{Server, ServerOptions};
use serde_json::{Map, Value};
use targetd::configuration::{Configuration, ConfigurationFile};
use targetd::control::json_rpc::{Methods, RpcError, answer};
use targetd::control::{ControlMethods, Engine};
use targetd::service::{Parts, Service};
use tempfile::TempDir;
use volume::engine::EngineChoice;

use super::configuration::folder;
use crate::memory;

/// Most lines of one input.
const MOST_LINES: usize = 16;
/// Memory limit for the answers: two threads, a server, the answers.
const CONTROL_MEMORY: usize = 128 << 20;
/// A configuration without portals, and also without the default portal.
const NOWHERE: &str = r#"{"version": 2, "portals": []}"#;
/// A volume's size.
const VOLUME_BYTES: u64 = 1 << 20;

thread_local! {
    static FOLDER: TempDir = folder();
}

/// Checks that every request has one answer in JSON-RPC's form, and that the resulting configuration can be read again.
pub fn run(data: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let tasks = tokio::task::LocalSet::new();
    memory::bounded(CONTROL_MEMORY, || tasks.block_on(&runtime, converse(data)));
}

async fn converse(data: &[u8]) {
    for line in data.split(|&byte| byte == b'\n').take(MOST_LINES) {
        check_answer(line, &answer(line, &Nothing).await);
    }
    // The service costs threads and files: start it only for valid lines.
    let lines: Vec<Value> = data
        .split(|&byte| byte == b'\n')
        .take(MOST_LINES)
        .filter_map(|line| serde_json::from_slice(line).ok())
        .filter(has_method)
        .collect();
    if !lines.is_empty() {
        serve(lines).await;
    }
}

fn has_method(value: &Value) -> bool {
    value["method"].is_string() && value["jsonrpc"] == "2.0"
}

async fn serve(lines: Vec<Value>) {
    let folder = FOLDER.with(|folder| folder.path().to_owned());
    let path = folder.join("configuration");
    for name in ["a", "b"] {
        let file = std::fs::File::create(folder.join(name)).expect("a file in memory");
        file.set_len(VOLUME_BYTES).expect("a file in memory");
    }
    std::fs::write(&path, NOWHERE).expect("a file in memory");
    let opened = ConfigurationFile::open(&path);
    let (file, configuration, vault) = opened.expect("a configuration of nothing");
    let service = Service::start(Parts {
        file,
        configuration,
        vault,
        server: Server::new(ServerOptions::default()).expect("threads"),
        listen: Vec::new(),
        engine: EngineChoice::ThreadPool,
    });
    let service = Rc::new(RefCell::new(
        service.await.expect("an empty service starts"),
    ));
    let engine = Engine {
        reactors: 1,
        name: "threads",
        refusal: None,
    };
    let methods = ControlMethods::new(Rc::clone(&service), engine);
    for mut line in lines {
        confine(&mut line, &folder);
        let line = serde_json::to_vec(&line).expect("JSON");
        check_answer(&line, &answer(&line, &methods).await);
    }
    let configured = service.borrow().configuration().clone();
    assert!(service.borrow_mut().stop().0, "no commands are running");
    drop((methods, service));
    assert_eq!(stored(&path), configured);
}

fn stored(path: &Path) -> Configuration {
    ConfigurationFile::open(path)
        .expect("what the service stored")
        .1
}

/// Replaces every path by one in `folder`, and every address by a port of this machine that the system chooses.
fn confine(value: &mut Value, folder: &Path) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| confine(value, folder)),
        Value::Object(members) => {
            for (name, value) in members {
                match (name.as_str(), &*value) {
                    ("path", Value::String(path)) => {
                        let name = if path.len() % 2 == 0 { "a" } else { "b" };
                        *value = folder.join(name).to_string_lossy().into();
                    }
                    ("address", Value::String(address)) => {
                        let parsed = address.parse().is_ok_and(|_: std::net::SocketAddr| true);
                        if parsed {
                            *value = "127.0.0.1:0".into();
                        }
                    }
                    _ => confine(value, folder),
                }
            }
        }
        _ => {}
    }
}

/// JSON-RPC 2.0: either result or error; the same id, or null.
fn check_answer(line: &[u8], answer: &Value) {
    let request = serde_json::from_slice::<Value>(line).unwrap_or_default();
    let id = &answer["id"];
    assert!(id.is_null() || *id == request["id"]);
    assert_eq!(answer["jsonrpc"], "2.0");
    assert!(answer.get("result").is_some() != answer.get("error").is_some());
    if let Some(error) = answer.get("error") {
        assert!(error["code"].is_i64() && error["message"].is_string());
    }
}

/// No methods.
struct Nothing;

impl Methods for Nothing {
    async fn call(&self, method: &str, _: Map<String, Value>) -> Result<Value, RpcError> {
        Err(RpcError::new(
            targetd::control::json_rpc::code::METHOD_NOT_FOUND,
            method,
        ))
    }
}
