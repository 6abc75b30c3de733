// SPDX-License-Identifier: Apache-2.0
//! Persistent reservations that survive a restart, and LUNs with unknown reservations.

use std::fs;
use std::path::PathBuf;

use crate::common::{
    Daemon, Home, Host, IQN, NOT_READY, RESERVATION_CONFLICT, Sense, lun, wait_until,
};
use rustix::process::Signal;
use serde_json::{Value, json};

const HOLDER: &str = "iqn.2026-11.example:holder";
const OTHER: &str = "iqn.2026-11.example:other";
const KEY: u64 = 0x1234_5678_9abc_def0;

const REGISTER_AND_IGNORE: u8 = 6;
const RESERVE: u8 = 1;
const WRITE_EXCLUSIVE: u8 = 1;
const APTPL: u8 = 1;

fn out(host: &mut Host, action: u8, key: u64, new_key: u64, flags: u8) -> Result<(), Sense> {
    let mut list = [key.to_be_bytes(), new_key.to_be_bytes(), [0; 8]].concat();
    list[20] = flags;
    let cdb = [0x5f, action, WRITE_EXCLUSIVE, 0, 0, 0, 0, 0, 24, 0];
    host.execute(0, &cdb, &list).map(drop)
}

fn holder(daemon: &Daemon) -> Host {
    let mut host = Host::log_in_as(&daemon.portal, HOLDER, 7);
    host.attentions(0);
    host
}

fn other(daemon: &Daemon) -> Host {
    let mut host = Host::log_in(&daemon.portal, OTHER);
    host.attentions(0);
    host
}

fn start(home: &Home) -> Daemon {
    let daemon = Daemon::start(home);
    daemon.create_target();
    daemon
}

/// A LUN with a directory for its reservations, reserved by the holder.
fn reserved(home: &Home, flags: u8) -> Daemon {
    fs::create_dir(home.path("reservations")).unwrap();
    let daemon = start(home);
    let mut lun = lun(0, &home.volume("volume", 16));
    lun["reservations"] = json!(home.path("reservations"));
    let created = daemon.call("luns.create", &json!({"target": IQN, "lun": lun}));
    assert_eq!(created["lun"]["reservations"], lun["reservations"]);
    let mut host = holder(&daemon);
    out(&mut host, REGISTER_AND_IGNORE, 0, KEY, flags).unwrap();
    out(&mut host, RESERVE, KEY, 0, 0).unwrap();
    daemon
}

fn file(home: &Home) -> PathBuf {
    let mut files = fs::read_dir(home.path("reservations")).unwrap();
    let path = files.next().unwrap().unwrap().path();
    assert!(files.next().is_none());
    path
}

fn reservations(daemon: &Daemon) -> Value {
    daemon.call("reservations.list", &json!({"target": IQN, "number": 0}))
}

fn lun_state(daemon: &Daemon) -> Value {
    daemon.call("luns.list", &json!({"target": IQN}))["luns"][0].clone()
}

#[test]
fn persistent_reservations_survive_a_kill() {
    // APTPL decides nothing: fence_scsi registers without it.
    for flags in [0, APTPL] {
        let home = Home::new();
        let daemon = reserved(&home, flags);
        let mut second = other(&daemon);
        assert_eq!(second.write(0, 0, 1), Err(RESERVATION_CONFLICT));
        // Another host removes its key without APTPL.
        out(&mut second, REGISTER_AND_IGNORE, 0, 1, flags).unwrap();
        out(&mut second, REGISTER_AND_IGNORE, 0, 0, 0).unwrap();
        let before = reservations(&daemon);
        // A kill.
        drop(daemon);
        let daemon = Daemon::start(&home);
        assert_eq!(reservations(&daemon), before);
        assert_eq!(before["registrations"].as_array().map(Vec::len), Some(1));
        assert_eq!(before["registrations"][0]["key"], "0x123456789abcdef0");
        assert_eq!(before["reservation"]["type"], "write_exclusive");
        assert_eq!(other(&daemon).write(0, 0, 1), Err(RESERVATION_CONFLICT));
        holder(&daemon).write(0, 0, 1).unwrap();
    }
}

#[test]
fn without_a_directory_nothing_survives_and_aptpl_is_not_supported() {
    let home = Home::new();
    let daemon = start(&home);
    daemon.create_lun(0, &home.volume("volume", 16));
    let mut host = holder(&daemon);
    let refused = out(&mut host, REGISTER_AND_IGNORE, 0, KEY, APTPL);
    assert_eq!(refused, Err((5, 0x26, 0)));
    out(&mut host, REGISTER_AND_IGNORE, 0, KEY, 0).unwrap();
    out(&mut host, RESERVE, KEY, 0, 0).unwrap();
    assert_eq!(other(&daemon).write(0, 0, 1), Err(RESERVATION_CONFLICT));
    daemon.signal(Signal::TERM);
    daemon.wait();
    let daemon = Daemon::start(&home);
    other(&daemon).write(0, 0, 1).unwrap();
}

#[test]
fn a_lun_whose_reservations_are_not_known_is_not_served() {
    let home = Home::new();
    drop(reserved(&home, APTPL));
    let file = file(&home);
    let good = fs::read(&file).unwrap();
    let text = String::from_utf8(good.clone()).unwrap();
    for damage in [
        Some(text.replace("write_exclusive", "exclusive_access")),
        Some(text.replace("0x1", "0x2")),
        Some(text[..text.len() / 2].to_owned()),
        Some(String::new()),
        None,
    ] {
        match damage {
            Some(damage) => fs::write(&file, damage).unwrap(),
            // As if its dataset were not mounted.
            None => fs::remove_file(&file).unwrap(),
        }
        let daemon = Daemon::start(&home);
        let shown = lun_state(&daemon);
        assert_eq!(shown["state"], "failed");
        let reason = shown["reason"].as_str().unwrap();
        assert!(reason.contains(file.to_str().unwrap()), "{reason}");
        assert!(reason.contains("estore the file"), "{reason}");
        assert!(reason.contains(" reservations.clear '{"), "{reason}");
        let of = json!({"target": IQN, "number": 0});
        let none = json!({"target": IQN, "number": 0, "reservations": null});
        assert_eq!(daemon.refusal("luns.change", &none), -32602);
        assert_eq!(daemon.refusal("reservations.list", &of), -32003);
        let mut host = Host::log_in(&daemon.portal, OTHER);
        host.wait_for(0, Err(NOT_READY));
        assert_eq!(host.write(0, 0, 1), Err(NOT_READY));
        // After the file is restored, the LUN is served again with its reservation.
        fs::write(&file, &good).unwrap();
        host.wait_for(0, Ok(()));
        assert_eq!(host.write(0, 0, 1), Err(RESERVATION_CONFLICT));
        holder(&daemon).write(0, 0, 1).unwrap();
    }
    // The administrator can also clear the reservations.
    fs::write(&file, "nothing").unwrap();
    let daemon = Daemon::start(&home);
    assert_eq!(lun_state(&daemon)["state"], "failed");
    daemon.call("reservations.clear", &json!({"target": IQN, "number": 0}));
    wait_until("the LUN to be served", || {
        lun_state(&daemon)["state"] == "serving"
    });
    other(&daemon).write(0, 0, 1).unwrap();
    drop(daemon);
    other(&Daemon::start(&home)).write(0, 0, 1).unwrap();
}

#[test]
fn an_administrator_frees_a_lun_for_good() {
    let home = Home::new();
    let daemon = reserved(&home, APTPL);
    let mut host = holder(&daemon);
    daemon.call("reservations.clear", &json!({"target": IQN, "number": 0}));
    assert_eq!(host.attentions(0), [(6, 0x2a, 3)]);
    let mut other_host = other(&daemon);
    other_host.write(0, 0, 1).unwrap();
    drop(daemon);
    let daemon = Daemon::start(&home);
    assert_eq!(reservations(&daemon)["registrations"], json!([]));
    let absent = json!({"target": IQN, "number": 5});
    assert_eq!(daemon.refusal("reservations.clear", &absent), -32001);
    assert_eq!(daemon.refusal("reservations.list", &absent), -32001);
}

#[test]
fn registrations_that_cannot_be_stored_are_refused() {
    let home = Home::new();
    let daemon = reserved(&home, APTPL);
    let moved = home.path("moved");
    fs::rename(home.path("reservations"), &moved).unwrap();
    let mut second = other(&daemon);
    let refused = out(&mut second, REGISTER_AND_IGNORE, 0, 1, APTPL);
    assert_eq!(refused, Err((4, 0x44, 0)));
    let registrations = reservations(&daemon)["registrations"].clone();
    assert_eq!(registrations.as_array().unwrap().len(), 1);
    fs::rename(&moved, home.path("reservations")).unwrap();
    out(&mut second, REGISTER_AND_IGNORE, 0, 1, APTPL).unwrap();
    drop(daemon);
    let daemon = Daemon::start(&home);
    let registrations = reservations(&daemon)["registrations"].clone();
    assert_eq!(registrations.as_array().unwrap().len(), 2);
}

#[test]
fn reservations_move_with_their_directory_and_stay_through_other_changes() {
    let home = Home::new();
    let daemon = reserved(&home, APTPL);
    let change = |change: &Value| {
        let mut params = json!({"target": IQN, "number": 0});
        let members = params.as_object_mut().unwrap();
        members.extend(change.as_object().unwrap().clone());
        params
    };
    for other in [
        json!({"product": "another"}),
        json!({"read_only": true}),
        json!({"read_only": false}),
    ] {
        daemon.call("luns.change", &change(&other));
        let present = &reservations(&daemon)["registrations"];
        assert_eq!(present.as_array().map(Vec::len), Some(1));
    }
    let none = change(&json!({"reservations": null}));
    assert_eq!(daemon.refusal("luns.change", &none), -32602);
    let nowhere = change(&json!({"reservations": home.path("nowhere")}));
    assert_eq!(daemon.refusal("luns.change", &nowhere), -32003);
    let relative = change(&json!({"reservations": "here"}));
    assert_eq!(daemon.refusal("luns.change", &relative), -32602);
    wait_until("the LUN to be served", || {
        lun_state(&daemon)["state"] == "serving"
    });
    fs::create_dir(home.path("elsewhere")).unwrap();
    let elsewhere = change(&json!({"reservations": home.path("elsewhere")}));
    daemon.call("luns.change", &elsewhere);
    assert_eq!(other(&daemon).write(0, 0, 1), Err(RESERVATION_CONFLICT));
    drop(daemon);
    fs::remove_dir_all(home.path("reservations")).unwrap();
    let daemon = Daemon::start(&home);
    assert_eq!(other(&daemon).write(0, 0, 1), Err(RESERVATION_CONFLICT));
    let mut host = holder(&daemon);
    out(&mut host, REGISTER_AND_IGNORE, 0, 0, 0).unwrap();
    daemon.call("luns.change", &none);
    assert!(lun_state(&daemon).get("reservations").is_none());
    assert_eq!(
        out(&mut holder(&daemon), REGISTER_AND_IGNORE, 0, KEY, APTPL),
        Err((5, 0x26, 0))
    );
}

#[test]
fn a_lun_is_not_made_where_its_reservations_cannot_be_stored() {
    let home = Home::new();
    let daemon = start(&home);
    let mut lun = lun(0, &home.volume("volume", 16));
    lun["reservations"] = json!(home.path("absent"));
    let params = json!({"target": IQN, "lun": lun});
    assert_eq!(daemon.refusal("luns.create", &params), -32003);
    assert_eq!(
        daemon.call("luns.list", &json!({"target": IQN}))["luns"],
        json!([])
    );
}

#[test]
fn state_of_a_removed_lun_is_deleted_on_request_only() {
    let home = Home::new();
    let daemon = reserved(&home, APTPL);
    let left = file(&home);
    let uuid = lun(0, &home.path("volume"))["uuid"].clone();
    let forget = json!({"directory": home.path("reservations"), "uuid": uuid});
    assert_eq!(daemon.refusal("reservations.forget", &forget), -32602);
    daemon.call("luns.delete", &json!({"target": IQN, "number": 0}));
    assert!(left.exists());
    let other = json!({"directory": home.path("reservations"), "uuid": "4f1c6d2e-903b-4a57-8c01-223344556699"});
    assert_eq!(
        daemon.call("reservations.forget", &other),
        json!({"forgotten": false})
    );
    assert!(left.exists());
    assert_eq!(
        daemon.call("reservations.forget", &forget),
        json!({"forgotten": true})
    );
    assert!(!left.exists());
    assert_eq!(
        daemon.call("reservations.forget", &forget),
        json!({"forgotten": false})
    );
    let relative = json!({"directory": "reservations", "uuid": uuid});
    assert_eq!(daemon.refusal("reservations.forget", &relative), -32602);
}
