// SPDX-License-Identifier: Apache-2.0
//! Any input from an initiator results in a status.

use std::sync::Arc;

use proptest::prelude::*;

use super::{Initiator, RamVolume, Sent, options, product};
use crate::command_table::COMMANDS;
use crate::sam::{LogicalUnitNumber, Outcome, Status, TaskAttribute};
use crate::{Device, LogicalUnit, LogicalUnitAccess};

fn attribute() -> impl Strategy<Value = TaskAttribute> {
    prop_oneof![
        Just(TaskAttribute::Simple),
        Just(TaskAttribute::Ordered),
        Just(TaskAttribute::HeadOfQueue),
        Just(TaskAttribute::AutoContingentAllegiance),
    ]
}

/// Valid CDBs of the table, with arbitrary values in the allowed fields: they pass the first check.
fn plausible_cdb() -> impl Strategy<Value = Vec<u8>> {
    (
        0..COMMANDS.len(),
        prop::collection::vec(any::<u8>(), 16),
        prop::collection::vec(any::<bool>(), 16),
    )
        .prop_map(|(command, noise, keep)| {
            let command = &COMMANDS[command];
            let mut cdb: Vec<u8> = command
                .usage
                .iter()
                .zip(noise.iter().zip(keep))
                .map(|(usage, (noise, keep))| if keep { usage & noise } else { 0 })
                .collect();
            cdb[0] = command.operation_code();
            if let Some(action) = command.service_action() {
                cdb[1] = cdb[1] & !0x1f | action;
            }
            cdb
        })
}

fn cdb() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => plausible_cdb(),
        1 => prop::collection::vec(any::<u8>(), 6..=32),
        // Lengths that the interface excludes must be harmless too.
        1 => prop::collection::vec(any::<u8>(), 0..=6),
    ]
}

fn logical_unit() -> impl Strategy<Value = LogicalUnitNumber> {
    prop_oneof![
        4 => Just(LogicalUnitNumber([0; 8])),
        1 => Just(crate::address::REPORT_LUNS_WELL_KNOWN),
        1 => any::<[u8; 8]>().prop_map(LogicalUnitNumber),
    ]
}

fn answer(initiator: &Initiator, attribute: TaskAttribute, cdb: &[u8], data: &[u8]) -> Outcome {
    super::block_on(initiator.execute(1, attribute, cdb, Sent::boxed(data)))
}

fn check(outcome: &Outcome) -> Result<(), TestCaseError> {
    let Outcome::Completed(completion) = outcome else {
        return Err(TestCaseError::fail("aborted"));
    };
    match completion.status {
        Status::Good => prop_assert!(completion.sense.is_empty()),
        Status::CheckCondition => {
            prop_assert!(completion.sense.len() >= 8);
            prop_assert!(completion.data_in.is_none());
        }
        // RESERVE needs no parameters.
        Status::ReservationConflict => prop_assert!(completion.sense.is_empty()),
        status => return Err(TestCaseError::fail(format!("{status:?}"))),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_command_gets_a_status(
        commands in prop::collection::vec(
            (logical_unit(), attribute(), cdb(), prop::collection::vec(any::<u8>(), 0..1100)),
            1..8,
        )
    ) {
        let volume = RamVolume::thin(64);
        volume.set_atomic_write_bytes(4096);
        let initiator = Initiator::new(&volume, options());
        for (logical_unit, attribute, cdb, data) in commands {
            check(&answer(&initiator.to(logical_unit), attribute, &cdb, &data))?;
        }
    }

    #[test]
    fn a_unit_that_is_not_ready_never_uses_its_volume(
        cdb in cdb(),
        data in prop::collection::vec(any::<u8>(), 0..1100),
    ) {
        let device = Arc::new(Device::new(product()));
        let unit = LogicalUnit::not_ready(options());
        device.insert_logical_unit(0, unit, LogicalUnitAccess::Any).unwrap();
        let initiator = Initiator::fresh(device);
        // The unit attention comes first.
        check(&answer(&initiator, TaskAttribute::Simple, &[0; 6], &[]))?;
        let outcome = answer(&initiator, TaskAttribute::Simple, &cdb, &data);
        check(&outcome)?;
        let Outcome::Completed(completion) = outcome else { unreachable!() };
        if completion.status == Status::CheckCondition {
            // NOT READY or ILLEGAL REQUEST: never an error of the medium.
            prop_assert!(matches!(completion.sense[2], 2 | 5), "{:x?}", completion.sense);
        }
    }

    #[test]
    fn any_mode_parameter_list_gets_a_status(
        list in prop::collection::vec(any::<u8>(), 0..255),
        noise in prop::collection::vec((0_usize..150, any::<u8>()), 0..3),
        ten in any::<bool>(),
    ) {
        let initiator = Initiator::new(&RamVolume::new(64), options());
        let cdb = |length: usize| {
            if ten {
                vec![0x55, 0x10, 0, 0, 0, 0, 0, 0, length as u8, 0]
            } else {
                vec![0x15, 0x10, 0, 0, length as u8, 0]
            }
        };
        check(&answer(&initiator, TaskAttribute::Simple, &cdb(list.len()), &list))?;
        // Also lists that are almost valid.
        let mut list = if ten {
            initiator.data(&[0x5a, 0, 0x3f, 0xff, 0, 0, 0, 0, 255, 0])
        } else {
            initiator.data(&[0x1a, 0, 0x3f, 0xff, 255, 0])
        };
        for (at, byte) in noise {
            list[at] = byte;
        }
        check(&answer(&initiator, TaskAttribute::Simple, &cdb(list.len()), &list))?;
    }
}
