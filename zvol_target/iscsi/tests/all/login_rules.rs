// SPDX-License-Identifier: Apache-2.0
//! Logins that conflict with existing sessions and targets, and attempts to bypass CHAP.

use crate::support::{
    FAST, Fixture, HOST, Initiator, PORTAL_GROUP, TARGET, account, definition, wait_until,
};
use iscsi::pdu::{LoginRequest, LoginResponse, TargetPdu};
use iscsi::{ServerOptions, TargetPort};
use md5::{Digest as _, Md5};
use proptest::prelude::*;

const SECRET: &[u8] = b"incoming secret";

fn guarded() -> Fixture {
    Fixture::with(ServerOptions::default(), |definition| {
        definition.authentication.incoming = vec![account("user", SECRET)];
        definition.authentication.outgoing = Some(account("target", b"outgoing secret"));
    })
}

fn status(response: &LoginResponse) -> u16 {
    u16::from_be_bytes([response.status_class, response.status_detail])
}

/// Sends one request that starts a login and does not end it.
fn begin(initiator: &mut Initiator) {
    let request = LoginRequest {
        transit: false,
        next_stage: 0,
        ..initiator.operational()
    };
    let keys = [("InitiatorName", HOST), ("TargetName", TARGET)];
    assert_eq!(status(&initiator.login_step(request, &keys).0), 0);
}

#[test]
fn a_target_removed_during_a_login_is_reported_as_removed() {
    let fixture = Fixture::new();
    let mut initiator = Initiator::connect(fixture.address);
    begin(&mut initiator);
    fixture.server.set_targets(Vec::new()).unwrap();
    let (response, _) = initiator.login_step(initiator.operational(), &[]);
    assert_eq!(status(&response), 0x0204);
    initiator.expect_closed();
}

#[test]
fn sessions_of_a_removed_target_end_with_a_message_and_others_stay() {
    let fixture = Fixture::new();
    let mut other = definition(&fixture.device);
    other.name = "iqn.2001-04.com.example:other".parse().unwrap();
    let both = vec![definition(&fixture.device), other.clone()];
    fixture.server.set_targets(both).unwrap();
    let mut going = fixture.log_in();
    let mut staying = Initiator::connect(fixture.address);
    staying.log_in(HOST, other.name.as_str(), FAST);
    fixture.server.set_targets(vec![other]).unwrap();
    going.expect_dropped();
    assert_eq!(staying.read(0, 1).len(), 512);
    assert_eq!(fixture.server.sessions().len(), 1);
}

/// Logs in to the session `tsih` of `HOST` with a connection `cid` at `portal`.
fn join(fixture: &Fixture, portal: usize, tsih: u16, cid: u16) -> u16 {
    let mut initiator = Initiator::connect(fixture.server.portals()[portal].address);
    initiator.tsih = tsih;
    let request = LoginRequest {
        cid,
        ..initiator.operational()
    };
    let keys = [("InitiatorName", HOST), ("TargetName", TARGET)];
    status(&initiator.login_step(request, &keys).0)
}

#[test]
fn a_session_has_one_connection_in_one_portal_group() {
    let fixture = Fixture::new();
    let loopback = |group_tag| iscsi::Portal {
        address: "127.0.0.1:0".parse().unwrap(),
        group_tag,
        advertised: None,
    };
    let groups = [PORTAL_GROUP, PORTAL_GROUP + 1];
    fixture.server.set_portals(&groups.map(loopback)).unwrap();
    let mut target = definition(&fixture.device);
    target.ports.push(TargetPort {
        portal_group_tag: PORTAL_GROUP + 1,
        relative_target_port: 4,
    });
    fixture.server.set_targets(vec![target]).unwrap();
    let mut session = fixture.log_in();
    // A second connection: MaxConnections is 1.
    assert_eq!(join(&fixture, 0, session.tsih, 2), 0x0206);
    // A session does not span portal groups.
    assert_eq!(join(&fixture, 1, session.tsih, 2), 0x0208);
    assert_eq!(join(&fixture, 0, session.tsih + 1, 1), 0x020a);
    session.ping();
    // The same ISID in the other group is another session (4.4.3).
    let mut second = Initiator::connect(fixture.server.portals()[1].address);
    second.log_in(HOST, TARGET, FAST);
    session.ping();
    let ports: Vec<_> = fixture.server.sessions().into_iter().collect();
    let ports: Vec<_> = ports
        .iter()
        .map(|session| session.target.as_ref().unwrap().1.relative_target_port)
        .collect();
    assert_eq!(ports, [3, 4]);
    // The connection of the session is replaced (6.3.4).
    assert_eq!(join(&fixture, 0, session.tsih, 1), 0);
    session.expect_closed();
    second.ping();
}

/// Chooses CHAP with MD5. Returns identifier and challenge as text.
fn challenge(initiator: &mut Initiator) -> (LoginRequest, u8, String) {
    let request = LoginRequest {
        current_stage: 0,
        next_stage: 1,
        ..initiator.operational()
    };
    let keys = [
        ("InitiatorName", HOST),
        ("TargetName", TARGET),
        ("AuthMethod", "CHAP"),
    ];
    initiator.login_step(request, &keys);
    let (_, answers) = initiator.login_step(request, &[("CHAP_A", "5")]);
    (request, answers[1].1.parse().unwrap(), answers[2].1.clone())
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digits: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{}", digits.concat())
}

fn response(identifier: u8, secret: &[u8], challenge: &str) -> String {
    let challenge: Vec<u8> = (2..challenge.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&challenge[at..at + 2], 16).unwrap())
        .collect();
    let hash = Md5::digest([&[identifier][..], secret, &challenge].concat());
    hexadecimal(&hash)
}

#[test]
fn a_reflected_challenge_is_refused_and_another_is_answered() {
    let fixture = guarded();
    for reflect in [true, false] {
        let mut initiator = Initiator::connect(fixture.address);
        let (request, identifier, ours) = challenge(&mut initiator);
        let right = response(identifier, SECRET, &ours);
        // With different digits than it was received.
        let theirs = if reflect {
            format!("0x{}", ours[2..].to_uppercase())
        } else {
            hexadecimal(&[9; 16])
        };
        let keys = [
            ("CHAP_N", "user"),
            ("CHAP_R", right.as_str()),
            ("CHAP_I", "7"),
            ("CHAP_C", &theirs),
        ];
        let (answer, pairs) = initiator.login_step(request, &keys);
        if reflect {
            assert_eq!((status(&answer), pairs), (0x0201, Vec::new()));
            initiator.expect_closed();
            assert!(fixture.server.sessions().is_empty());
        } else {
            let expected = response(7, b"outgoing secret", &theirs);
            assert!(answer.transit && pairs.contains(&("CHAP_R".into(), expected)));
            let (answer, _) = initiator.login_step(initiator.operational(), &[]);
            assert_eq!((status(&answer), answer.transit), (0, true));
            wait_until("the session is there", || {
                fixture.server.sessions().len() == 1
            });
            assert_eq!(
                fixture.server.sessions()[0].account.as_deref(),
                Some("user")
            );
        }
    }
}

#[test]
fn an_answer_to_the_challenge_of_another_connection_is_refused() {
    let fixture = guarded();
    let mut first = Initiator::connect(fixture.address);
    let (_, identifier, ours) = challenge(&mut first);
    let mut second = Initiator::connect(fixture.address);
    let (request, ..) = challenge(&mut second);
    let stolen = response(identifier, SECRET, &ours);
    let keys = [("CHAP_N", "user"), ("CHAP_R", stolen.as_str())];
    assert_eq!(status(&second.login_step(request, &keys).0), 0x0201);
}

/// One Login Request of an initiator that does not know the secret.
#[derive(Clone, Debug)]
struct Attempt {
    transit: bool,
    more: bool,
    stages: (u8, u8),
    keys: Vec<(&'static str, &'static str)>,
}

fn attempt() -> impl Strategy<Value = Attempt> {
    let key = prop::sample::select(vec![
        ("InitiatorName", HOST),
        ("TargetName", TARGET),
        ("SessionType", "Normal"),
        ("SessionType", "Discovery"),
        ("AuthMethod", "None"),
        ("AuthMethod", "CHAP"),
        ("AuthMethod", "CHAP,None"),
        ("CHAP_A", "5"),
        ("CHAP_A", "7,5"),
        ("CHAP_N", "user"),
        ("CHAP_R", "0x00112233445566778899aabbccddeeff"),
        ("CHAP_I", "1"),
        ("CHAP_C", "0x00112233445566778899aabbccddeeff"),
        ("MaxRecvDataSegmentLength", "512"),
        ("HeaderDigest", "CRC32C"),
        ("X-com.example.a", "b"),
    ]);
    let stage = || prop::sample::select(vec![0u8, 0, 0, 1, 1, 3, 2]);
    (
        any::<bool>(),
        prop::bool::weighted(0.1),
        (stage(), stage()),
        prop::sample::subsequence((0..4).collect::<Vec<_>>(), 0..4),
        prop::collection::vec(key, 0..5),
    )
        .prop_map(|(transit, more, stages, leading, mut keys)| {
            let lead = [
                ("InitiatorName", HOST),
                ("TargetName", TARGET),
                ("AuthMethod", "CHAP"),
                ("CHAP_A", "5"),
            ];
            keys.extend(leading.into_iter().map(|at| lead[at]));
            Attempt {
                transit,
                more,
                stages,
                keys,
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn nothing_but_the_secret_opens_a_guarded_target(attempts in prop::collection::vec(attempt(), 1..7)) {
        thread_local! {
            static FIXTURE: Fixture = guarded();
        }
        FIXTURE.with(|fixture| {
            let mut initiator = Initiator::connect(fixture.address);
            for attempt in &attempts {
                let request = LoginRequest {
                    transit: attempt.transit,
                    r#continue: attempt.more,
                    current_stage: attempt.stages.0,
                    next_stage: attempt.stages.1,
                    ..initiator.operational()
                };
                let text: Vec<_> = attempt.keys.iter().map(|(key, value)| format!("{key}={value}\0")).collect();
                initiator.send(request.encode(), text.concat().as_bytes());
                let answer = initiator.receive();
                let TargetPdu::LoginResponse(answer) = answer.pdu else {
                    panic!("no Login Response: {answer:?}");
                };
                let discovery = fixture.server.sessions().iter().all(|session| session.target.is_none());
                assert!(discovery, "a session without the secret");
                if answer.status_class != 0 {
                    initiator.expect_closed();
                    break;
                }
                if answer.transit && answer.next_stage == 3 {
                    break;
                }
            }
        });
    }
}

#[test]
fn a_login_that_brings_keys_without_end_is_refused() {
    let fixture = Fixture::new();
    let mut initiator = Initiator::connect(fixture.address);
    let request = || LoginRequest {
        transit: false,
        next_stage: 0,
        ..Initiator::connect(fixture.address).operational()
    };
    let keys = [("InitiatorName", HOST), ("SessionType", "Discovery")];
    let (response, _) = initiator.login_step(request(), &keys);
    assert_eq!(response.status_class, 0);
    let mut status = (0, 0);
    for round in 0..10 {
        let names: Vec<String> = (0..100).map(|key| format!("X-{round}-{key}")).collect();
        // An answer without a request gets no answer.
        let keys: Vec<_> = names.iter().map(|name| (&name[..], "Reject")).collect();
        let (response, _) = initiator.login_step(request(), &keys);
        status = (response.status_class, response.status_detail);
        if status != (0, 0) {
            break;
        }
    }
    assert_eq!(status, (3, 2));
}
