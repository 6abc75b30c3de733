//! Floods of connections that do not log in, beside hosts that do.

mod support;

use iscsi::ServerOptions;
use std::net::{IpAddr, SocketAddr, TcpStream};

use socket2::{Domain, Socket, Type};
use support::{FAST, Fixture, HOST, Initiator, TARGET};

fn connect_from(source: &str, to: SocketAddr) -> TcpStream {
    let source: IpAddr = source.parse().unwrap();
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::new(source, 0).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}

#[test]
fn silent_connections_lock_nobody_out() {
    let options = ServerOptions {
        max_logins: 24,
        max_logins_per_peer: 8,
        ..ServerOptions::default()
    };
    let fixture = Fixture::with(options, |_| {});
    let mut working = fixture.log_in();
    // A host in the middle of its login: it has one connection, and the flood comes from four addresses.
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
    // Hosts log in: one of an address of its own, and one that shares that of a flooder.
    for (number, source) in [(1, "127.0.0.8"), (2, "127.0.0.2")] {
        let mut host = Initiator::on(connect_from(source, fixture.address));
        host.isid[5] = number;
        host.log_in(HOST, TARGET, FAST);
        host.ping();
    }
    let (response, _) = slow.login_step(slow.operational(), &[]);
    assert_eq!((response.status_class, response.transit), (0, true));
    assert_eq!(working.read(0, 1).len(), 512);
    // All but the last 24 at most were closed.
    for mut silent in flood.into_iter().take(200 - 24) {
        silent.expect_closed();
    }
}
