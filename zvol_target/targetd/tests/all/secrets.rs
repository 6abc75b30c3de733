// SPDX-License-Identifier: Apache-2.0
//! CHAP secrets in the file: sealed, readable only with the right key; without them nobody can log in.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::{Daemon, HOST, Home, IQN, fails, run};
use serde_json::{Value, json};

const SECRET: &str = "correct-horse-battery";
const OTHER: &str = "iqn.2026-11.example.zvaai:other";

/// A daemon with a target that requires CHAP, and an open one, with a LUN each.
fn guarded(home: &Home) -> Daemon {
    let daemon = Daemon::start(home);
    daemon.create_target();
    daemon.create_lun(0, &home.volume("volume", 16));
    daemon.call(
        "accounts.set",
        &json!({"target": IQN, "name": "host", "secret": SECRET, "initiators": "any"}),
    );
    daemon.call(
        "targets.create",
        &json!({"name": OTHER, "initiators": "any"}),
    );
    let lun = crate::common::lun(1, &home.volume("other", 16));
    daemon.call("luns.create", &json!({"target": OTHER, "lun": lun}));
    daemon
}

fn url(daemon: &Daemon, user: &str, target: &str, lun: u16) -> String {
    format!("iscsi://{user}{}/{target}/{lun}", daemon.portal)
}

fn with_secret(daemon: &Daemon) -> String {
    url(daemon, &format!("host%{SECRET}@"), IQN, 0)
}

fn configuration(home: &Home) -> Value {
    serde_json::from_slice(&fs::read(home.path("target.json")).unwrap()).unwrap()
}

/// Accounts of a target.
fn accounts_of(daemon: &Daemon, name: &str) -> Value {
    let listed = daemon.call("targets.list", &json!({}));
    let mut targets = listed["targets"].as_array().unwrap().iter();
    targets.find(|target| target["name"] == name).unwrap()["accounts"].clone()
}

/// The first target refuses all logins, with and without the secret; the open one is served.
fn assert_closed(daemon: &Daemon, said: &str) {
    assert!(fails("iscsi-inq", &[&with_secret(daemon)]));
    assert!(fails("iscsi-inq", &[&url(daemon, "", IQN, 0)]));
    run("iscsi-inq", &[&url(daemon, "", OTHER, 1)]);
    let accounts = accounts_of(daemon, IQN);
    let problem = accounts["problem"].as_str().unwrap();
    assert!(problem.contains(said), "{problem}");
    assert!(
        daemon.log().contains("CHAP accounts cannot be used"),
        "{}",
        daemon.log()
    );
}

#[test]
fn secrets_survive_a_restart_sealed() {
    let home = Home::new();
    drop(guarded(&home));
    let daemon = Daemon::start(&home);
    run("iscsi-inq", &[&with_secret(&daemon)]);
    assert!(fails("iscsi-inq", &[&url(&daemon, "", IQN, 0)]));
    let accounts = accounts_of(&daemon, IQN);
    assert_eq!(
        accounts,
        json!({"required": true, "incoming": [{"name": "host", "initiators": "any"}], "mutual": null, "problem": null})
    );
}

#[test]
fn without_the_key_logins_fail_until_it_is_restored() {
    let home = Home::new();
    drop(guarded(&home));
    let (key, moved) = (home.path("target.json.key"), home.path("moved"));
    fs::rename(&key, &moved).unwrap();
    {
        let daemon = Daemon::start(&home);
        assert_closed(&daemon, "target.json.key is missing");
        assert!(
            !key.exists(),
            "no new key is created while secrets need the old one"
        );
        let set = json!({"target": OTHER, "name": "x", "secret": "another good secret", "initiators": "any"});
        assert_eq!(daemon.refusal("accounts.set", &set), -32006);
    }
    fs::rename(&moved, &key).unwrap();
    let daemon = Daemon::start(&home);
    run("iscsi-inq", &[&with_secret(&daemon)]);
}

#[test]
fn with_another_key_logins_fail_until_the_accounts_are_set_again() {
    let home = Home::new();
    drop(guarded(&home));
    let elsewhere = Home::new();
    drop(Daemon::start(&elsewhere));
    fs::copy(
        elsewhere.path("target.json.key"),
        home.path("target.json.key"),
    )
    .unwrap();
    let daemon = Daemon::start(&home);
    assert_closed(&daemon, "contains a different key");
    daemon.call(
        "accounts.set",
        &json!({"target": IQN, "name": "host", "secret": SECRET, "initiators": "any"}),
    );
    run("iscsi-inq", &[&with_secret(&daemon)]);
    drop(daemon);
    let daemon = Daemon::start(&home);
    run("iscsi-inq", &[&with_secret(&daemon)]);
}

#[test]
fn a_lost_key_is_repaired_without_any_target_falling_open() {
    let home = Home::new();
    let daemon = guarded(&home);
    let other = json!({"target": OTHER, "name": "guest", "secret": "a secret of the other", "initiators": "any"});
    daemon.call("accounts.set", &other);
    drop(daemon);
    fs::remove_file(home.path("target.json.key")).unwrap();
    let daemon = Daemon::start(&home);
    let open = |target, lun| !fails("iscsi-inq", &[&url(&daemon, "", target, lun)]);
    let delete = |target: &str, name: &str| {
        daemon.call("accounts.delete", &json!({"target": target, "name": name}));
        assert!(!open(IQN, 0) && !open(OTHER, 1));
    };
    delete(IQN, "host");
    let mine = json!({"target": IQN, "name": "host", "secret": SECRET, "initiators": "any"});
    assert_eq!(daemon.refusal("accounts.set", &mine), -32006);
    delete(OTHER, "guest");
    daemon.call("accounts.set", &mine);
    run("iscsi-inq", &[&with_secret(&daemon)]);
    assert!(!open(IQN, 0) && !open(OTHER, 1));
    // A restart in this state does not open the target.
    drop(daemon);
    let daemon = Daemon::start(&home);
    assert!(fails("iscsi-inq", &[&url(&daemon, "", OTHER, 1)]));
    let listed = accounts_of(&daemon, OTHER);
    assert_eq!(listed["required"], true);
    let problem = listed["problem"].as_str().unwrap();
    assert!(
        problem.contains("no account of an initiator exists"),
        "{problem}"
    );
    let guest = json!({"target": OTHER, "name": "guest", "secret": SECRET, "initiators": "any"});
    daemon.call("accounts.set", &guest);
    let user = format!("guest%{SECRET}@");
    run("iscsi-inq", &[&url(&daemon, &user, OTHER, 1)]);
}

#[test]
fn chap_is_required_until_it_is_disabled_explicitly() {
    let home = Home::new();
    let daemon = guarded(&home);
    let mutual = |target| json!({"target": target, "name": "me", "secret": "the target proves itself", "mutual": true});
    assert_eq!(
        daemon.refusal("accounts.set", &mutual(OTHER)),
        -32602,
        "alone"
    );
    run("iscsi-inq", &[&url(&daemon, "", OTHER, 1)]);
    daemon.call("accounts.set", &mutual(IQN));
    let host = json!({"target": IQN, "name": "host"});
    assert_eq!(daemon.refusal("accounts.delete", &host), -32602);
    run("iscsi-inq", &[&with_secret(&daemon)]);
    let me = json!({"target": IQN, "name": "me", "mutual": true});
    daemon.call("accounts.delete", &me);
    let open = json!({"target": IQN, "required": false});
    assert_eq!(daemon.refusal("accounts.require", &open), -32602);
    daemon.call("accounts.delete", &host);
    assert!(fails("iscsi-inq", &[&url(&daemon, "", IQN, 0)]));
    daemon.call("accounts.require", &open);
    run("iscsi-inq", &[&url(&daemon, "", IQN, 0)]);
    let closed = json!({"target": OTHER, "required": true});
    daemon.call("accounts.require", &closed);
    assert!(fails("iscsi-inq", &[&url(&daemon, "", OTHER, 1)]));
}

#[test]
fn a_mutual_account_without_others_permits_no_login() {
    let home = Home::new();
    let daemon = guarded(&home);
    let mutual =
        json!({"target": IQN, "name": "me", "secret": "the target proves itself", "mutual": true});
    daemon.call("accounts.set", &mutual);
    drop(daemon);
    let mut edited = configuration(&home);
    let accounts = &mut edited["targets"][0]["authentication"];
    *accounts = json!({"required": true, "mutual": accounts["mutual"]});
    fs::write(home.path("target.json"), edited.to_string()).unwrap();
    let daemon = Daemon::start(&home);
    assert_closed(&daemon, "no account of an initiator exists");
}

#[test]
fn a_sealed_secret_in_another_place_opens_nothing() {
    let home = Home::new();
    drop(guarded(&home));
    let mut moved = configuration(&home);
    assert_eq!(moved["version"], 2);
    // The other target's account, with the secret of the first.
    moved["targets"][1]["authentication"] = moved["targets"][0]["authentication"].clone();
    fs::write(home.path("target.json"), moved.to_string()).unwrap();
    let daemon = Daemon::start(&home);
    run("iscsi-inq", &[&with_secret(&daemon)]);
    let user = format!("host%{SECRET}@");
    assert!(fails("iscsi-inq", &[&url(&daemon, &user, OTHER, 1)]));
    assert!(fails("iscsi-inq", &[&url(&daemon, "", OTHER, 1)]));
    let accounts = accounts_of(&daemon, OTHER);
    let problem = accounts["problem"].as_str().unwrap();
    assert!(
        problem.contains("\"host\"") && problem.contains("set the account again"),
        "{problem}"
    );
}

#[test]
fn weak_and_shared_secrets_are_refused() {
    let home = Home::new();
    let daemon = guarded(&home);
    let set = |name: &str, secret: &str, mutual: bool| {
        daemon.refusal(
            "accounts.set",
            &json!({"target": IQN, "name": name, "secret": secret, "mutual": mutual, "initiators": "any"}),
        )
    };
    assert_eq!(set("a", "too short", false), -32602);
    assert_eq!(set("a", "aaaaaaaaaaaaaaaa", false), -32602);
    assert_eq!(set("target", SECRET, true), -32602, "one secret for both");
    let neither = json!({"name": "a", "secret": SECRET, "initiators": "any"});
    assert_eq!(daemon.refusal("accounts.set", &neither), -32602);
    run("iscsi-inq", &[&with_secret(&daemon)]);
}

#[test]
fn discovery_without_chap_names_a_target_only_to_its_initiators() {
    let home = Home::new();
    let daemon = guarded(&home);
    daemon.call("access.set", &json!({"target": IQN, "initiators": [HOST]}));
    let portal = format!("iscsi://{}", daemon.portal);
    let named = |initiator| run("iscsi-ls", &["-i", initiator, &portal]);
    assert!(named(HOST).contains(IQN));
    let listing = named("iqn.2026-11.example:stranger");
    assert!(
        listing.contains(OTHER) && !listing.contains(IQN),
        "{listing}"
    );
}

#[test]
fn a_key_file_that_others_can_read_or_without_a_key_is_refused() {
    let home = Home::new();
    let key = home.path("target.json.key");
    let refused = |said: &str| {
        let output = home.command().output().unwrap();
        assert_eq!(output.status.code(), Some(78));
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(said) && text.contains("json.key"), "{text}");
    };
    let set_mode = |mode| fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
    fs::write(&key, "not a key\n").unwrap();
    set_mode(0o644);
    refused("can be read by other users");
    set_mode(0o600);
    refused("does not contain a key");
    fs::write(&key, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n").unwrap();
    let _daemon = Daemon::start(&home);
}

#[test]
fn an_account_is_for_the_initiators_it_names() {
    const NAMES: [&str; 2] = [
        "iqn.1998-01.com.vmware:esx1",
        "iqn.1998-01.com.vmware:esx1-second",
    ];
    let home = Home::new();
    let daemon = guarded(&home);
    let set = |initiators: Value| json!({"target": IQN, "name": "host", "secret": SECRET, "initiators": initiators});
    // In any order and case.
    daemon.call(
        "accounts.set",
        &set(json!([
            NAMES[1].to_uppercase().replace("IQN", "iqn"),
            NAMES[0]
        ])),
    );
    let gets_in =
        |daemon: &Daemon, name: &str| !fails("iscsi-inq", &["-i", name, &with_secret(daemon)]);
    let check = |daemon: &Daemon| {
        let listed = accounts_of(daemon, IQN);
        assert_eq!(listed["incoming"][0]["initiators"], json!(NAMES));
        assert!(NAMES.iter().all(|name| gets_in(daemon, name)));
        // Another host with the same secret.
        assert!(!gets_in(daemon, "iqn.1998-01.com.vmware:esx2"));
    };
    check(&daemon);
    for (wrong, said) in [
        (json!([]), "1 to 64 names"),
        (json!([NAMES[0], NAMES[0]]), "twice"),
        (json!(["disk"]), "iSCSI name"),
        (json!("all"), "or write"),
        (Value::Null, "name the initiators"),
        (
            json!(
                (0..65)
                    .map(|at| format!("iqn.2026-11.example:{at}"))
                    .collect::<Vec<_>>()
            ),
            "1 to 64 names",
        ),
    ] {
        match daemon.try_call("accounts.set", &set(wrong)) {
            Err(targetd::control::client::CallError::Refused(error)) => {
                assert!(
                    error.code == -32602 && error.message.contains(said),
                    "{error:?}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
    drop(daemon);
    let daemon = Daemon::start(&home);
    check(&daemon);
    drop(daemon);
    // Adding a name to the file, without the secret, permits nothing.
    let mut edited = configuration(&home);
    let account = &mut edited["targets"][0]["authentication"]["incoming"][0];
    account["initiators"] = json!([NAMES[0], NAMES[1], "iqn.1998-01.com.vmware:esx2"]);
    fs::write(home.path("target.json"), edited.to_string()).unwrap();
    let daemon = Daemon::start(&home);
    assert!(!gets_in(&daemon, "iqn.1998-01.com.vmware:esx2"));
}
