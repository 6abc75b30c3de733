// SPDX-License-Identifier: Apache-2.0
//! Independent initiators on a LUN of the real daemon.

use std::fs;
use std::io::Write;

use crate::common::{Daemon, Home, IQN, fails, run, wait_until};
use serde_json::{Value, json};

#[test]
fn discovery_and_inquiry() {
    let home = Home::new();
    let daemon = Daemon::start(&home);
    daemon.create_target();
    let created = daemon.create_lun(7, &home.volume("volume", 64));
    let discovered = run("iscsi-ls", &["-s", &format!("iscsi://{}", daemon.portal)]);
    assert!(
        discovered.contains(IQN) && discovered.contains("Lun:7"),
        "{discovered}"
    );
    let inquiry = run("iscsi-inq", &[&daemon.url(7)]);
    assert!(inquiry.contains("Vendor:ZVAAI"), "{inquiry}");
    let serial = run("iscsi-inq", &["-e", "1", "-c", "0x80", &daemon.url(7)]);
    let expected = created["lun"]["serial_number"].as_str().unwrap();
    assert!(serial.contains(expected), "{expected} is not in {serial}");
}

#[test]
fn an_image_is_copied_to_the_lun_and_back() {
    let home = Home::new();
    let image = home.path("image");
    let mut file = fs::File::create(&image).unwrap();
    let mut word = 1_u64;
    for _ in 0..(24 << 20) / 8 {
        // xorshift64: content without repetitions.
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        file.write_all(&word.to_le_bytes()).unwrap();
    }
    drop(file);
    for engine in ["auto", "threads"] {
        let volume = home.volume(engine, 24);
        let mut command = home.command();
        let daemon = Daemon::spawn(&home, command.args(["--engine", engine]));
        daemon.create_target();
        daemon.create_lun(0, &volume);
        let url = daemon.url(0);
        let raw = ["convert", "-f", "raw", "-O", "raw"];
        run(
            "qemu-img",
            &[&raw[..], &["-n", image.to_str().unwrap(), &url]].concat(),
        );
        assert!(
            fs::read(&volume).unwrap() == fs::read(&image).unwrap(),
            "{engine}: volume"
        );
        let back = home.path("back");
        run(
            "qemu-img",
            &[&raw[..], &[&url, back.to_str().unwrap()]].concat(),
        );
        assert!(
            fs::read(&back).unwrap() == fs::read(&image).unwrap(),
            "{engine}: read back"
        );
        let statistics = daemon.call("statistics.get", &json!({"target": IQN}));
        assert_eq!(statistics["luns"][0]["write"]["bytes"], 24 << 20);
        assert_eq!(statistics["luns"][0]["write"]["errors"], 0);
        daemon.call("targets.delete", &json!({"name": IQN}));
    }
}

#[test]
fn a_new_size_is_seen() {
    let home = Home::new();
    let volume = home.volume("volume", 16);
    let daemon = Daemon::start(&home);
    daemon.create_target();
    daemon.create_lun(0, &volume);
    let size = || {
        run("iscsi-readcapacity16", &["-s", &daemon.url(0)])
            .trim()
            .to_owned()
    };
    assert_eq!(size(), (16 << 20).to_string());
    let file = fs::File::options().write(true).open(&volume).unwrap();
    file.set_len(32 << 20).unwrap();
    daemon.call("luns.refresh", &json!({"target": IQN, "number": 0}));
    assert_eq!(size(), (32 << 20).to_string());
    // Also without a request.
    file.set_len(64 << 20).unwrap();
    wait_until("the size to be seen", || {
        let listed = daemon.call("luns.list", &json!({"target": IQN}));
        listed["luns"][0]["size_bytes"] == 64 << 20
    });
    assert_eq!(size(), (64 << 20).to_string());
}

#[test]
fn chap_and_access_lists_hold() {
    let home = Home::new();
    let daemon = Daemon::start(&home);
    daemon.create_target();
    daemon.create_lun(0, &home.volume("volume", 16));
    let url = |user: &str| format!("iscsi://{user}{}/{IQN}/0", daemon.portal);
    let secret = "a-secret-of-20-bytes";
    let account = json!({"target": IQN, "name": "host", "secret": secret, "initiators": "any"});
    daemon.call("accounts.set", &account);
    assert!(fails("iscsi-inq", &[&url("")]));
    assert!(fails("iscsi-inq", &[&url("host%another-secret-20-by@")]));
    run("iscsi-inq", &[&url(&format!("host%{secret}@"))]);
    daemon.call("accounts.delete", &json!({"target": IQN, "name": "host"}));
    assert!(fails("iscsi-inq", &[&url("")]), "CHAP stays required");
    let open = json!({"target": IQN, "required": false});
    daemon.call("accounts.require", &open);
    run("iscsi-inq", &[&url("")]);
    let host = "iqn.2026-11.example:host";
    let access = |initiators: Value| {
        daemon.call(
            "access.set",
            &json!({"target": IQN, "initiators": initiators}),
        );
    };
    access(json!([host]));
    assert!(fails("iscsi-inq", &[&url("")]));
    run("iscsi-inq", &["-i", host, &url("")]);
    access(json!([]));
    assert!(fails("iscsi-inq", &["-i", host, &url("")]));
    access(json!("any"));
    run("iscsi-inq", &[&url("")]);
}
