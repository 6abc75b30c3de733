// SPDX-License-Identifier: Apache-2.0
//! Floods of connections that do not log in, while hosts log in.

use iscsi::ServerOptions;
use std::net::{IpAddr, SocketAddr, TcpStream};

use crate::support::{FAST, Fixture, HOST, Initiator, TARGET};
use socket2::{Domain, Socket, Type};

fn connect_from(source: &str, to: SocketAddr) -> TcpStream {
    let source: IpAddr = source.parse().unwrap();
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::new(source, 0).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}

#[test]
fn silent_connections_do_not_lock_out_hosts() {
    let options = ServerOptions {
        max_logins: 24,
        max_logins_per_peer: 8,
        ..ServerOptions::default()
    };
    let fixture = Fixture::with(options, |_| {});
    let mut working = fixture.log_in();
    // A host in the middle of its login: it has one connection, and the flood uses four addresses.
    let mut slow = Initiator::on(connect_from("127.0.0.9", fixture.address));
    slow.isid[5] = 9;
    let first = iscsi::pdu::LoginRequest {
        transit: false,
        next_stage: 0,
        ..slow.operational()
    };
    slow.login_step(first, &[("InitiatorName", HOST), ("TargetName", TARGET)]);
    let flood: Vec<Initiator> = (0..200)
        .map(|number| {
            let source = format!("127.0.0.{}", 2 + number % 4);
            Initiator::on(connect_from(&source, fixture.address))
        })
        .collect();
    // Hosts log in: one from its own address, and one from the address of a flooder.
    for (number, source) in [(1, "127.0.0.8"), (2, "127.0.0.2")] {
        let mut host = Initiator::on(connect_from(source, fixture.address));
        host.isid[5] = number;
        host.log_in(HOST, TARGET, FAST);
        host.ping();
    }
    let (response, _) = slow.login_step(slow.operational(), &[]);
    assert_eq!((response.status_class, response.transit), (0, true));
    assert_eq!(working.read(0, 1).len(), 512);
    // All but at most the last 24 were closed.
    for mut silent in flood.into_iter().take(200 - 24) {
        silent.expect_closed();
    }
}

#[test]
fn discovery_sessions_do_not_lock_out_hosts() {
    let options = ServerOptions {
        max_connections: 4,
        max_logins: 12,
        max_logins_per_peer: 8,
        ..ServerOptions::default()
    };
    let fixture = Fixture::with(options, |_| {});
    let mut flood: Vec<Initiator> = (0..40u8)
        .map(|number| {
            let mut initiator = Initiator::connect(fixture.address);
            initiator.isid[5] = number;
            let keys = [("InitiatorName", HOST), ("SessionType", "Discovery")];
            let (response, _) = initiator.login_step(initiator.operational(), &keys);
            assert_eq!(response.status_class, 0);
            initiator
        })
        .collect();
    let mut host = Initiator::connect(fixture.address);
    host.isid[5] = 99;
    host.log_in(HOST, TARGET, FAST);
    host.ping();
    // The oldest were closed, the newest are served.
    flood[0].expect_closed();
    flood[39].ping();
}

#[test]
fn one_address_does_not_take_all_sessions() {
    let options = ServerOptions {
        max_connections: 8,
        max_sessions_per_peer: 3,
        ..ServerOptions::default()
    };
    let fixture = Fixture::with(options, |_| {});
    let log_in = |source: &str, number| {
        let mut host = Initiator::on(connect_from(source, fixture.address));
        host.isid[5] = number;
        let keys = [("InitiatorName", HOST), ("TargetName", TARGET)];
        let (response, _) = host.login_step(host.operational(), &keys);
        (host, (response.status_class, response.status_detail))
    };
    let all: Vec<_> = (0..3).map(|number| log_in("127.0.0.2", number)).collect();
    assert!(all.iter().all(|(_, status)| *status == (0, 0)));
    assert_eq!(log_in("127.0.0.2", 3).1, (3, 2));
    // It can replace a connection of the same address; other addresses are not affected.
    assert_eq!(log_in("127.0.0.2", 2).1, (0, 0));
    assert_eq!(log_in("127.0.0.3", 4).1, (0, 0));
}
