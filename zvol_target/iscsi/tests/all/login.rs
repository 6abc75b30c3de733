// SPDX-License-Identifier: Apache-2.0
//! Login: each status of RFC 7143 11.13.5, negotiation, CHAP on the wire, discovery.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::support::{
    FAST, Fixture, HOST, Initiator, PORTAL_GROUP, TARGET, account, definition, only, wait_until,
};
use iscsi::pdu::{LoginRequest, NopOut, TargetPdu};
use iscsi::{ChapAccount, Secret, ServerOptions, TargetAccess, TargetPort};

fn guarded() -> Fixture {
    Fixture::with(ServerOptions::default(), |definition| {
        definition.authentication.incoming = vec![account("user", b"incoming secret")];
    })
}

/// Sends one request with `keys`. Expects a refusal with `status`, and the end of the connection.
fn refused(
    fixture: &Fixture,
    change: impl FnOnce(&mut LoginRequest),
    keys: &[(&str, &str)],
    status: u16,
) {
    let mut initiator = Initiator::connect(fixture.address);
    let mut request = initiator.operational();
    change(&mut request);
    let (response, answers) = initiator.login_step(request, keys);
    let actual = u16::from_be_bytes([response.status_class, response.status_detail]);
    assert_eq!(actual, status, "{keys:?}");
    assert!(!response.transit && answers.is_empty());
    initiator.expect_closed();
}

#[test]
fn each_fault_of_an_initiator_has_its_status() {
    let fixture = Fixture::new();
    let name = ("InitiatorName", HOST);
    let target = ("TargetName", TARGET);
    let as_is = |_: &mut LoginRequest| {};
    refused(&fixture, as_is, &[target], 0x0207);
    refused(&fixture, as_is, &[name], 0x0207);
    refused(
        &fixture,
        as_is,
        &[("InitiatorName", "host"), target],
        0x0200,
    );
    // Only a target may send it.
    refused(
        &fixture,
        as_is,
        &[name, target, ("TargetAlias", "mine")],
        0x0200,
    );
    refused(
        &fixture,
        as_is,
        &[name, ("TargetName", "iqn.2001-04.com.example:none")],
        0x0203,
    );
    refused(&fixture, as_is, &[name, ("TargetName", "none")], 0x0203);
    refused(
        &fixture,
        as_is,
        &[name, target, ("SessionType", "Other")],
        0x0209,
    );
    refused(
        &fixture,
        as_is,
        &[name, target, ("InitialR2T", "No"), ("InitialR2T", "No")],
        0x0200,
    );
    refused(
        &fixture,
        |request| request.version_min = 1,
        &[name, target],
        0x0205,
    );
    refused(
        &fixture,
        |request| request.tsih = 9,
        &[name, target],
        0x020a,
    );
    refused(
        &fixture,
        |request| request.next_stage = 1,
        &[name, target],
        0x0200,
    );
    refused(
        &fixture,
        |request| request.next_stage = 2,
        &[name, target],
        0x0200,
    );
    refused(
        &fixture,
        |request| request.current_stage = 2,
        &[name, target],
        0x0200,
    );
    refused(
        &fixture,
        |request| request.r#continue = true,
        &[name, target],
        0x0200,
    );
}

#[test]
fn an_empty_list_admits_nobody() {
    let fixture = Fixture::with(ServerOptions::default(), |definition| {
        definition.access = TargetAccess::Initiators(BTreeSet::new());
    });
    let keys = [("InitiatorName", HOST), ("TargetName", TARGET)];
    refused(&fixture, |_| {}, &keys, 0x0203);
}

#[test]
fn an_initiator_without_access_is_refused_and_discovers_nothing() {
    let fixture = Fixture::with(ServerOptions::default(), |definition| {
        definition.access = only("iqn.2001-04.com.example:other");
    });
    refused(
        &fixture,
        |_| {},
        &[("InitiatorName", HOST), ("TargetName", TARGET)],
        0x0203,
    );
    assert_eq!(discover(&fixture, "All"), "");
}

fn unknown(fixture: &Fixture) -> Vec<String> {
    let unknown = fixture.server.unknown_initiators();
    unknown
        .iter()
        .map(|unknown| unknown.initiator.to_string())
        .collect()
}

#[test]
fn unknown_initiators_are_recorded() {
    let fixture = Fixture::with(ServerOptions::default(), |definition| {
        definition.access = only(HOST);
    });
    fixture.log_in().ping();
    assert!(unknown(&fixture).is_empty());
    let other = |number: usize| format!("iqn.2001-04.com.example:other{number}");
    // Refused twice, and listed once.
    for _ in 0..2 {
        let name = other(0);
        let keys = [("InitiatorName", name.as_str()), ("TargetName", TARGET)];
        refused(&fixture, |_| {}, &keys, 0x0203);
    }
    assert_eq!(unknown(&fixture), [other(0)]);
    assert_eq!(
        fixture.server.unknown_initiators()[0].address,
        fixture.address.ip()
    );
    // Discovery is permitted, and finds no target.
    for number in 1..40 {
        let name = other(number);
        let keys = [
            ("InitiatorName", name.as_str()),
            ("SessionType", "Discovery"),
        ];
        let mut initiator = Initiator::connect(fixture.address);
        let (response, _) = initiator.login_step(initiator.operational(), &keys);
        assert_eq!(response.status_class, 0);
    }
    let latest: Vec<_> = (8..40).rev().map(other).collect();
    assert_eq!(unknown(&fixture), latest);
}

#[test]
fn a_target_of_another_portal_group_is_not_found() {
    let fixture = Fixture::with(ServerOptions::default(), |definition| {
        definition.ports = vec![TargetPort {
            portal_group_tag: PORTAL_GROUP + 1,
            relative_target_port: 1,
        }];
    });
    refused(
        &fixture,
        |_| {},
        &[("InitiatorName", HOST), ("TargetName", TARGET)],
        0x0203,
    );
}

#[test]
fn requests_of_one_login_belong_together() {
    let fixture = Fixture::new();
    let mut initiator = Initiator::connect(fixture.address);
    let first = LoginRequest {
        transit: false,
        next_stage: 0,
        ..initiator.operational()
    };
    let keys = [("InitiatorName", HOST), ("TargetName", TARGET)];
    let (response, answers) = initiator.login_step(first, &keys);
    assert!(!response.transit);
    assert!(answers.contains(&("TargetPortalGroupTag".into(), PORTAL_GROUP.to_string())));
    let other = LoginRequest {
        isid: [9; 6],
        ..initiator.operational()
    };
    let (response, _) = initiator.login_step(other, &[]);
    assert_eq!((response.status_class, response.status_detail), (2, 0x0b));
    initiator.expect_closed();
}

#[test]
fn a_rejected_declaration_is_answered_once() {
    let fixture = Fixture::new();
    let mut initiator = Initiator::connect(fixture.address);
    let request = initiator.operational();
    let keys = [
        ("InitiatorName", HOST),
        ("TargetName", TARGET),
        ("MaxRecvDataSegmentLength", "1"),
    ];
    let (response, answers) = initiator.login_step(request, &keys);
    assert_eq!((response.status_class, response.transit), (0, true));
    let values: Vec<_> = answers
        .iter()
        .filter(|(key, _)| key == "MaxRecvDataSegmentLength")
        .map(|(_, value)| value.as_str())
        .collect();
    assert_eq!(values, ["Reject"]);
}

#[test]
fn text_can_span_several_requests() {
    let fixture = Fixture::new();
    let mut initiator = Initiator::connect(fixture.address);
    let request = initiator.operational();
    let part = LoginRequest {
        transit: false,
        next_stage: 0,
        r#continue: true,
        ..request
    };
    initiator.send(part.encode(), b"InitiatorName=iqn.2001-04.com.exam");
    let TargetPdu::LoginResponse(response) = initiator.receive().pdu else {
        panic!()
    };
    assert!(!response.transit && response.status_class == 0);
    initiator.send(
        request.encode(),
        format!("ple:host\0TargetName={TARGET}\0").as_bytes(),
    );
    let TargetPdu::LoginResponse(response) = initiator.receive().pdu else {
        panic!()
    };
    assert_eq!(
        (response.transit, response.next_stage, response.status_class),
        (true, 3, 0)
    );
    assert_eq!(fixture.server.sessions()[0].initiator.as_str(), HOST);
}

#[test]
fn endless_text_is_refused() {
    let fixture = Fixture::new();
    let mut initiator = Initiator::connect(fixture.address);
    let part = LoginRequest {
        transit: false,
        next_stage: 0,
        r#continue: true,
        ..initiator.operational()
    };
    for _ in 0..100 {
        initiator.send(part.encode(), &[b'a'; 8192]);
        let TargetPdu::LoginResponse(response) = initiator.receive().pdu else {
            panic!()
        };
        if response.status_class != 0 {
            assert_eq!((response.status_class, response.status_detail), (3, 2));
            return initiator.expect_closed();
        }
    }
    panic!("never refused");
}

#[test]
fn negotiated_values_are_answered_and_reported() {
    let fixture = Fixture::new();
    let mut initiator = Initiator::connect(fixture.address);
    let mut keys = FAST.to_vec();
    keys.extend([
        ("InitiatorAlias", "host one"),
        ("X-com.example.a", "1"),
        ("MaxConnections", "4"),
    ]);
    let answers = initiator.log_in(HOST, TARGET, &keys);
    let answer = |key: &str| {
        answers
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    };
    for (key, value) in [
        ("InitialR2T", "No"),
        ("ImmediateData", "Yes"),
        ("MaxRecvDataSegmentLength", "262144"),
        ("MaxBurstLength", "1048576"),
        ("FirstBurstLength", "65536"),
        ("MaxOutstandingR2T", "4"),
        ("MaxConnections", "1"),
        ("X-com.example.a", "NotUnderstood"),
    ] {
        assert_eq!(answer(key), Some(value), "{key}");
    }
    let session = fixture.server.sessions().remove(0);
    assert_eq!(
        (session.tsih, session.isid),
        (initiator.tsih, initiator.isid)
    );
    assert_eq!(session.peer, initiator.stream.local_addr().unwrap());
    assert!(!session.parameters.initial_r2t && session.account.is_none());
    wait_until("the device knows the nexus", || {
        !fixture.device.nexuses.lock().unwrap().is_empty()
    });
    let nexus = fixture.device.nexuses.lock().unwrap()[0].clone();
    assert_eq!(nexus.initiator_port, format!("{HOST},i,0x400000010000"));
    assert_eq!(
        (nexus.initiator_device.as_str(), nexus.relative_target_port),
        (HOST, 3)
    );
}

#[test]
fn where_chap_is_required_nothing_else_gets_in() {
    let fixture = guarded();
    let who = [("InitiatorName", HOST), ("TargetName", TARGET)];
    // The initiator begins with the operational stage, without authentication or with None only.
    refused(&fixture, |_| {}, &who, 0x0201);
    refused(&fixture, |request| request.current_stage = 0, &who, 0x0201);
    let keys = [who[0], who[1], ("AuthMethod", "None")];
    refused(&fixture, |request| request.current_stage = 0, &keys, 0x0201);
    // CHAP_R before a challenge.
    let keys = [
        who[0],
        who[1],
        ("AuthMethod", "CHAP"),
        ("CHAP_N", "user"),
        ("CHAP_R", "0x00"),
    ];
    refused(&fixture, |request| request.current_stage = 0, &keys, 0x0201);
    // CHAP was chosen, but the initiator leaves the stage.
    let mut initiator = Initiator::connect(fixture.address);
    let request = LoginRequest {
        current_stage: 0,
        ..initiator.operational()
    };
    let keys = [who[0], who[1], ("AuthMethod", "CHAP,None")];
    let (response, answers) = initiator.login_step(request, &keys);
    assert!(!response.transit && answers.contains(&("AuthMethod".into(), "CHAP".into())));
    let (response, answers) = initiator.login_step(request, &[("CHAP_A", "5")]);
    assert!(!response.transit);
    assert_eq!(
        answers
            .iter()
            .map(|(key, _)| key.as_str())
            .collect::<Vec<_>>(),
        ["CHAP_A", "CHAP_I", "CHAP_C"]
    );
    let keys = [
        ("CHAP_N", "user"),
        ("CHAP_R", "0x00112233445566778899aabbccddeeff"),
    ];
    let (response, _) = initiator.login_step(request, &keys);
    assert_eq!((response.status_class, response.status_detail), (2, 1));
    initiator.expect_closed();
    assert!(fixture.server.sessions().is_empty());
}

#[test]
fn discovery_without_chap_names_a_target_only_to_its_initiators() {
    const OTHER: &str = "iqn.2001-04.com.example:other";
    let fixture = Fixture::with(ServerOptions::default(), |definition| {
        definition.access = TargetAccess::Initiators([HOST.parse().unwrap()].into());
        definition.authentication.incoming = vec![ChapAccount {
            name: "host".into(),
            secret: Secret::new(b"known by nobody else").unwrap(),
            initiators: None,
        }];
    });
    assert!(discover(&fixture, "All").contains(TARGET));
    assert!(discover(&fixture, TARGET).contains(TARGET));
    for (name, status) in [(HOST, 0x0201), (OTHER, 0x0203)] {
        let keys = [("InitiatorName", name), ("TargetName", TARGET)];
        refused(&fixture, |_| {}, &keys, status);
    }
    let mut other = Initiator::connect(fixture.address);
    let keys = [("InitiatorName", OTHER), ("SessionType", "Discovery")];
    let (response, _) = other.login_step(other.operational(), &keys);
    assert_eq!(response.status_class, 0);
    assert_eq!(send_targets(&mut other, "All"), "");
    assert_eq!(send_targets(&mut other, TARGET), "");
}

#[test]
fn a_pdu_other_than_login_ends_the_connection() {
    let fixture = Fixture::new();
    let mut initiator = Initiator::connect(fixture.address);
    initiator.send(NopOut::default().encode(), &[]);
    initiator.expect_closed();
    let mut initiator = Initiator::connect(fixture.address);
    initiator.send(initiator.operational().encode(), &[b'a'; 8193]);
    initiator.expect_closed();
}

#[test]
fn a_silent_connection_is_closed() {
    let options = ServerOptions {
        login_timeout: Duration::from_millis(200),
        ..ServerOptions::default()
    };
    let fixture = Fixture::with(options, |_| {});
    Initiator::connect(fixture.address).expect_closed();
}

#[test]
fn sessions_are_limited() {
    let options = ServerOptions {
        max_connections: 1,
        ..ServerOptions::default()
    };
    let fixture = Fixture::with(options, |_| {});
    let first = fixture.log_in();
    let keys = [("InitiatorName", HOST), ("TargetName", TARGET)];
    refused(&fixture, |request| request.isid[5] = 1, &keys, 0x0302);
    // The same initiator port replaces its session.
    let second = fixture.log_in();
    drop(first);
    let first = second;
    drop(first);
    wait_until("the first one's place is free", || {
        fixture.server.sessions().is_empty()
    });
    fixture.log_in();
}

#[test]
fn sessions_of_one_initiator_name_are_limited() {
    let options = ServerOptions {
        max_sessions_per_initiator: 2,
        ..ServerOptions::default()
    };
    let fixture = Fixture::with(options, |_| {});
    let _first = fixture.log_in();
    let mut second = Initiator::connect(fixture.address);
    second.isid[5] = 1;
    second.log_in(HOST, TARGET, FAST);
    let keys = [("InitiatorName", HOST), ("TargetName", TARGET)];
    refused(&fixture, |request| request.isid[5] = 2, &keys, 0x0302);
    // Other hosts, and the initiator's own ports, are permitted.
    let mut other = Initiator::connect(fixture.address);
    other.log_in("iqn.2001-04.com.example:other", TARGET, FAST);
    fixture.log_in().ping();
}

fn discovery(fixture: &Fixture, keys: &[(&str, &str)]) -> Initiator {
    let mut initiator = Initiator::connect(fixture.address);
    let mut all = vec![("InitiatorName", HOST), ("SessionType", "Discovery")];
    all.extend_from_slice(keys);
    let (response, _) = initiator.login_step(initiator.operational(), &all);
    assert_eq!((response.status_class, response.transit), (0, true));
    initiator
}

fn send_targets(initiator: &mut Initiator, value: &str) -> String {
    initiator.text(&format!("SendTargets={value}\0"))
}

fn discover(fixture: &Fixture, value: &str) -> String {
    send_targets(&mut discovery(fixture, &[]), value)
}

#[test]
fn discovery_names_targets_and_addresses() {
    let fixture = Fixture::new();
    let expected = format!(
        "TargetName={TARGET}\0TargetAddress={},{PORTAL_GROUP}\0",
        fixture.address
    );
    assert_eq!(discover(&fixture, "All"), expected);
    assert_eq!(discover(&fixture, TARGET), expected);
    assert_eq!(discover(&fixture, "iqn.2001-04.com.example:none"), "");
    assert_eq!(discover(&fixture, ""), "SendTargets=Reject\0");
    // In a normal session: its target, never all targets.
    let mut initiator = fixture.log_in();
    assert_eq!(send_targets(&mut initiator, ""), expected);
    assert_eq!(send_targets(&mut initiator, "All"), "SendTargets=Reject\0");
}

#[test]
fn discovery_reports_the_advertised_address() {
    let fixture = Fixture::new();
    let any_port = "127.0.0.1:0".parse().unwrap();
    let advertised = "192.0.2.7:4000".parse().unwrap();
    let portal = |address, advertised| iscsi::Portal {
        address,
        group_tag: PORTAL_GROUP,
        advertised,
    };
    let translated = portal("[::1]:0".parse().unwrap(), Some(advertised));
    let portals = [portal(any_port, None), translated];
    fixture.server.set_portals(&portals).unwrap();
    let expected = format!(
        "TargetName={TARGET}\0TargetAddress={},{PORTAL_GROUP}\0TargetAddress={advertised},{PORTAL_GROUP}\0",
        fixture.address
    );
    assert_eq!(discover(&fixture, "All"), expected);
}

#[test]
fn a_long_list_comes_in_pieces() {
    let fixture = Fixture::new();
    let names: Vec<String> = (0..50)
        .map(|number| format!("{TARGET}-{number:02}"))
        .collect();
    let definitions = names.iter().map(|name| {
        let mut definition = definition(&fixture.device);
        definition.name = name.parse().unwrap();
        definition
    });
    fixture.server.set_targets(definitions.collect()).unwrap();
    let mut initiator = discovery(&fixture, &[("MaxRecvDataSegmentLength", "512")]);
    let text = send_targets(&mut initiator, "All");
    let discovered: Vec<_> = text
        .split('\0')
        .filter_map(|pair| pair.strip_prefix("TargetName="))
        .collect();
    assert_eq!(discovered, names);
}

#[test]
fn commands_have_no_place_in_discovery() {
    let fixture = Fixture::new();
    let mut initiator = discovery(&fixture, &[]);
    let command = initiator.command(&[0; 6]);
    initiator.send(command.encode(), &[]);
    assert_eq!(initiator.expect_reject(), 5);
    initiator.ping();
}
