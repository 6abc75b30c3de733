// SPDX-License-Identifier: Apache-2.0
//! Portals and portal groups: changes while hosts use them, and storage.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;

use crate::common::{Daemon, HOST, Home, Host, IQN, free_address, run, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Without `--listen`.
fn command(home: &Home) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zvaai-target"));
    command
        .arg("serve")
        .arg("--config")
        .arg(home.path("target.json"))
        .arg("--control")
        .arg(home.path("control.sock"));
    command
}

/// A daemon at one configured portal, with a LUN.
fn at(home: &Home, address: SocketAddr) -> Daemon {
    let configuration = json!({"version": 2, "portals": [{"address": address}]});
    std::fs::write(home.path("target.json"), configuration.to_string()).unwrap();
    let daemon = Daemon::spawn(home, &mut command(home));
    daemon.create_target();
    daemon.create_lun(0, &home.volume("volume", 16));
    daemon
}

/// Designators of the target port in Device Identification: type and value.
fn port_designators(host: &mut Host) -> Vec<(u8, Vec<u8>)> {
    const TARGET_PORT: u8 = 1;
    let page = host.inquiry(0, Some(0x83));
    let (mut at, mut designators) = (4, Vec::new());
    while at < page.len() {
        let length = usize::from(page[at + 3]);
        if (page[at + 1] >> 4) & 3 == TARGET_PORT {
            let value = page[at + 4..at + 4 + length].to_vec();
            designators.push((page[at + 1] & 0x0f, value));
        }
        at += 4 + length;
    }
    designators
}

fn name_of(designators: &[(u8, Vec<u8>)]) -> String {
    const SCSI_NAME_STRING: u8 = 8;
    let named = designators
        .iter()
        .find(|(kind, _)| *kind == SCSI_NAME_STRING);
    let text = String::from_utf8(named.unwrap().1.clone()).unwrap();
    text.trim_end_matches('\0').to_owned()
}

fn relative_port(designators: &[(u8, Vec<u8>)]) -> u8 {
    const RELATIVE_TARGET_PORT: u8 = 4;
    let port = designators
        .iter()
        .find(|(kind, _)| *kind == RELATIVE_TARGET_PORT);
    port.unwrap().1[3]
}

fn addresses(daemon: &Daemon) -> Vec<String> {
    let listed = daemon.call("portals.list", &json!({}));
    let portals = listed["portals"].as_array().unwrap().iter();
    portals
        .map(|portal| portal["address"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn portals_are_created_changed_deleted_and_stored() {
    let home = Home::new();
    let (first, second, third) = (
        free_address("127.0.0.1"),
        free_address("::1"),
        free_address("127.0.0.1"),
    );
    let daemon = at(&home, first);
    let mut host = Host::log_in(&first.to_string(), HOST);
    host.attentions(0);
    let create = json!({"address": second, "group_tag": 2});
    assert_eq!(
        daemon.call("portals.create", &create),
        json!({"created": true})
    );
    assert_eq!(
        daemon.call("portals.create", &create),
        json!({"created": false})
    );
    let differs = json!({"address": second, "group_tag": 3});
    assert_eq!(daemon.refusal("portals.create", &differs), -32002);
    let mut over_ipv6 = Host::log_in(&second.to_string(), HOST);
    let (first_port, second_port) = (port_designators(&mut host), {
        over_ipv6.attentions(0);
        port_designators(&mut over_ipv6)
    });
    assert_eq!(name_of(&first_port), format!("{IQN},t,0x0001"));
    assert_eq!(name_of(&second_port), format!("{IQN},t,0x0002"));
    assert_eq!(
        (relative_port(&first_port), relative_port(&second_port)),
        (1, 2)
    );
    let listing = run("iscsi-ls", &[&format!("iscsi://{second}")]);
    assert!(
        listing.contains(&format!("{first},1")) && listing.contains(&format!("{second},2")),
        "{listing}"
    );
    // A new address for the second portal; its connections continue.
    daemon.call(
        "portals.change",
        &json!({"address": second, "portal": {"address": third, "group_tag": 2}}),
    );
    assert!(TcpStream::connect(second).is_err());
    over_ipv6.write(0, 0, 1).unwrap();
    daemon.signal(Signal::KILL);
    daemon.wait();
    let daemon = Daemon::spawn(&home, &mut command(&home));
    assert_eq!(addresses(&daemon), [first.to_string(), third.to_string()]);
    let mut again = Host::log_in(&third.to_string(), HOST);
    again.attentions(0);
    assert_eq!(port_designators(&mut again), second_port);
    // Deleting the last portal of a group ends its sessions. Other sessions continue.
    let mut host = Host::log_in(&first.to_string(), HOST);
    host.attentions(0);
    daemon.call("portals.delete", &json!({"address": third}));
    while again.0.try_receive().is_some() {}
    assert!(TcpStream::connect(third).is_err());
    host.attentions(0);
    host.write(0, 0, 2).unwrap();
    assert_eq!(
        daemon.refusal("portals.delete", &json!({"address": third})),
        -32001
    );
    let listed = daemon.call("portals.list", &json!({}));
    assert_eq!(listed["fixed"], false);
    // The identifiers of the group are retained.
    assert_eq!(
        listed["groups"],
        json!([{"tag": 1, "relative_target_port": 1, "target_port_group": 1},
               {"tag": 2, "relative_target_port": 2, "target_port_group": 1}])
    );
}

#[test]
fn targets_can_be_made_where_nothing_is_listened_at() {
    let home = Home::new();
    let configuration = json!({"version": 2, "portals": []});
    std::fs::write(home.path("target.json"), configuration.to_string()).unwrap();
    let daemon = Daemon::spawn(&home, &mut command(&home));
    daemon.create_target();
    daemon.create_lun(0, &home.volume("volume", 16));
    let address = free_address("127.0.0.1");
    daemon.call(
        "portals.create",
        &json!({"address": address, "group_tag": 4}),
    );
    let mut host = Host::log_in(&address.to_string(), HOST);
    host.attentions(0);
    assert_eq!(relative_port(&port_designators(&mut host)), 4);
}

#[test]
fn a_portal_that_cannot_be_opened_changes_nothing() {
    let home = Home::new();
    let first = free_address("127.0.0.1");
    let daemon = at(&home, first);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let create = json!({"address": taken.local_addr().unwrap()});
    assert_eq!(daemon.refusal("portals.create", &create), -32007);
    assert_eq!(addresses(&daemon), [first.to_string()]);
    let before = std::fs::read_to_string(home.path("target.json")).unwrap();
    let change = json!({"address": first, "portal": create});
    assert_eq!(daemon.refusal("portals.change", &change), -32007);
    run("iscsi-inq", &[&daemon.url(0)]);
    let after = std::fs::read_to_string(home.path("target.json")).unwrap();
    assert_eq!(before, after);
}

#[test]
fn a_portal_that_is_closed_for_a_refused_change_is_opened_later() {
    // Its address goes: its socket stays open, but cannot be opened again for another group.
    const PORTAL: &str = "192.0.2.7:3260";
    let home = Home::new();
    let configuration = json!({"version": 2, "portals": [{"address": PORTAL}]});
    std::fs::write(home.path("target.json"), configuration.to_string()).unwrap();
    let script = "ip link set lo up && ip address add 192.0.2.7/32 dev lo && exec \"$0\" \"$@\"";
    let daemon = command(&home);
    let mut isolated = Command::new("unshare");
    isolated
        .args(["--net", "sh", "-c", script])
        .arg(daemon.get_program())
        .args(daemon.get_args());
    let daemon = Daemon::spawn(&home, &mut isolated);
    let set_address = |action: &str| {
        let pid = daemon.pid().to_string();
        let ip = ["ip", "address", action, "192.0.2.7/32", "dev", "lo"];
        run("nsenter", &[&["-t", &pid, "-n"][..], &ip].concat());
    };
    assert_eq!(addresses(&daemon), [PORTAL]);
    set_address("delete");
    let change = json!({"address": PORTAL, "portal": {"address": PORTAL, "group_tag": 2}});
    assert_eq!(daemon.refusal("portals.change", &change), -32007);
    let failed = daemon.call("portals.list", &json!({}))["failed"].clone();
    assert_eq!(
        (&failed[0]["address"], &failed[0]["group_tag"]),
        (&json!(PORTAL), &json!(1))
    );
    set_address("add");
    wait_until("the portal to be open", || addresses(&daemon) == [PORTAL]);
}

#[test]
fn every_address_becomes_one_of_them_and_back() {
    let home = Home::new();
    let loopback = free_address("127.0.0.1");
    let every = SocketAddr::new("0.0.0.0".parse().unwrap(), loopback.port());
    let other = SocketAddr::new("127.0.0.2".parse().unwrap(), loopback.port());
    let daemon = at(&home, every);
    let mut host = Host::log_in(&loopback.to_string(), HOST);
    host.attentions(0);
    let change = |from: SocketAddr, to: SocketAddr| {
        daemon.try_call(
            "portals.change",
            &json!({"address": from, "portal": {"address": to}}),
        )
    };
    change(every, loopback).unwrap();
    assert!(TcpStream::connect(other).is_err());
    TcpStream::connect(loopback).unwrap();
    change(loopback, every).unwrap();
    TcpStream::connect(other).unwrap();
    // If one cannot be opened, all other portals are open.
    let absent = SocketAddr::new("192.0.2.1".parse().unwrap(), loopback.port());
    assert!(change(every, absent).is_err());
    assert_eq!(addresses(&daemon), [every.to_string()]);
    TcpStream::connect(other).unwrap();
    host.write(0, 0, 1).unwrap();
}

#[test]
fn a_portal_that_is_missing_at_the_start_does_not_affect_others() {
    let home = Home::new();
    let first = free_address("127.0.0.1");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let later = taken.local_addr().unwrap();
    let absent: SocketAddr = "192.0.2.1:3260".parse().unwrap();
    let portals =
        json!([{"address": absent}, {"address": later, "group_tag": 2}, {"address": first}]);
    let configuration = json!({"version": 2, "portals": portals});
    std::fs::write(home.path("target.json"), configuration.to_string()).unwrap();
    let daemon = Daemon::spawn(&home, &mut command(&home));
    daemon.create_target();
    daemon.create_lun(0, &home.volume("volume", 16));
    let failed = || {
        let listed = daemon.call("portals.list", &json!({}));
        let failed = listed["failed"].as_array().unwrap().iter();
        failed
            .map(|portal| {
                assert!(portal["reason"].as_str().unwrap().contains("cannot listen"));
                portal["address"].as_str().unwrap().to_owned()
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(addresses(&daemon), [first.to_string()]);
    assert_eq!(failed(), [absent.to_string(), later.to_string()]);
    run("iscsi-inq", &[&daemon.url(0)]);
    // Other portals can be changed in the meantime.
    let more = free_address("127.0.0.1");
    daemon.call("portals.create", &json!({"address": more}));
    TcpStream::connect(more).unwrap();
    drop(taken);
    wait_until("the portal to be open", || failed() == [absent.to_string()]);
    Host::log_in(&later.to_string(), HOST).attentions(0);
    daemon.call("portals.delete", &json!({"address": absent}));
    assert!(failed().is_empty());
}

#[test]
fn without_any_usable_portal_another_can_be_created() {
    let home = Home::new();
    let configuration = json!({"version": 2, "portals": [{"address": "192.0.2.1:3260"}]});
    std::fs::write(home.path("target.json"), configuration.to_string()).unwrap();
    let daemon = Daemon::spawn(&home, &mut command(&home));
    daemon.create_target();
    daemon.create_lun(0, &home.volume("volume", 16));
    assert_eq!(addresses(&daemon), [""; 0]);
    let address = free_address("127.0.0.1");
    daemon.call("portals.create", &json!({"address": address}));
    Host::log_in(&address.to_string(), HOST).attentions(0);
}

#[test]
fn identifiers_of_a_port_stay() {
    let home = Home::new();
    let first = free_address("127.0.0.1");
    drop(at(&home, first));
    let file = home.path("target.json");
    let mut stored: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    stored["portal_groups"] =
        json!([{"tag": 1, "relative_target_port": 17, "target_port_group": 9}]);
    std::fs::write(&file, stored.to_string()).unwrap();
    let _daemon = Daemon::spawn(&home, &mut command(&home));
    let mut host = Host::log_in(&first.to_string(), HOST);
    host.attentions(0);
    let designators = port_designators(&mut host);
    assert_eq!(relative_port(&designators), 17);
    assert!(
        designators.contains(&(5, vec![0, 0, 0, 9])),
        "{designators:?}"
    );
}

#[test]
fn portals_of_the_command_line_are_not_changed() {
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let listed = daemon.call("portals.list", &json!({}));
    assert_eq!(listed["fixed"], true);
    let create = json!({"address": free_address("127.0.0.1")});
    assert_eq!(daemon.refusal("portals.create", &create), -32007);
    let groups: &Value = &listed["groups"];
    assert_eq!(groups.as_array().map(Vec::len), Some(1));
}
