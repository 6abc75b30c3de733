// SPDX-License-Identifier: Apache-2.0
//! Invalid configurations: the error names place and reason, and nothing is changed.

use std::fs;

use crate::common::{Daemon, Home, IQN};
use serde_json::{Value, json};

const UUIDS: [&str; 2] = [
    "4f1c6d2e-903b-4a57-8c01-223344556601",
    "4f1c6d2e-903b-4a57-8c01-223344556602",
];

fn with_luns(first: &str, second: &str) -> String {
    format!(r#"{{"version": 2, "targets": [{{"name": "{IQN}", "luns": [{first}, {second}]}}]}}"#)
}

fn lun(number: u16, uuid: usize, rest: &str) -> String {
    let uuid = UUIDS[uuid];
    format!(r#"{{"number": {number}, "uuid": "{uuid}", "path": "/srv/a"{rest}}}"#)
}

#[test]
fn the_place_and_the_reason_are_named() {
    let home = Home::new();
    let file = home.path("target.json");
    let good = lun(0, 0, "");
    for (text, said) in [
        (
            with_luns(&good, &lun(0, 1, "")),
            "targets[0].luns[1].number: 0 occurs twice",
        ),
        (
            with_luns(&good, &lun(1, 0, "")),
            "targets[0].luns[1].uuid: 4f1c6d2e-903b-4a57-8c01-223344556601 belongs to another LUN",
        ),
        (
            with_luns(&lun(0, 0, ", \"product\": \"seventeen letters\""), &good),
            "targets[0].luns[0].product: ",
        ),
        (
            with_luns(&good, &lun(1, 1, "").replace("/srv/a", "a")),
            "targets[0].luns[1].path: must be absolute",
        ),
        (
            with_luns(&good, &lun(16_384, 1, "")),
            "targets[0].luns[1].number: the largest is 16383",
        ),
        (
            with_luns(&good, &lun(1, 1, ", \"initiators\": \"all\"")),
            "expected \"any\" or a list of initiator names",
        ),
        (
            with_luns(&good, &lun(1, 1, ", \"initiators\": [\"disk\"]")),
            "\"disk\": an iSCSI name starts with",
        ),
        (
            with_luns(&good, &lun(1, 1, ", \"colour\": 1")),
            "unknown field `colour`",
        ),
        (
            with_luns(&good, &lun(1, 1, "").replace(UUIDS[1], "1")),
            "UUID",
        ),
        (
            with_luns(&good, "{\"number\": 1}"),
            "missing field `uuid`",
        ),
        (
            with_luns(&good, &lun(1, 1, "")).replace(IQN, "iqn.disk"),
            "targets[0].name: after \"iqn.\" come",
        ),
        (
            "{\"version\": 2,\n\"portals\": [{\"address\": \"127.0.0.1:3260\"},\n{\"address\": \"127.0.0.1:3260\"}]}".into(),
            "portals[1].address: 127.0.0.1:3260 occurs twice",
        ),
        (
            "{\"version\": 2,\n\"portals\": [{\"address\": \"localhost\"}]}".into(),
            "invalid socket address",
        ),
        (
            "{\"version\": 2,\n\"portal_groups\": [{\"tag\": 1, \"relative_target_port\": 1},\n{\"tag\": 2, \"relative_target_port\": 1}]}".into(),
            "portal_groups[1].relative_target_port: 1 belongs to another group",
        ),
        (
            "{\"version\": 2, \"targets\": [\n{\"name\": \"iqn.2026-11.example:a\"},\n{\"name\": \"iqn.2026-11.example:a\"}]}".into(),
            "targets[1].name: iqn.2026-11.example:a occurs twice",
        ),
        ("{\n\n\"targets\": []}".into(), "missing field `version`"),
        ("{\n\"version\": 2,\n".into(), "EOF"),
    ] {
        fs::write(&file, &text).unwrap();
        let refusal = home.refused();
        assert!(refusal.contains(said), "{said:?} is not in {refusal}");
        assert!(refusal.contains(file.to_str().unwrap()), "{refusal}");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
}

#[test]
fn a_setting_of_a_pool_that_is_left_out_does_not_change() {
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let stored = |settings: Value| {
        daemon.call("space.set_pool", &settings);
        let text = fs::read(home.path("target.json")).unwrap();
        let configuration: Value = serde_json::from_slice(&text).unwrap();
        configuration["pools"].clone()
    };
    stored(json!({"pool": "tank", "headroom_bytes": 1 << 30}));
    assert_eq!(
        stored(json!({"pool": "tank", "soft_threshold": {"percent": 80}})),
        json!([{"name": "tank", "headroom_bytes": 1 << 30, "soft_threshold": {"percent": 80}}])
    );
    assert_eq!(
        stored(json!({"pool": "tank", "headroom_bytes": null})),
        json!([{"name": "tank", "soft_threshold": {"percent": 80}}])
    );
    for wrong in [
        json!({"pool": "tank", "name": "other"}),
        json!({"pool": "tank", "headroom": 1}),
    ] {
        assert_eq!(daemon.refusal("space.set_pool", &wrong), -32602, "{wrong}");
    }
}
