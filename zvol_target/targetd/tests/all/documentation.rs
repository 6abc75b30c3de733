// SPDX-License-Identifier: Apache-2.0
//! Runs the examples of docs/control.md, in their order, on the real daemon.

use std::process::{Child, Command, Stdio};

use crate::common::{Daemon, Home, free_address, wait_until};
use serde_json::{Value, json};
use targetd::control::client::CallError;

const TEXT: &str = include_str!("../../../docs/control.md");

/// Members that differ between runs: only their presence is checked.
const CHANGING: [&str; 10] = [
    "address",
    "configuration",
    "counts",
    "engine",
    "initiator_port",
    "isid",
    "parameters",
    "peer",
    "pool",
    "portal",
];

/// Code blocks with the language `json`, their info strings and texts.
fn blocks() -> Vec<(&'static str, &'static str)> {
    let parts = TEXT.split("```json ").skip(1);
    parts
        .map(|part| {
            let (kind, rest) = part.split_once('\n').unwrap();
            (kind, rest.split_once("```").unwrap().0)
        })
        .collect()
}

/// Compares members and texts; all numbers are equal.
fn assert_alike(documented: &Value, answered: &Value, place: &str) {
    match (documented, answered) {
        (Value::Object(documented), Value::Object(answered)) => {
            let names = |object: &serde_json::Map<String, Value>| {
                object.keys().cloned().collect::<Vec<_>>()
            };
            assert_eq!(names(documented), names(answered), "{place}");
            for (name, value) in documented {
                if CHANGING.contains(&name.as_str()) {
                    continue;
                }
                assert_alike(value, &answered[name], &format!("{place}.{name}"));
            }
        }
        (Value::Array(documented), Value::Array(answered)) => {
            assert_eq!(documented.len(), answered.len(), "{place}");
            for (at, pair) in documented.iter().zip(answered).enumerate() {
                assert_alike(pair.0, pair.1, &format!("{place}[{at}]"));
            }
        }
        (Value::Number(_), Value::Number(_)) if place != "response.code" => {}
        (documented, answered) => assert_eq!(documented, answered, "{place}"),
    }
}

/// A client that stays logged in, for `sessions.list`.
struct Initiator(Child);

impl Initiator {
    fn log_in(daemon: &Daemon) -> Self {
        let url = format!(
            "iscsi://{}/iqn.2026-11.example.zvaai:first/0",
            daemon.portal
        );
        let child = Command::new("iscsi-perf")
            .args(["-i", "iqn.1998-01.com.vmware:esx1", "-t", "600", &url])
            .stdout(Stdio::null())
            // It prints an error when its LUN is deleted.
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let initiator = Self(child);
        wait_until("a session", || {
            let sessions = daemon.call("sessions.list", &json!({}));
            sessions["sessions"]
                .as_array()
                .is_some_and(|list| !list.is_empty())
        });
        initiator
    }
}

impl Drop for Initiator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn examples_are_answered_as_documented() {
    let home = Home::new();
    home.volume("first", 64);
    // Other portals than in the documentation, so that tests can run in parallel.
    let ports = [free_address("127.0.0.1"), free_address("127.0.0.1")];
    let first = json!({"version": 2, "portals": [{"address": ports[0]}]});
    std::fs::write(home.path("target.json"), first.to_string()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_zvaai-target"));
    command
        .arg("serve")
        .arg("--config")
        .arg(home.path("target.json"))
        .arg("--control")
        .arg(home.path("control.sock"));
    let daemon = Daemon::spawn(&home, &mut command);
    let directory = home.0.path().to_str().unwrap();
    let here = |text: &str| {
        let text = text.replace("/srv/volumes", directory);
        let text = text.replace("127.0.0.1:3260", &ports[0].to_string());
        text.replace("127.0.0.1:3261", &ports[1].to_string())
    };
    let mut initiator = None;
    let mut answer = Value::Null;
    for (kind, text) in blocks() {
        let example: Value =
            serde_json::from_str(&here(text)).unwrap_or_else(|error| panic!("{error}: {text}"));
        match kind {
            "request" => {
                let method = example["method"].as_str().unwrap();
                if method == "sessions.list" {
                    initiator = Some(Initiator::log_in(&daemon));
                }
                if method == "space.get" {
                    wait_until("a scan of the space", || {
                        let space = daemon.call("space.get", &json!({}));
                        space["luns"]
                            .as_array()
                            .is_some_and(|list| !list.is_empty())
                    });
                }
                let params = example.get("params").cloned().unwrap_or(json!({}));
                answer = match daemon.try_call(method, &params) {
                    Ok(result) => result,
                    Err(CallError::Refused(error)) => json!(error),
                    Err(error) => panic!("{method}: {error}"),
                };
            }
            "response" => {
                println!("{answer}");
                assert_alike(&example, &answer, "response");
            }
            other => panic!("a block of sort {other:?}"),
        }
    }
    assert!(initiator.is_some());
}

#[test]
fn every_method_has_an_example() {
    let source = include_str!("../../src/control/methods/mod.rs");
    let methods = source
        .lines()
        .filter_map(|line| line.trim().strip_prefix('"')?.split_once("\" =>"))
        .map(|(method, _)| method);
    let mut count = 0;
    for method in methods {
        count += 1;
        assert!(
            TEXT.contains(&format!("\n## {method}\n")),
            "{method} has no section"
        );
        assert!(
            TEXT.contains(&format!("{{\"method\": \"{method}\"")),
            "{method} has no example"
        );
    }
    assert!(count >= 22, "the methods were not found in the source");
}
