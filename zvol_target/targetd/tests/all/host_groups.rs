// SPDX-License-Identifier: Apache-2.0
//! Offloads that are disabled for some hosts.

use crate::common::{Daemon, HOST, Home, Host, INQUIRY_CHANGED};
use serde_json::json;

const OTHER: &str = "iqn.2026-11.example:other";
const INVALID_OPERATION_CODE: crate::common::Sense = (5, 0x20, 0);

/// UNMAP with an empty list.
const UNMAP: [u8; 10] = [0x42, 0, 0, 0, 0, 0, 0, 0, 8, 0];

fn unmap(host: &mut Host) -> Result<(), crate::common::Sense> {
    host.execute(0, &UNMAP, &[0, 6, 0, 0, 0, 0, 0, 0]).map(drop)
}

#[test]
fn a_host_gets_a_unit_attention_at_once_and_others_none() {
    let home = Home::new();
    let daemon = Daemon::start(&home);
    daemon.create_target();
    daemon.create_lun(0, &home.volume("volume", 16));
    let mut host = Host::log_in(&daemon.portal, HOST);
    let mut other = Host::log_in(&daemon.portal, OTHER);
    host.attentions(0);
    other.attentions(0);
    unmap(&mut host).unwrap();
    let group = json!({"name": "old hosts", "initiators": [HOST], "disabled": ["unmap"]});
    daemon.call("host_groups.set", &group);
    assert!(host.attentions(0).contains(&INQUIRY_CHANGED));
    assert_eq!(other.attentions(0), []);
    assert_eq!(unmap(&mut host), Err(INVALID_OPERATION_CODE));
    unmap(&mut other).unwrap();
    // The same group again changes nothing.
    daemon.call("host_groups.set", &group);
    assert_eq!(host.attentions(0), []);
    let listed = daemon.call("host_groups.list", &json!({}));
    assert_eq!(listed, json!({"host_groups": [group]}));
    let rest = json!({"name": "rest", "initiators": [OTHER], "disabled": ["unmap", "write_same"]});
    daemon.call("host_groups.set", &rest);
    assert!(other.attentions(0).contains(&INQUIRY_CHANGED));
    assert_eq!(host.attentions(0), []);
    assert_eq!(unmap(&mut other), Err(INVALID_OPERATION_CODE));
    // It applies to later targets and sessions, and after a restart.
    drop(daemon);
    let daemon = Daemon::start(&home);
    let mut host = Host::log_in(&daemon.portal, HOST);
    host.attentions(0);
    assert_eq!(unmap(&mut host), Err(INVALID_OPERATION_CODE));
    daemon.call("host_groups.delete", &json!({"name": "old hosts"}));
    daemon.call("host_groups.delete", &json!({"name": "rest"}));
    assert!(host.attentions(0).contains(&INQUIRY_CHANGED));
    unmap(&mut host).unwrap();
    let gone = json!({"name": "rest"});
    assert_eq!(daemon.refusal("host_groups.delete", &gone), -32001);
}

#[test]
fn groups_that_contradict_each_other_are_refused() {
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let group = json!({"name": "a", "initiators": [HOST], "disabled": []});
    daemon.call("host_groups.set", &group);
    for wrong in [
        json!({"name": "b", "initiators": [HOST], "disabled": []}),
        json!({"name": "", "initiators": [], "disabled": []}),
        json!({"name": "b", "initiators": "any", "disabled": []}),
        json!({"name": "b", "initiators": [], "disabled": ["everything"]}),
        json!({"name": "b", "initiators": []}),
    ] {
        assert_eq!(daemon.refusal("host_groups.set", &wrong), -32602, "{wrong}");
    }
    let listed = daemon.call("host_groups.list", &json!({}));
    assert_eq!(listed, json!({"host_groups": [group]}));
}
