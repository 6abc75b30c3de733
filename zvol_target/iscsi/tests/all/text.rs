// SPDX-License-Identifier: Apache-2.0
//! Text Requests in full feature phase: keys that may change in this phase, and discovery at each portal.

use std::net::SocketAddr;

use crate::support::{Fixture, HOST, Initiator, TARGET, definition, only};
use iscsi::pdu::{RESERVED_TAG, TargetPdu, TextRequest};
use iscsi::{Portal, TargetPort};

#[test]
fn few_keys_may_change_after_login() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    for (text, answer) in [
        ("MaxConnections=2\0", "MaxConnections=Reject\0"),
        ("InitialR2T=Yes\0", "InitialR2T=Reject\0"),
        ("AuthMethod=None\0", "AuthMethod=Reject\0"),
        ("TargetAddress=192.0.2.1\0", "TargetAddress=Reject\0"),
        ("X-com.example.a=1\0", "X-com.example.a=NotUnderstood\0"),
        (
            "HeaderDigest=CRC32C\0Other=1\0",
            "HeaderDigest=Reject\0Other=NotUnderstood\0",
        ),
        // Declarations, and answers without a request.
        ("InitiatorAlias=host\0", ""),
        ("X-com.example.a=NotUnderstood\0InitialR2T=Irrelevant\0", ""),
        (
            "MaxRecvDataSegmentLength=511\0",
            "MaxRecvDataSegmentLength=Reject\0",
        ),
        ("", ""),
    ] {
        assert_eq!(initiator.text(text), answer, "{text}");
    }
    // A declaration has an immediate effect.
    let segments = |initiator: &mut Initiator| {
        let command = initiator.read_command(0, 16);
        initiator.send(command.encode(), &[]);
        initiator
            .receive_data_in(command.initiator_task_tag)
            .1
            .len()
    };
    assert_eq!(segments(&mut initiator), 1);
    assert_eq!(initiator.text("MaxRecvDataSegmentLength=1024\0"), "");
    assert_eq!(segments(&mut initiator), 8);
}

#[test]
fn malformed_text_is_rejected_and_the_session_continues() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let request = TextRequest {
        immediate: true,
        r#final: true,
        initiator_task_tag: 7,
        target_transfer_tag: RESERVED_TAG,
        cmd_sn: initiator.cmd_sn,
        ..TextRequest::default()
    };
    let contradiction = TextRequest {
        r#continue: true,
        ..request
    };
    let long_key = format!("{}=1\0", "k".repeat(64));
    for (request, text) in [
        (contradiction, "SendTargets=\0"),
        (request, "SendTargets\0"),
        (request, "=1\0"),
        (request, "a key=1\0"),
        (request, long_key.as_str()),
        // One key twice (6.2).
        (request, "InitialR2T=No\0InitialR2T=No\0"),
    ] {
        initiator.send(request.encode(), text.as_bytes());
        assert_eq!(initiator.expect_reject(), 4, "{text}");
    }
    initiator.send(request.encode(), &[0xff, b'=', b'1', 0]);
    assert_eq!(initiator.expect_reject(), 4);
    // A sequence uses one Initiator Task Tag (11.10.3).
    let first = TextRequest {
        r#final: false,
        r#continue: true,
        ..request
    };
    initiator.send(first.encode(), b"SendTar");
    let answer = initiator.receive();
    let TargetPdu::TextResponse(response) = answer.pdu else {
        panic!("{answer:?}")
    };
    assert!(!response.r#final && !response.r#continue);
    let mut second = TextRequest {
        initiator_task_tag: 8,
        target_transfer_tag: response.target_transfer_tag,
        ..request
    };
    initiator.send(second.encode(), b"gets=\0");
    assert_eq!(initiator.expect_reject(), 9);
    second.initiator_task_tag = 7;
    initiator.send(second.encode(), b"gets=\0");
    let answer = initiator.receive();
    assert!(matches!(answer.pdu, TargetPdu::TextResponse(response) if response.r#final));
    assert!(answer.data.starts_with(b"TargetName="));
    initiator.ping();
}

fn discover(at: SocketAddr, name: &str) -> String {
    let mut initiator = Initiator::connect(at);
    let keys = [("InitiatorName", name), ("SessionType", "Discovery")];
    let (response, _) = initiator.login_step(initiator.operational(), &keys);
    assert_eq!((response.status_class, response.transit), (0, true));
    initiator.text("SendTargets=All\0")
}

fn portal(address: &str, group_tag: u16) -> Portal {
    Portal {
        address: address.parse().unwrap(),
        group_tag,
        advertised: None,
    }
}

#[test]
fn discovery_reports_every_portal_of_a_targets_groups() {
    let fixture = Fixture::new();
    let requested = [
        portal("127.0.0.1:0", 1),
        portal("127.0.0.2:0", 1),
        portal("[::1]:0", 2),
        portal("0.0.0.0:0", 2),
        portal("[::]:0", 3),
    ];
    fixture.server.set_portals(&requested).unwrap();
    let port = |portal_group_tag| TargetPort {
        portal_group_tag,
        relative_target_port: portal_group_tag,
    };
    let mut both = definition(&fixture.device);
    both.ports = vec![port(1), port(2)];
    let mut third = definition(&fixture.device);
    third.name = "iqn.2001-04.com.example:third".parse().unwrap();
    third.ports = vec![port(3)];
    let mut hidden = definition(&fixture.device);
    hidden.name = "iqn.2001-04.com.example:hidden".parse().unwrap();
    hidden.ports = vec![port(1)];
    hidden.access = only("iqn.2001-04.com.example:other");
    let third_name = third.name.clone();
    let targets = vec![both, third, hidden];
    fixture.server.set_targets(targets).unwrap();
    let open = fixture.server.portals();
    let port = |at: usize| open[at].address.port();

    // A wildcard portal is reported with the address that the initiator connected to, if it has the portal's family. A target
    // without a reachable portal is omitted.
    let fixed = format!(
        "TargetAddress=127.0.0.1:{},1\0TargetAddress=127.0.0.2:{},1\0TargetAddress=[::1]:{},2\0",
        port(0),
        port(1),
        port(2)
    );
    let by_four = format!(
        "TargetName={TARGET}\0{fixed}TargetAddress=127.0.0.9:{},2\0",
        port(3)
    );
    let by_six = format!(
        "TargetName={TARGET}\0{fixed}TargetName={third_name}\0TargetAddress=[::1]:{},3\0",
        port(4)
    );
    let to = |ip: &str, at: usize| SocketAddr::new(ip.parse().unwrap(), port(at));
    assert_eq!(discover(to("127.0.0.9", 3), HOST), by_four);
    assert_eq!(discover(to("::1", 4), HOST), by_six);
    assert_eq!(discover(to("::1", 2), HOST), by_six);
    let other = discover(to("127.0.0.1", 0), "iqn.2001-04.com.example:other");
    assert!(other.contains("TargetName=iqn.2001-04.com.example:hidden\0"));

    // A login belongs to the group of its portal.
    let mut initiator = Initiator::connect(to("::1", 2));
    let answers = initiator.log_in(HOST, TARGET, &[]);
    assert!(answers.contains(&("TargetPortalGroupTag".into(), "2".into())));
    let mut elsewhere = Initiator::connect(to("::1", 4));
    let keys = [("InitiatorName", HOST), ("TargetName", TARGET)];
    let (response, _) = elsewhere.login_step(elsewhere.operational(), &keys);
    assert_eq!((response.status_class, response.status_detail), (2, 3));
    initiator.ping();
}
