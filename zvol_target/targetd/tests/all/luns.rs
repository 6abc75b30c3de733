// SPDX-License-Identifier: Apache-2.0
//! Changes of logical units in use: settings, access, missing path, new size.

use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::common::{
    BECAME_READY, CAPACITY_CHANGED, Daemon, HOST, Home, Host, INQUIRY_CHANGED, IQN, LUNS_CHANGED,
    NO_SUCH_LUN, NOT_READY, Sense, WRITE_PROTECTED, lun, run, wait_until,
};
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use serde_json::{Value, json};

fn set_len(path: &Path, mebibytes: u64) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_len(mebibytes << 20).unwrap();
}

/// Starts a daemon with LUN 0 of 16 MiB, and a host without pending unit attentions.
fn with_host(home: &Home) -> (Daemon, Host) {
    let daemon = Daemon::start(home);
    daemon.create_target();
    daemon.create_lun(0, &home.volume("volume", 16));
    let mut host = Host::log_in(&daemon.portal, HOST);
    host.attentions(0);
    (daemon, host)
}

fn change(daemon: &Daemon, what: &Value) -> Value {
    let mut params = json!({"target": IQN, "number": 0});
    for (name, value) in what.as_object().unwrap() {
        params[name] = value.clone();
    }
    let answer = daemon.call("luns.change", &params);
    assert_eq!(answer["changed"], true);
    answer["lun"].clone()
}

#[test]
fn a_lun_without_its_path_holds_its_place_until_the_path_appears() {
    let home = Home::new();
    let path = home.path("volume");
    let names = {
        let (daemon, mut host) = with_host(&home);
        let names = [host.inquiry(0, Some(0x80)), host.inquiry(0, Some(0x83))];
        daemon.signal(Signal::KILL);
        daemon.wait();
        names
    };
    fs::remove_file(&path).unwrap();
    let daemon = Daemon::start(&home);
    // One session for the whole test.
    let mut host = Host::log_in(&daemon.portal, HOST);
    host.attentions(0);
    assert_eq!(host.test_unit_ready(0), Err(NOT_READY));
    assert_eq!(host.read(0, 0), Err(NOT_READY));
    assert_eq!(host.luns(), [0]);
    assert_eq!(
        [host.inquiry(0, Some(0x80)), host.inquiry(0, Some(0x83))],
        names
    );
    let listed = daemon.call("luns.list", &json!({"target": IQN}));
    assert_eq!(listed["luns"][0]["state"], "failed");
    let reason = listed["luns"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("there is no such file"), "{reason}");

    home.volume("volume", 32);
    let conditions = host.wait_for(0, Ok(()));
    assert!(conditions.contains(&BECAME_READY), "{conditions:?}");
    assert_eq!(
        [host.inquiry(0, Some(0x80)), host.inquiry(0, Some(0x83))],
        names
    );
    assert_eq!(host.capacity_bytes(0), 32 << 20);
    host.write(0, 7, 0xa5).unwrap();
    assert_eq!(fs::read(&path).unwrap()[7 * 512..8 * 512], [0xa5; 512]);
}

#[test]
fn a_volume_that_disappears_is_not_ready_and_returns() {
    let home = Home::new();
    let (daemon, mut host) = with_host(&home);
    let path = home.path("volume");
    let names = host.inquiry(0, Some(0x83));
    set_len(&path, 0);
    host.wait_for(0, Err(NOT_READY));
    let listed = daemon.call("luns.list", &json!({"target": IQN}));
    assert_eq!(listed["luns"][0]["state"], "failed");
    set_len(&path, 16);
    let conditions = host.wait_for(0, Ok(()));
    assert!(conditions.contains(&BECAME_READY), "{conditions:?}");
    assert_eq!(host.inquiry(0, Some(0x83)), names);
    host.write(0, 0, 1).unwrap();
}

#[test]
fn a_new_size_is_reported_to_hosts_without_a_refresh() {
    let home = Home::new();
    let (_daemon, mut host) = with_host(&home);
    set_len(&home.path("volume"), 48);
    // TEST UNIT READY does not check the size.
    host.wait_for(0, Err(CAPACITY_CHANGED));
    assert_eq!(host.test_unit_ready(0), Ok(()));
    assert_eq!(host.capacity_bytes(0), 48 << 20);
}

#[test]
fn a_masked_lun_does_not_exist_and_sessions_continue() {
    let home = Home::new();
    let (daemon, mut host) = with_host(&home);
    daemon.create_lun(1, &home.volume("second", 16));
    host.attentions(0);
    host.attentions(1);
    assert_eq!(host.luns(), [0, 1]);
    let access = |number: u16, initiators: Value| {
        let params = json!({"target": IQN, "number": number, "initiators": initiators});
        daemon.call("access.set", &params);
    };
    access(1, json!(["iqn.2026-11.example:other"]));
    assert_eq!(host.test_unit_ready(1), Err(NO_SUCH_LUN));
    assert_eq!(host.attentions(0), [LUNS_CHANGED]);
    assert_eq!(host.luns(), [0]);
    let mut other = Host::log_in(&daemon.portal, "iqn.2026-11.example:other");
    assert_eq!(other.luns(), [0, 1]);
    // Access lists survive a restart.
    daemon.signal(Signal::KILL);
    daemon.wait();
    let daemon = Daemon::start(&home);
    let mut host = Host::log_in(&daemon.portal, HOST);
    assert_eq!(host.luns(), [0]);
    let listed = daemon.call("luns.list", &json!({"target": IQN}));
    let lists = [0, 1].map(|at| listed["luns"][at]["initiators"].clone());
    assert_eq!(lists, [json!("any"), json!(["iqn.2026-11.example:other"])]);
    daemon.call(
        "access.set",
        &json!({"target": IQN, "number": 1, "initiators": [HOST]}),
    );
    assert_eq!(host.luns(), [0, 1]);
    let absent = json!({"target": IQN, "number": 5, "initiators": "any"});
    assert_eq!(daemon.refusal("access.set", &absent), -32001);
}

#[test]
fn sessions_of_those_not_admitted_any_more_end_and_others_go_on() {
    let home = Home::new();
    let (daemon, mut host) = with_host(&home);
    let mut other = Host::log_in(&daemon.portal, "iqn.2026-11.example:other");
    other.attentions(0);
    daemon.call("access.set", &json!({"target": IQN, "initiators": [HOST]}));
    while other.0.try_receive().is_some() {}
    host.write(0, 0, 1).unwrap();
    let sessions = daemon.call("sessions.list", &json!({}));
    assert_eq!(sessions["sessions"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_target_made_without_a_word_on_access_admits_nobody() {
    let home = Home::new();
    let daemon = Daemon::start(&home);
    daemon.call("targets.create", &json!({"name": IQN}));
    daemon.create_lun(0, &home.volume("volume", 16));
    assert!(crate::common::fails("iscsi-inq", &[&daemon.url(0)]));
    let listing = crate::common::run("iscsi-ls", &[&format!("iscsi://{}", daemon.portal)]);
    assert!(!listing.contains(IQN), "{listing}");
    let again = json!({"name": IQN, "initiators": "any"});
    assert_eq!(daemon.refusal("targets.create", &again), -32002);
    daemon.call("access.set", &json!({"target": IQN, "initiators": "any"}));
    crate::common::run("iscsi-inq", &[&daemon.url(0)]);
}

#[test]
fn changed_options_are_reported_to_the_host() {
    let home = Home::new();
    let (daemon, mut host) = with_host(&home);
    let names = host.inquiry(0, Some(0x83));
    change(&daemon, &json!({"product": "ANOTHER NAME"}));
    assert_eq!(host.attentions(0), [INQUIRY_CHANGED]);
    let inquiry = host.inquiry(0, None);
    assert_eq!(&inquiry[16..32], b"ANOTHER NAME    ");
    assert_eq!(host.inquiry(0, Some(0x83)), names);
    let same = json!({"target": IQN, "number": 0, "product": "ANOTHER NAME"});
    assert_eq!(daemon.call("luns.change", &same)["changed"], false);
}

#[test]
fn read_only_and_path_change_under_a_host() {
    let home = Home::new();
    let (daemon, mut host) = with_host(&home);
    host.write(0, 3, 0x11).unwrap();
    change(&daemon, &json!({"read_only": true}));
    host.attentions(0);
    assert_eq!(host.write(0, 3, 0x22), Err(WRITE_PROTECTED));
    assert_eq!(host.read(0, 3).unwrap(), [0x11; 512]);
    change(&daemon, &json!({"read_only": false}));
    host.attentions(0);
    host.write(0, 3, 0x22).unwrap();
    // A copy of the data under another name, as after a rename.
    fs::copy(home.path("volume"), home.path("moved")).unwrap();
    let lun = change(&daemon, &json!({"path": home.path("moved")}));
    assert_eq!(lun["state"], "serving");
    host.attentions(0);
    assert_eq!(host.read(0, 3).unwrap(), [0x22; 512]);
    host.write(0, 3, 0x33).unwrap();
    let moved = fs::read(home.path("moved")).unwrap();
    assert_eq!(moved[3 * 512..4 * 512], [0x33; 512]);
    // The old path is free.
    wait_until("the old path to be free", || {
        volume::open(&home.path("volume"), volume::OpenOptions::default()).is_ok()
    });
    // The same volume under another name: only this LUN has it open.
    fs::rename(home.path("moved"), home.path("renamed")).unwrap();
    change(&daemon, &json!({"path": home.path("renamed")}));
    host.wait_for(0, Ok(()));
    assert_eq!(host.read(0, 3).unwrap(), [0x33; 512]);
    let nowhere = json!({"target": IQN, "number": 0, "path": home.path("nowhere")});
    assert_eq!(daemon.refusal("luns.change", &nowhere), -32003);
    assert_eq!(host.read(0, 3).unwrap(), [0x33; 512], "unchanged");
}

#[test]
fn a_change_waits_for_a_path_that_is_held_for_a_moment() {
    let home = Home::new();
    let (daemon, mut host) = with_host(&home);
    let other = home.volume("other", 16);
    let path = json!({"target": IQN, "number": 0, "path": other});
    // A pause of this test can be longer than the daemon waits.
    let waited = (0..20).any(|_| {
        let held = File::open(&other).unwrap();
        flock(&held, FlockOperation::LockExclusive).unwrap();
        thread::scope(|scope| {
            let changing = scope.spawn(|| daemon.try_call("luns.change", &path));
            wait_until("the path to be opened again", || {
                daemon.call("luns.list", &json!({"target": IQN}))["luns"][0]["state"] == "changing"
                    || changing.is_finished()
            });
            drop(held);
            changing.join().unwrap().is_ok()
        })
    });
    assert!(waited);
    host.wait_for(0, Ok(()));
}

/// Repeats a command like a host: after a unit attention, and while the unit is not ready.
fn persist<T>(mut command: impl FnMut() -> Result<T, Sense>) -> T {
    loop {
        match command() {
            Ok(done) => return done,
            Err(sense) if sense.0 == 6 || sense == NOT_READY => {}
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[test]
fn changes_under_load_lose_nothing() {
    let home = Home::new();
    let (daemon, host) = with_host(&home);
    let reservations = home.path("reservations");
    fs::create_dir(&reservations).unwrap();
    drop(host);
    let changes = AtomicUsize::new(0);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut host = Host::log_in(&daemon.portal, HOST);
            host.attentions(0);
            for round in 1_u8.. {
                for block in 1..=200_u8 {
                    persist(|| host.write(0, block, block ^ round));
                }
                for block in 1..=200_u8 {
                    assert_eq!(persist(|| host.read(0, block)), [block ^ round; 512]);
                }
                if changes.load(Ordering::Relaxed) > 1 {
                    break;
                }
            }
        });
        while !writer.is_finished() {
            let odd = changes.load(Ordering::Relaxed) % 2;
            change(&daemon, &json!({"product": format!("NAME {odd}")}));
            let directory = [json!(reservations), Value::Null][odd].clone();
            change(&daemon, &json!({"reservations": directory}));
            changes.fetch_add(1, Ordering::Relaxed);
        }
    });
}

#[test]
fn luns_and_hosts_have_counters() {
    let home = Home::new();
    let (daemon, mut host) = with_host(&home);
    for block in 0..5 {
        host.write(0, block, 1).unwrap();
        host.read(0, block).unwrap();
    }
    host.read(0, 0).unwrap();
    let mut second = Host::log_in(&daemon.portal, HOST);
    second.attentions(0);
    second.read(0, 1).unwrap();
    second
        .execute(0, &[0x28, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 1, 0], &[])
        .unwrap_err();
    let statistics = daemon.call("statistics.get", &json!({"target": IQN}));
    let bounds = statistics["latency_bounds_microseconds"]
        .as_array()
        .unwrap();
    assert_eq!(bounds[10], 1024);
    let of = |what: &str| {
        let list = statistics[what].as_array().unwrap().clone();
        let operations = list.iter().map(|row| {
            let read = &row["read"];
            let counts = read["latency"]["counts"].as_array().unwrap();
            assert!(counts.len() <= bounds.len() + 1);
            let counted: u64 = counts.iter().map(|count| count.as_u64().unwrap()).sum();
            assert_eq!(read["operations"], counted);
            let number = |name: &str| read[name].as_u64().unwrap();
            (counted, number("bytes"), number("errors"))
        });
        operations.collect::<Vec<_>>()
    };
    assert_eq!(of("luns"), [(8, 7 * 512, 1)]);
    assert_eq!(of("hosts"), [(8, 7 * 512, 1)]);
    assert_eq!(statistics["hosts"][0]["initiator"], HOST);
    assert_eq!(statistics["luns"][0]["write"]["operations"], 5);
    // The counters of a host outlive its sessions.
    drop((host, second));
    wait_until("the sessions to end", || {
        daemon.call("sessions.list", &json!({}))["sessions"] == json!([])
    });
    let after = daemon.call("statistics.get", &json!({}));
    assert_eq!(after["hosts"][0]["read"], statistics["hosts"][0]["read"]);
}

#[test]
fn only_names_of_another_target_are_retained() {
    let home = Home::new();
    let daemon = Daemon::start(&home);
    daemon.create_target();
    let retained = |number: u16, serial: &str, designators: &[&str]| {
        let mut lun = lun(number, &home.volume(&format!("volume{number}"), 16));
        lun["product"] = json!("first");
        lun["designation"] =
            json!({"vendor": "LIO-ORG", "serial_number": serial, "designators": designators});
        json!({"target": IQN, "lun": lun})
    };
    let naa = "naa.60014051234567890abcdef012345678";
    let first = retained(0, "first\0", &[naa, "t10.LIO-ORG first:1234\0"]);
    let created = daemon.call("luns.create", &first);
    assert_eq!(created["lun"]["designation"], first["lun"]["designation"]);
    assert_eq!(created["lun"]["naa"], naa);
    assert_eq!(created["lun"]["serial_number"], "first\0");
    assert_eq!(daemon.call("luns.create", &first)["created"], false);
    // Names that follow from a UUID count too.
    daemon.create_lun(1, &home.volume("plain", 16));
    let plain = daemon.call("luns.list", &json!({"target": IQN}))["luns"][1]["naa"].clone();
    for (at, (serial, designators)) in [
        ("second", vec![naa]),
        ("second", vec![plain.as_str().unwrap()]),
        (
            "second",
            vec!["eui.0011223344556677", "eui.0011223344556677"],
        ),
        ("first", vec!["eui.0011223344556677"]),
        (
            "4f1c6d2e903b4a578c01223344556601",
            vec!["eui.0011223344556677"],
        ),
        ("second", vec!["eui.00112233445566AA"]),
        ("second", vec![]),
        ("", vec!["eui.0011223344556677"]),
    ]
    .into_iter()
    .enumerate()
    {
        let refusal = daemon.refusal("luns.create", &retained(2, serial, &designators));
        assert_eq!(refusal, -32602, "{at}");
    }
    let change = json!({"target": IQN, "number": 0, "designation": null});
    assert_eq!(daemon.refusal("luns.change", &change), -32602);
    drop(daemon);
    let daemon = Daemon::start(&home);
    let inquiry = run("iscsi-inq", &[&daemon.url(0)]);
    assert!(inquiry.contains("LIO-ORG"), "{inquiry}");
    let listed = daemon.call("luns.list", &json!({"target": IQN}))["luns"][0].clone();
    assert_eq!(listed, created["lun"]);
    let read_only = json!({"target": IQN, "number": 0, "read_only": true});
    let changed = daemon.call("luns.change", &read_only);
    assert_eq!(changed["lun"]["naa"], naa);
}

#[test]
fn a_volume_without_guid_is_not_served_if_a_guid_is_configured() {
    let home = Home::new();
    let (daemon, mut host) = with_host(&home);
    let content = json!({"number": 1, "uuid": "00000000-0000-4000-8000-000000000001", "path": home.volume("other", 16),
        "guid": "18446744073709551615"});
    let params = json!({"target": IQN, "lun": content});
    assert_eq!(daemon.refusal("luns.create", &params), -32003);
    let other = json!({"target": IQN, "number": 0, "guid": "7"});
    assert_eq!(daemon.refusal("luns.change", &other), -32003);
    assert_eq!(host.luns(), [0]);
    host.write(0, 7, 0xa5).unwrap();

    // Also after a restart; the number of the LUN is not free.
    daemon.signal(Signal::KILL);
    daemon.wait();
    let text = fs::read_to_string(home.path("target.json")).unwrap();
    let mut stored: Value = serde_json::from_str(&text).unwrap();
    stored["targets"][0]["luns"][0]["guid"] = json!("7");
    fs::write(home.path("target.json"), stored.to_string()).unwrap();
    let daemon = Daemon::start(&home);
    let mut host = Host::log_in(&daemon.portal, HOST);
    host.attentions(0);
    assert_eq!(host.read(0, 0), Err(NOT_READY));
    let listed = daemon.call("luns.list", &json!({"target": IQN}));
    assert_eq!(listed["luns"][0]["guid"], "7");
    let reason = listed["luns"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("not a zvol"), "{reason}");
    assert_eq!(change(&daemon, &json!({"guid": null})).get("guid"), None);
    let conditions = host.wait_for(0, Ok(()));
    assert!(conditions.contains(&BECAME_READY), "{conditions:?}");
}
