// SPDX-License-Identifier: Apache-2.0
//! REPORT TARGET PORT GROUPS, and its consistency with other reports.

use super::setup;
use crate::TargetPort;

fn report(format: u8, length: u8) -> [u8; 12] {
    [
        0xa3,
        0x0a | (format << 5),
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        length,
        0,
        0,
    ]
}

#[test]
fn every_port_is_in_its_group_and_active() {
    let (_, initiator) = setup();
    let alone = [0, 0, 0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 3];
    assert_eq!(initiator.data(&report(0, 255)), alone);
    let port = |relative_target_port, target_port_group| TargetPort {
        relative_target_port,
        target_port_group,
        name: String::new(),
    };
    let ports = vec![port(3, 2), port(4, 1), port(0x105, 2)];
    initiator.device.set_target_ports(ports);
    initiator.sense(&[0; 6]);
    let groups = [
        &[0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 4][..],
        &[0, 1, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 1, 5],
    ]
    .concat();
    let plain = [&[0, 0, 0, 28][..], &groups].concat();
    assert_eq!(initiator.data(&report(0, 255)), plain);
    let extended = [&[0, 0, 0, 32, 0x10, 0, 0, 0][..], &groups].concat();
    assert_eq!(initiator.data(&report(1, 255)), extended);
    assert_eq!(initiator.data(&report(0, 6)), plain[..6]);
    // The group of this path in Device Identification.
    let page = initiator.data(&[0x12, 1, 0x83, 0, 255, 0]);
    assert!(
        page.windows(8)
            .any(|designator| designator == [1, 0x15, 0, 4, 0, 0, 0, 2])
    );
    // TPGS: implicit.
    assert_eq!(initiator.data(&[0x12, 0, 0, 0, 96, 0])[5] & 0x30, 0x10);
    for format in 2..8 {
        assert_eq!(initiator.code(&report(format, 255), &[]), (5, 0x24, 0));
    }
}
