// SPDX-License-Identifier: Apache-2.0
//! Shared by the tests: the real daemon, on files in a temporary directory.

mod host;
#[path = "../../../../iscsi/tests/support/initiator.rs"]
#[allow(dead_code, reason = "the tests of iscsi use the rest")]
mod initiator;

pub use host::*;
pub use initiator::Initiator;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use targetd::control::client::{self, CallError};
use tempfile::TempDir;

pub const IQN: &str = "iqn.2026-11.example.zvaai:test";
const PATIENCE: Duration = Duration::from_secs(120);

/// The directory of a daemon and its volumes.
pub struct Home(pub TempDir);

impl Home {
    pub fn new() -> Self {
        Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Creates a sparse file to serve.
    pub fn volume(&self, name: &str, mebibytes: u64) -> PathBuf {
        let path = self.path(name);
        File::create(&path)
            .unwrap()
            .set_len(mebibytes << 20)
            .unwrap();
        path
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zvaai-target"));
        command
            .arg("serve")
            .arg("--config")
            .arg(self.path("target.json"))
            .arg("--control")
            .arg(self.path("control.sock"))
            .args(["--listen", "127.0.0.1:0", "--log", "debug"]);
        command
    }

    /// Starts a daemon that must refuse its configuration. Returns its output.
    pub fn refused(&self) -> String {
        const EX_CONFIG: i32 = 78;
        self.ended(EX_CONFIG)
    }

    /// Starts a daemon that must fail for a temporary reason. Returns its output.
    pub fn hindered(&self) -> String {
        self.ended(1)
    }

    fn ended(&self, code: i32) -> String {
        let output = self.command().output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        String::from_utf8(output.stderr).unwrap()
    }
}

/// A running daemon; killed when dropped.
pub struct Daemon {
    child: Child,
    control: PathBuf,
    log: PathBuf,
    /// First portal.
    pub portal: String,
}

impl Daemon {
    pub fn start(home: &Home) -> Self {
        Self::spawn(home, &mut home.command())
    }

    pub fn spawn(home: &Home, command: &mut Command) -> Self {
        let log = home.path("log");
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(
                File::options()
                    .create(true)
                    .append(true)
                    .open(&log)
                    .unwrap(),
            )
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        let portal = line
            .strip_prefix("ready ")
            .and_then(|portals| portals.split([' ', ',', '\n']).next())
            .unwrap_or_else(|| panic!("{line:?}: {}", std::fs::read_to_string(&log).unwrap()));
        Self {
            portal: portal.to_owned(),
            control: home.path("control.sock"),
            log,
            child,
        }
    }

    pub fn try_call(&self, method: &str, params: &Value) -> Result<Value, CallError> {
        client::call(&self.control, method, params)
    }

    pub fn call(&self, method: &str, params: &Value) -> Value {
        self.try_call(method, params)
            .unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// The error code of a refused call.
    pub fn refusal(&self, method: &str, params: &Value) -> i64 {
        match self.try_call(method, params) {
            Err(CallError::Refused(error)) => error.code,
            other => panic!("{method}: {other:?}"),
        }
    }

    pub fn create_target(&self) {
        let target = json!({"name": IQN, "initiators": "any"});
        self.call("targets.create", &target);
    }

    pub fn create_lun(&self, number: u16, path: &Path) -> Value {
        self.call(
            "luns.create",
            &json!({"target": IQN, "lun": lun(number, path)}),
        )
    }

    pub fn url(&self, number: u16) -> String {
        format!("iscsi://{}/{IQN}/{number}", self.portal)
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub fn wait(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address without a listener, below the ports that the system assigns to clients.
pub fn free_address(ip: &str) -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id() * 16;
    loop {
        let at = first + NEXT.fetch_add(1, Ordering::Relaxed);
        let address = SocketAddr::new(ip.parse().unwrap(), 20_000 + (at % 12_000) as u16);
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// A LUN whose identity follows from its number.
pub fn lun(number: u16, path: &Path) -> Value {
    json!({
        "number": number,
        "uuid": format!("4f1c6d2e-903b-4a57-8c01-2233445566{number:02x}"),
        "path": path,
    })
}

/// Standard output of a program that succeeds.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn fails(program: &str, arguments: &[&str]) -> bool {
    !Command::new(program)
        .args(arguments)
        .output()
        .unwrap()
        .status
        .success()
}

pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < until, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
