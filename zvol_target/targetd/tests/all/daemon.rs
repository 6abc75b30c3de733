// SPDX-License-Identifier: Apache-2.0
//! The daemon's life: start, refused start, changes, crash, restart, stop.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};

use crate::common::{Daemon, HOST, Home, IQN, Initiator, lun, run, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn what_was_answered_is_there_after_kill_9() {
    let home = Home::new();
    let volume = home.volume("volume", 16);
    let daemon = Daemon::start(&home);
    daemon.create_target();
    let created = daemon.create_lun(0, &volume);
    daemon.call(
        "accounts.set",
        &json!({"target": IQN, "name": "host", "secret": "a secret nobody sees", "initiators": "any"}),
    );
    daemon.call(
        "access.set",
        &json!({"target": IQN, "initiators": ["iqn.2026-11.example:HOST"]}),
    );
    let before = daemon.call("targets.list", &json!({}));
    assert_eq!(before["targets"][0]["luns"][0], created["lun"]);
    assert_eq!(
        before["targets"][0]["initiators"][0],
        "iqn.2026-11.example:host"
    );
    daemon.signal(Signal::KILL);
    daemon.wait();
    let daemon = Daemon::start(&home);
    assert_eq!(daemon.call("targets.list", &json!({})), before);
}

#[test]
fn creating_again_is_no_error_and_other_content_is() {
    let home = Home::new();
    let volume = home.volume("volume", 16);
    let daemon = Daemon::start(&home);
    daemon.create_target();
    let again = daemon.call("targets.create", &json!({"name": IQN.to_uppercase()}));
    assert_eq!(again, json!({"created": false}));
    assert_eq!(daemon.create_lun(3, &volume)["created"], true);
    assert_eq!(daemon.create_lun(3, &volume)["created"], false);
    let mut other = lun(3, &volume);
    other["read_only"] = json!(true);
    let refused = |lun: &Value| daemon.refusal("luns.create", &json!({"target": IQN, "lun": lun}));
    assert_eq!(refused(&other), -32002);
    let mut same_identity = lun(4, &home.volume("other", 1));
    same_identity["uuid"] = lun(3, &volume)["uuid"].clone();
    assert_eq!(refused(&same_identity), -32602);
    assert_eq!(refused(&lun(5, &volume)), -32003, "a volume is served once");
    assert_eq!(refused(&lun(20000, &home.path("other"))), -32602);
    assert_eq!(refused(&json!({"number": 6, "colour": "red"})), -32602);
    let unknown = json!({"target": "iqn.2026-11.example:none", "lun": lun(0, &volume)});
    assert_eq!(daemon.refusal("luns.create", &unknown), -32001);
    let listed = daemon.call("luns.list", &json!({"target": IQN}));
    assert_eq!(listed["luns"].as_array().map(Vec::len), Some(1));
}

#[test]
fn the_volume_of_a_deleted_lun_is_free() {
    let home = Home::new();
    let volume = home.volume("volume", 16);
    let daemon = Daemon::start(&home);
    daemon.create_target();
    daemon.create_lun(0, &volume);
    let which = json!({"target": IQN, "number": 0});
    assert_eq!(daemon.call("luns.delete", &which), json!({"closed": true}));
    assert_eq!(daemon.refusal("luns.delete", &which), -32001);
    let again = json!({"target": IQN, "lun": lun(1, &volume)});
    wait_until("the volume to be free", || {
        daemon.try_call("luns.create", &again).is_ok()
    });
    let deleted = daemon.call("targets.delete", &json!({"name": IQN}));
    assert_eq!(deleted, json!({"closed": true}));
    let text = fs::read_to_string(home.path("target.json")).unwrap();
    assert!(!text.contains(IQN));
}

#[test]
fn a_missing_path_stops_no_other_lun_and_is_served_when_it_appears() {
    let home = Home::new();
    let (here, gone) = (home.volume("here", 16), home.volume("gone", 16));
    let daemon = Daemon::start(&home);
    daemon.create_target();
    daemon.create_lun(0, &here);
    daemon.create_lun(1, &gone);
    daemon.signal(Signal::KILL);
    daemon.wait();
    fs::rename(&gone, home.path("elsewhere")).unwrap();
    let daemon = Daemon::start(&home);
    let state =
        |number: usize| daemon.call("luns.list", &json!({"target": IQN}))["luns"][number].clone();
    assert_eq!(state(0)["state"], "serving");
    assert_eq!(state(1)["state"], "failed");
    let reason = state(1)["reason"].as_str().unwrap().to_owned();
    assert!(
        reason.contains(gone.to_str().unwrap()) && reason.contains("no such file"),
        "{reason}"
    );
    assert_eq!(daemon.call("status", &json!({}))["luns_failed"], 1);
    fs::rename(home.path("elsewhere"), &gone).unwrap();
    let refreshed = daemon.call("luns.refresh", &json!({"target": IQN, "number": 1}));
    assert_eq!(refreshed["lun"]["state"], "serving");
    drop(daemon);

    // Also without a request.
    fs::rename(&gone, home.path("elsewhere")).unwrap();
    let daemon = Daemon::start(&home);
    fs::rename(home.path("elsewhere"), &gone).unwrap();
    wait_until("the LUN to be served", || {
        daemon.call("status", &json!({}))["luns_failed"] == 0
    });
}

#[test]
fn a_start_waits_until_another_process_closes_the_volume() {
    let home = Home::new();
    let volume = home.volume("volume", 16);
    {
        let daemon = Daemon::start(&home);
        daemon.create_target();
        daemon.create_lun(0, &volume);
    }
    let held = fs::File::open(&volume).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let log = home.path("log");
    let released = std::thread::spawn(move || {
        wait_until("the daemon to wait", || {
            fs::read_to_string(&log).unwrap().contains("waiting until")
        });
        drop(held);
    });
    // `start` returns when the portal is open: the LUN must be served by then.
    let daemon = Daemon::start(&home);
    let listed = daemon.call("luns.list", &json!({"target": IQN}));
    assert_eq!(listed["luns"][0]["state"], "serving", "{listed}");
    released.join().unwrap();
}

#[test]
fn an_invalid_configuration_is_refused_and_not_changed() {
    let home = Home::new();
    let file = home.path("target.json");
    let target =
        |rest: &str| format!(r#"{{"version": 2, "targets": [{{"name": "{IQN}"{rest}}}]}}"#);
    for (text, said) in [
        (
            "{\n\"version\": 2,\n\"targets\": [}".to_owned(),
            "line 3 column",
        ),
        (
            "{\n\"version\": 3}".to_owned(),
            "version: 3 is not supported",
        ),
        (target(r#", "colour": "red""#), "unknown field `colour`"),
        (
            target(
                r#", "luns": [{"number": 0, "uuid": "4f1c6d2e-903b-4a57-8c01-223344556677", "path": "disk"}]"#,
            ),
            "targets[0].luns[0].path: must be absolute",
        ),
        (
            target(
                "\n, \"authentication\": {\"required\": true, \"incoming\": [\n{\"name\": \"\",\n \"sealed_secret\": \"AAAA\"}]}",
            ),
            "targets[0].authentication.incoming[0].name",
        ),
        (
            r#"{"version": 2, "targets": [{"name": "disk"}]}"#.to_owned(),
            "targets[0].name",
        ),
    ] {
        fs::write(&file, &text).unwrap();
        let refusal = home.refused();
        assert!(refusal.contains(said), "{said:?} is not in {refusal}");
        assert!(refusal.contains(file.to_str().unwrap()), "{refusal}");
        assert!(!refusal.contains("short"), "a secret is shown: {refusal}");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
}

#[test]
fn a_change_that_cannot_be_stored_is_not_made() {
    let home = Home::new();
    let daemon = Daemon::start(&home);
    daemon.create_target();
    // A directory has the name of the temporary file, so that it cannot be removed as a file.
    fs::create_dir(home.path("target.json.new")).unwrap();
    let create = json!({"name": "iqn.2026-11.example:second", "initiators": "any"});
    assert_eq!(daemon.refusal("targets.create", &create), -32004);
    let listed = daemon.call("targets.list", &json!({}));
    assert_eq!(listed["targets"].as_array().map(Vec::len), Some(1));
    let discovered = run("iscsi-ls", &[&format!("iscsi://{}", daemon.portal)]);
    assert!(!discovered.contains("second"), "{discovered}");
    fs::remove_dir(home.path("target.json.new")).unwrap();
    assert_eq!(
        daemon.call("targets.create", &create),
        json!({"created": true})
    );
}

/// After a failed fsync(2) of a directory, its entries may not be stable.
#[test]
fn a_change_is_reported_as_unstable_until_it_is_stable() {
    let home = Home::new();
    let directory = home.0.path().to_str().unwrap();
    let mut strace = std::process::Command::new("strace");
    strace
        .args(["-f", "-qq", "-o"])
        .arg(home.path("strace"))
        .args(["-P", directory, "-e", "trace=fsync"])
        // The start creates the key and the file; the later calls belong to the change and to its answer.
        .args(["-e", "inject=fsync:error=EIO:when=3..4"])
        .arg(env!("CARGO_BIN_EXE_zvaai-target"))
        .args(home.command().get_args());
    let daemon = Daemon::spawn(&home, &mut strace);
    let create = json!({"name": IQN, "initiators": "any"});
    let refused = daemon.try_call("targets.create", &create).unwrap_err();
    let said = refused.to_string();
    assert!(
        said.contains("-32005") && said.contains("power cut"),
        "{said}"
    );
    // The daemon follows the file.
    let file = fs::read_to_string(home.path("target.json")).unwrap();
    assert!(file.contains(IQN));
    let discovered = run("iscsi-ls", &[&format!("iscsi://{}", daemon.portal)]);
    assert!(discovered.contains(IQN), "{discovered}");
    wait_until("the change to be stable", || {
        daemon.try_call("targets.create", &create).is_ok()
    });
    assert_eq!(
        daemon.call("targets.create", &create),
        json!({"created": false})
    );
    daemon.call("status", &json!({}));
    let process = daemon.call("status", &json!({}))["process_id"].clone();
    let process = rustix::process::Pid::from_raw(process.as_i64().unwrap() as i32).unwrap();
    rustix::process::kill_process(process, Signal::TERM).unwrap();
    assert!(daemon.wait().success());
}

#[test]
fn one_daemon_for_a_configuration_and_a_socket() {
    let home = Home::new();
    let first = Daemon::start(&home);
    let refusal = home.hindered();
    assert!(refusal.contains("target.json.lock is locked"), "{refusal}");
    let second = std::process::Command::new(env!("CARGO_BIN_EXE_zvaai-target"))
        .arg("serve")
        .arg("--config")
        .arg(home.path("other.json"))
        .arg("--control")
        .arg(home.path("control.sock"))
        .args(["--listen", "127.0.0.1:0"])
        .output()
        .unwrap();
    let refusal = String::from_utf8(second.stderr).unwrap();
    assert!(refusal.contains("control.sock.lock is locked"), "{refusal}");
    first.signal(Signal::KILL);
    first.wait();
    assert!(home.path("control.sock").exists(), "a stale socket");
    let after = Daemon::start(&home);
    after.call("status", &json!({}));
}

#[test]
fn a_file_at_the_sockets_path_is_not_replaced() {
    let home = Home::new();
    fs::write(home.path("control.sock"), "letters").unwrap();
    let refusal = home.hindered();
    assert!(refusal.contains("is not a socket"), "{refusal}");
    assert_eq!(
        fs::read_to_string(home.path("control.sock")).unwrap(),
        "letters"
    );
}

#[test]
fn sigterm_ends_it_in_order() {
    let home = Home::new();
    let manager = UnixDatagram::bind(home.path("notify")).unwrap();
    let mut command = home.command();
    command.env("NOTIFY_SOCKET", home.path("notify"));
    let daemon = Daemon::spawn(&home, &mut command);
    let next = || {
        let mut message = [0; 64];
        let length = manager.recv(&mut message).unwrap();
        String::from_utf8(message[..length].to_vec()).unwrap()
    };
    assert_eq!(next(), "READY=1");
    daemon.signal(Signal::TERM);
    assert_eq!(next(), "STOPPING=1");
    assert!(daemon.wait().success());
    assert!(!home.path("control.sock").exists());
}

#[test]
fn files_are_the_owners_and_secrets_are_nowhere_else() {
    const SECRET: &str = "a secret nobody sees";
    let home = Home::new();
    let daemon = Daemon::start(&home);
    daemon.create_target();
    for (name, mutual) in [("host", false), ("target", true)] {
        // One for each: what proves one side must not prove the other.
        let secret = format!("{SECRET}{name}");
        let params = json!({"target": IQN, "name": name, "secret": secret, "mutual": mutual, "initiators": "any"});
        daemon.call("accounts.set", &params);
    }
    let misplaced = json!({"target": IQN, "name": "x", "secret": [SECRET]});
    daemon.refusal("accounts.set", &misplaced);
    assert_eq!(mode(&home.path("target.json")), 0o600);
    assert_eq!(mode(&home.path("target.json.key")), 0o600);
    assert_eq!(mode(&home.path("control.sock")), 0o600);
    let file = fs::read_to_string(home.path("target.json")).unwrap();
    assert!(!file.contains(SECRET), "{file}");
    for method in ["targets.list", "status", "sessions.list", "statistics.get"] {
        let shown = daemon.call(method, &json!({})).to_string();
        assert!(!shown.contains(SECRET), "{shown}");
    }
    assert!(!daemon.log().contains(SECRET));
    let listed = daemon.call("targets.list", &json!({}));
    assert_eq!(listed["targets"][0]["accounts"]["mutual"], "target");
}

#[test]
fn a_refused_login_is_logged_with_its_initiator_and_cause() {
    let home = Home::new();
    let daemon = Daemon::start(&home);
    daemon.create_target();
    let refused = |name: &str, cause: &str| {
        let mut initiator = Initiator::connect(daemon.portal.parse().unwrap());
        let keys = [("InitiatorName", name), ("TargetName", IQN)];
        initiator.login_step(initiator.operational(), &keys);
        wait_until(cause, || {
            let log = daemon.log();
            let mut lines = log.lines().filter(|line| line.contains("login refused"));
            lines.any(|line| line.contains(name) && line.contains(cause))
        });
    };
    let access = json!({"target": IQN, "initiators": [HOST]});
    daemon.call("access.set", &access);
    let stranger = "iqn.2026-11.example:stranger";
    refused(stranger, &format!("no LUN of {IQN} is for this initiator"));
    let account =
        json!({"target": IQN, "name": "host", "secret": "a secret of a host", "initiators": "any"});
    daemon.call("accounts.set", &account);
    refused(HOST, "the initiator does not use AuthMethod=CHAP");
}

#[test]
fn logs_have_the_form_their_reader_takes() {
    let home = Home::new();
    let lines = |command: &mut std::process::Command| {
        let daemon = Daemon::spawn(&home, command);
        let log = daemon.log();
        drop(daemon);
        fs::remove_file(home.path("log")).unwrap();
        log.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let plain = lines(&mut home.command());
    let line = plain.iter().find(|line| line.contains("I/O engine"));
    let line = line.unwrap();
    assert!(line.starts_with("20") && line.contains("INFO") && line.contains("reactors="));
    // Standard error is the file `log`; JOURNAL_STREAM contains its device and inode.
    let log = fs::File::create(home.path("log")).unwrap();
    let metadata = log.metadata().unwrap();
    let stream = format!(
        "{}:{}",
        std::os::unix::fs::MetadataExt::dev(&metadata),
        std::os::unix::fs::MetadataExt::ino(&metadata)
    );
    let journal = lines(home.command().env("JOURNAL_STREAM", stream));
    let line = journal.iter().find(|line| line.contains("I/O engine"));
    assert!(line.unwrap().starts_with("<6> INFO"), "{journal:?}");
    assert!(journal.iter().all(|line| line.starts_with('<')));
}

#[test]
fn the_limit_of_open_files_is_the_hard_one() {
    let home = Home::new();
    let command = home.command();
    let mut limited = std::process::Command::new("sh");
    limited
        .args([
            "-c",
            "ulimit -S -n 100 && ulimit -H -n 500 && exec \"$@\"",
            "sh",
        ])
        .arg(command.get_program())
        .args(command.get_args());
    let daemon = Daemon::spawn(&home, &mut limited);
    let process = daemon.call("status", &json!({}))["process_id"].clone();
    let limits = fs::read_to_string(format!("/proc/{process}/limits")).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let values: Vec<_> = line.unwrap().split_whitespace().skip(3).take(2).collect();
    assert_eq!(values, ["500", "500"]);
}

#[test]
fn other_users_are_not_answered() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can become another user");
        return;
    }
    // In a directory that every user can reach, so that only the check of the peer can refuse.
    let home = Home(tempfile::tempdir().unwrap());
    let _daemon = Daemon::start(&home);
    let reachable = home.path("control.sock");
    for path in [home.0.path(), &reachable] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let program = home.path("zvaai-target");
    fs::copy(env!("CARGO_BIN_EXE_zvaai-target"), &program).unwrap();
    let call = |user: &str| {
        std::process::Command::new("setpriv")
            .args(["--clear-groups", "--reuid", user])
            .arg(&program)
            .args(["call", "status", "--control"])
            .arg(&reachable)
            .output()
            .unwrap()
    };
    let owner = call("0");
    assert!(
        owner.status.success(),
        "{}",
        String::from_utf8_lossy(&owner.stderr)
    );
    let stranger = call("65534");
    assert!(!stranger.status.success());
    let said = String::from_utf8_lossy(&stranger.stderr).into_owned();
    assert!(said.contains("did not answer"), "{said}");
}

#[test]
fn messages_are_lines_and_bounded() {
    let home = Home::new();
    let _daemon = Daemon::start(&home);
    let mut stream = UnixStream::connect(home.path("control.sock")).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    stream
        .write_all(b"nonsense\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"status\"}\n")
        .unwrap();
    assert_eq!(next()["error"]["code"], -32700);
    assert_eq!(next()["result"]["targets"], 0);
    // The daemon can close the connection before it has read everything.
    let _ = stream.write_all(&vec![b' '; (1 << 20) + 1]);
    assert_eq!(next()["error"]["code"], -32600);
    assert!(
        lines.next().is_none_or(|line| line.is_err()),
        "the connection is closed"
    );
}
