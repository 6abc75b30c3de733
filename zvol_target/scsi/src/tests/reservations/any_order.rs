// SPDX-License-Identifier: Apache-2.0
//! Random requests of three hosts, checked with the rules.

use std::sync::Arc;

use proptest::prelude::*;

use super::super::Initiator;
use super::{ALL_TG_PT, ALL_TYPES, APTPL, RESERVE, Stored, list, ports, through, with_store};
use crate::sam::Status;

/// Request of one of three hosts: host number, service action, type, key, other key, flags.
fn request() -> impl Strategy<Value = (usize, u8, u8, u64, u64, u8)> {
    let kind = prop_oneof![9 => prop::sample::select(&ALL_TYPES[..]), 1 => any::<u8>()];
    let flags = prop_oneof![3 => Just(0), 1 => Just(ALL_TG_PT), 1 => Just(APTPL)];
    (0..3_usize, 0..8_u8, kind, 0..4_u64, 0..4_u64, flags)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn registrations_are_always_consistent(
        requests in prop::collection::vec(request(), 1..60),
    ) {
        let store = Arc::new(Stored::default());
        let first = with_store(&store);
        ports(&first.device, &[3, 4]);
        let hosts = [
            Initiator::of(Arc::clone(&first.device)),
            through(&first, 1 << 41, 4),
            first,
        ];
        let unit = hosts[0].device.logical_unit(0).unwrap();
        let mut generation = 0;
        for (host, action, kind, key, other, flags) in requests {
            let host = &hosts[host];
            let before = unit.persistent_reservations().unwrap();
            let status = host.send_out(action, kind, &list(key, other, flags)).status;
            let after = unit.persistent_reservations().unwrap();
            prop_assert_eq!(after.check(), Ok(()));
            if status != Status::Good {
                prop_assert_eq!(&before, &after);
            }
            // Only a registered nexus gets a reservation, and only if it requested one.
            if let (None, Some(held)) = (&before.reservation, &after.reservation) {
                prop_assert_eq!(action, RESERVE);
                prop_assert_eq!(held.kind as u8, kind);
            }
            for host in &hosts {
                let _ = host.unit_attentions();
            }
            let now = host.generation();
            prop_assert!(now == generation || now == generation + 1);
            generation = now;
            prop_assert_eq!(store.last(), unit.persistent_reservations().unwrap());
            let reservation = host.reservation();
            prop_assert_eq!(reservation.is_some(), after.reservation.is_some());
        }
    }
}
