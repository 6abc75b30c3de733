// SPDX-License-Identifier: Apache-2.0
//! Table of all supported commands. Dispatch, checks of reserved bits and REPORT SUPPORTED OPERATION CODES use it.

use crate::additional_sense::AdditionalSense;
use crate::cdb::Cdb;
use crate::offload::{Offload, Offloads};
use crate::reservations::ReservationRule;
use crate::reservations::persistent_reserve_out::ServiceAction;
use crate::sense::Sense;
use crate::statistics::Family;

/// The function of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    TestUnitReady,
    RequestSense,
    Read,
    Write,
    Inquiry,
    ModeSelect,
    ModeSense,
    StartStopUnit,
    ReadCapacity10,
    ReadCapacity16,
    WriteAndVerify,
    CompareAndWrite,
    OrWrite,
    WriteAtomic,
    WriteSame,
    Unmap,
    GetLbaStatus,
    Verify,
    SynchronizeCache,
    PreFetch,
    ReadDefectData,
    LogSense,
    SendDiagnostic,
    ReportLuns,
    ReportSupportedOperationCodes,
    ReportSupportedTaskManagementFunctions,
    ReportTargetPortGroups,
    PersistentReserveInReadKeys,
    PersistentReserveInReadReservation,
    PersistentReserveInReportCapabilities,
    PersistentReserveInReadFullStatus,
    PersistentReserveOut(ServiceAction),
    Reserve,
    Release,
    ExtendedCopy,
    CopyOperationAbort,
    ReceiveCopyStatusLid1,
    ReceiveCopyData,
    ReceiveCopyOperatingParameters,
    ReceiveCopyFailureDetails,
    ReceiveCopyStatusLid4,
    PopulateToken,
    WriteUsingToken,
    ReceiveRodTokenInformation,
}

#[derive(Debug)]
pub(crate) struct CommandDescription {
    pub(crate) operation: Operation,
    pub(crate) family: Family,
    /// The offload that enables it; `None` if it is always enabled.
    pub(crate) offload: Option<Offload>,
    /// A second offload: the command is enabled if one of the two is.
    pub(crate) also: Option<Offload>,
    pub(crate) has_service_action: bool,
    /// CDB usage data (SPC-5): the operation code, then a one for every checked bit. In byte 1 of a command with a service
    /// action, bits 4 to 0 are the action. It is as long as the CDB.
    pub(crate) usage: &'static [u8],
}

impl CommandDescription {
    pub(crate) fn operation_code(&self) -> u8 {
        self.usage[0]
    }

    pub(crate) fn service_action(&self) -> Option<u8> {
        self.has_service_action
            .then(|| self.usage[1] & SERVICE_ACTION)
    }

    /// The command, enabled by an offload.
    const fn switched_with(mut self, offload: Offload) -> Self {
        self.offload = Some(offload);
        self
    }

    /// The command, enabled by a second offload too.
    const fn and_with(mut self, offload: Offload) -> Self {
        self.also = Some(offload);
        self
    }

    /// Whether it is enabled for a host with these offloads.
    pub(crate) fn is_on(&self, offloads: Offloads) -> bool {
        let contains = |offload| offloads.contains(offload);
        self.offload.is_none_or(contains) || self.also.is_some_and(contains)
    }

    /// Whether it runs without reporting a pending unit attention (SAM-5 5.14).
    pub(crate) fn runs_despite_unit_attention(&self) -> bool {
        matches!(
            self.operation,
            Operation::Inquiry | Operation::ReportLuns | Operation::RequestSense
        )
    }

    /// Whether the command does not need the volume: identity, inventory, and functions of the device server (SPC-5).
    pub(crate) fn runs_while_not_ready(&self) -> bool {
        matches!(
            self.operation,
            Operation::Inquiry
                | Operation::LogSense
                | Operation::ReportLuns
                | Operation::RequestSense
                | Operation::ReportSupportedOperationCodes
                | Operation::ReportSupportedTaskManagementFunctions
                | Operation::ReportTargetPortGroups
        )
    }

    /// Conflicts of the command with reservations (SPC-5 table "Commands that are allowed in the presence of various
    /// reservations", and that of SBC-4; SPC-2 for RESERVE).
    pub(crate) fn reservation_rule(&self, cdb: Cdb) -> ReservationRule {
        const START: u8 = 0x01;
        match self.operation {
            Operation::RequestSense
            | Operation::Inquiry
            | Operation::LogSense
            | Operation::ReadCapacity10
            | Operation::ReadCapacity16
            | Operation::ReportLuns
            | Operation::ReportTargetPortGroups => ReservationRule::Allowed,
            Operation::TestUnitReady => ReservationRule::AllowedWhenPersistent,
            Operation::StartStopUnit if cdb.bit(4, START) => ReservationRule::AllowedWhenPersistent,
            Operation::Read
            | Operation::Verify
            | Operation::GetLbaStatus
            | Operation::PreFetch
            | Operation::PopulateToken
            | Operation::ReadDefectData
            | Operation::ModeSense
            | Operation::ReportSupportedOperationCodes
            | Operation::ReportSupportedTaskManagementFunctions => ReservationRule::Read,
            Operation::Write
            | Operation::WriteAndVerify
            | Operation::CompareAndWrite
            | Operation::OrWrite
            | Operation::WriteAtomic
            | Operation::WriteSame
            | Operation::Unmap
            | Operation::SynchronizeCache
            | Operation::ModeSelect
            | Operation::SendDiagnostic
            | Operation::StartStopUnit
            | Operation::ExtendedCopy
            | Operation::CopyOperationAbort
            | Operation::ReceiveCopyStatusLid1
            | Operation::ReceiveCopyData
            | Operation::ReceiveCopyOperatingParameters
            | Operation::ReceiveCopyFailureDetails
            | Operation::ReceiveCopyStatusLid4
            | Operation::WriteUsingToken
            | Operation::ReceiveRodTokenInformation => ReservationRule::Write,
            Operation::PersistentReserveInReadKeys
            | Operation::PersistentReserveInReadReservation
            | Operation::PersistentReserveInReportCapabilities
            | Operation::PersistentReserveInReadFullStatus
            | Operation::PersistentReserveOut(_) => ReservationRule::PersistentReserve,
            Operation::Reserve | Operation::Release => ReservationRule::Reserve,
        }
    }

    /// Refuses a CDB that is too short or sets an undefined bit.
    fn check(&self, cdb: Cdb) -> Result<(), Sense> {
        if cdb.0.len() < self.usage.len() {
            return Err(Sense::illegal_request(
                AdditionalSense::INVALID_FIELD_IN_CDB,
            ));
        }
        for (at, (&byte, &usage)) in cdb.0.iter().zip(self.usage).enumerate().skip(1) {
            let allowed = if at == 1 && self.has_service_action {
                usage | SERVICE_ACTION
            } else {
                usage
            };
            let surplus = byte & !allowed;
            if surplus != 0 {
                // At most 16 bytes and 8 bits.
                return Err(Sense::invalid_field_in_cdb(
                    at as u16,
                    Some(surplus.ilog2() as u8),
                ));
            }
        }
        Ok(())
    }
}

const SERVICE_ACTION: u8 = 0x1f;

const fn command(operation: Operation, family: Family, usage: &'static [u8]) -> CommandDescription {
    CommandDescription {
        operation,
        family,
        offload: None,
        also: None,
        has_service_action: false,
        usage,
    }
}

const fn service_action(
    operation: Operation,
    family: Family,
    usage: &'static [u8],
) -> CommandDescription {
    CommandDescription {
        operation,
        family,
        offload: None,
        also: None,
        has_service_action: true,
        usage,
    }
}

/// Sorted by operation code, then service action.
///
/// Obsolete fields are not supported: PMI and the address of READ CAPACITY, `FUA_NV`, `SYNC_NV`, RELADR. Nor are fields of
/// missing functions: protection information, duration limits, saved pages, NACA. GROUP NUMBER and DPO are hints: accepted, and
/// without effect.
#[rustfmt::skip]
pub(crate) static COMMANDS: &[CommandDescription] = &[
    command(Operation::TestUnitReady, Family::Other, &[0x00, 0, 0, 0, 0, 0]),
    command(Operation::RequestSense, Family::Other, &[0x03, 0x01, 0, 0, 0xff, 0]),
    command(Operation::Read, Family::Read, &[0x08, 0x1f, 0xff, 0xff, 0xff, 0]),
    command(Operation::Write, Family::Write, &[0x0a, 0x1f, 0xff, 0xff, 0xff, 0]),
    command(Operation::Inquiry, Family::Other, &[0x12, 0x01, 0xff, 0xff, 0xff, 0]),
    command(Operation::ModeSelect, Family::Other, &[0x15, 0x10, 0, 0, 0xff, 0]),
    command(Operation::Reserve, Family::Reservation, &[0x16, 0, 0, 0, 0, 0]),
    command(Operation::Release, Family::Reservation, &[0x17, 0, 0, 0, 0, 0]),
    command(Operation::ModeSense, Family::Other, &[0x1a, 0x08, 0xff, 0xff, 0xff, 0]),
    command(Operation::StartStopUnit, Family::Other, &[0x1b, 0x01, 0, 0, 0x05, 0]),
    command(Operation::SendDiagnostic, Family::Other, &[0x1d, 0x17, 0, 0, 0, 0]),
    command(Operation::ReadCapacity10, Family::Other, &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    command(Operation::Read, Family::Read, &[0x28, 0x18, 0xff, 0xff, 0xff, 0xff, 0x1f, 0xff, 0xff, 0]),
    command(Operation::Write, Family::Write, &[0x2a, 0x18, 0xff, 0xff, 0xff, 0xff, 0x1f, 0xff, 0xff, 0]),
    command(Operation::WriteAndVerify, Family::Write, &[0x2e, 0x16, 0xff, 0xff, 0xff, 0xff, 0x1f, 0xff, 0xff, 0]),
    command(Operation::Verify, Family::Verify, &[0x2f, 0x16, 0xff, 0xff, 0xff, 0xff, 0x1f, 0xff, 0xff, 0]),
    command(Operation::PreFetch, Family::Other, &[0x34, 0x02, 0xff, 0xff, 0xff, 0xff, 0x1f, 0xff, 0xff, 0]),
    command(Operation::SynchronizeCache, Family::SynchronizeCache, &[0x35, 0x02, 0xff, 0xff, 0xff, 0xff, 0x1f, 0xff, 0xff, 0]),
    command(Operation::ReadDefectData, Family::Other, &[0x37, 0, 0x1f, 0, 0, 0, 0, 0xff, 0xff, 0]),
    command(Operation::WriteSame, Family::WriteSame, &[0x41, 0x08, 0xff, 0xff, 0xff, 0xff, 0x1f, 0xff, 0xff, 0])
        .switched_with(Offload::WriteSame),
    command(Operation::Unmap, Family::Unmap, &[0x42, 0, 0, 0, 0, 0, 0x1f, 0xff, 0xff, 0]).switched_with(Offload::Unmap),
    command(Operation::LogSense, Family::Other, &[0x4d, 0, 0xff, 0xff, 0, 0xff, 0xff, 0xff, 0xff, 0]),
    command(Operation::ModeSelect, Family::Other, &[0x55, 0x10, 0, 0, 0, 0, 0, 0xff, 0xff, 0]),
    command(Operation::Reserve, Family::Reservation, &[0x56, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    command(Operation::Release, Family::Reservation, &[0x57, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    command(Operation::ModeSense, Family::Other, &[0x5a, 0x18, 0xff, 0xff, 0, 0, 0, 0xff, 0xff, 0]),
    service_action(Operation::PersistentReserveInReadKeys, Family::Reservation, &[0x5e, 0x00, 0, 0, 0, 0, 0, 0xff, 0xff, 0]),
    service_action(Operation::PersistentReserveInReadReservation, Family::Reservation, &[0x5e, 0x01, 0, 0, 0, 0, 0, 0xff, 0xff, 0]),
    service_action(Operation::PersistentReserveInReportCapabilities, Family::Reservation, &[0x5e, 0x02, 0, 0, 0, 0, 0, 0xff, 0xff, 0]),
    service_action(Operation::PersistentReserveInReadFullStatus, Family::Reservation, &[0x5e, 0x03, 0, 0, 0, 0, 0, 0xff, 0xff, 0]),
    service_action(Operation::PersistentReserveOut(ServiceAction::Register), Family::Reservation,
        &[0x5f, 0x00, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0]),
    service_action(Operation::PersistentReserveOut(ServiceAction::Reserve), Family::Reservation,
        &[0x5f, 0x01, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0]),
    service_action(Operation::PersistentReserveOut(ServiceAction::Release), Family::Reservation,
        &[0x5f, 0x02, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0]),
    service_action(Operation::PersistentReserveOut(ServiceAction::Clear), Family::Reservation,
        &[0x5f, 0x03, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0]),
    service_action(Operation::PersistentReserveOut(ServiceAction::Preempt), Family::Reservation,
        &[0x5f, 0x04, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0]),
    service_action(Operation::PersistentReserveOut(ServiceAction::PreemptAndAbort), Family::Reservation,
        &[0x5f, 0x05, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0]),
    service_action(Operation::PersistentReserveOut(ServiceAction::RegisterAndIgnoreExistingKey), Family::Reservation,
        &[0x5f, 0x06, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0]),
    service_action(Operation::ExtendedCopy, Family::ExtendedCopy,
        &[0x83, 0x00, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0]).switched_with(Offload::ExtendedCopy),
    service_action(Operation::PopulateToken, Family::Token,
        &[0x83, 0x10, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]).switched_with(Offload::Token),
    service_action(Operation::WriteUsingToken, Family::Token,
        &[0x83, 0x11, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]).switched_with(Offload::Token),
    service_action(Operation::CopyOperationAbort, Family::ExtendedCopy,
        &[0x83, 0x1c, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
        .switched_with(Offload::ExtendedCopy).and_with(Offload::Token),
    service_action(Operation::ReceiveCopyStatusLid1, Family::ExtendedCopy,
        &[0x84, 0x00, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0]).switched_with(Offload::ExtendedCopy),
    service_action(Operation::ReceiveCopyData, Family::ExtendedCopy,
        &[0x84, 0x01, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0]).switched_with(Offload::ExtendedCopy),
    service_action(Operation::ReceiveCopyOperatingParameters, Family::ExtendedCopy,
        &[0x84, 0x03, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0]).switched_with(Offload::ExtendedCopy),
    service_action(Operation::ReceiveCopyFailureDetails, Family::ExtendedCopy,
        &[0x84, 0x04, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0]).switched_with(Offload::ExtendedCopy),
    service_action(Operation::ReceiveCopyStatusLid4, Family::ExtendedCopy,
        &[0x84, 0x05, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0])
        .switched_with(Offload::ExtendedCopy).and_with(Offload::Token),
    service_action(Operation::ReceiveRodTokenInformation, Family::Token,
        &[0x84, 0x07, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0]).switched_with(Offload::Token),
    command(Operation::Read, Family::Read,
        &[0x88, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]),
    command(Operation::CompareAndWrite, Family::CompareAndWrite,
        &[0x89, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0xff, 0x1f, 0]),
    command(Operation::Write, Family::Write,
        &[0x8a, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]),
    command(Operation::OrWrite, Family::Write,
        &[0x8b, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]),
    command(Operation::WriteAndVerify, Family::Write,
        &[0x8e, 0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]),
    command(Operation::Verify, Family::Verify,
        &[0x8f, 0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]),
    command(Operation::PreFetch, Family::Other,
        &[0x90, 0x02, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]),
    command(Operation::SynchronizeCache, Family::SynchronizeCache,
        &[0x91, 0x02, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]),
    command(Operation::WriteSame, Family::WriteSame,
        &[0x93, 0x09, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0])
        .switched_with(Offload::WriteSame),
    command(Operation::WriteAtomic, Family::Write,
        &[0x9c, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0xff, 0xff, 0x1f, 0]),
    service_action(Operation::ReadCapacity16, Family::Other,
        &[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0]),
    service_action(Operation::GetLbaStatus, Family::Other,
        &[0x9e, 0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0]),
    command(Operation::ReportLuns, Family::Other, &[0xa0, 0, 0xff, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0]),
    service_action(Operation::ReportTargetPortGroups, Family::Other,
        &[0xa3, 0x2a, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0]),
    service_action(Operation::ReportSupportedOperationCodes, Family::Other,
        &[0xa3, 0x0c, 0x87, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0]),
    service_action(Operation::ReportSupportedTaskManagementFunctions, Family::Other,
        &[0xa3, 0x0d, 0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0]),
    command(Operation::Read, Family::Read, &[0xa8, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]),
    command(Operation::Write, Family::Write, &[0xaa, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]),
    command(Operation::WriteAndVerify, Family::Write,
        &[0xae, 0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]),
    command(Operation::Verify, Family::Verify, &[0xaf, 0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]),
    command(Operation::ReadDefectData, Family::Other, &[0xb7, 0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0]),
];

/// Commands with the operation code, enabled or not: one, or one for each service action; empty if the code is not supported.
pub(crate) fn with_operation_code(code: u8) -> &'static [CommandDescription] {
    let first = COMMANDS.partition_point(|command| command.operation_code() < code);
    let rest = COMMANDS.get(first..).unwrap_or_default();
    let count = rest
        .iter()
        .take_while(|command| command.operation_code() == code)
        .count();
    rest.get(..count).unwrap_or_default()
}

/// The command of a CDB among those that are `offered`, with its reserved bits checked.
///
/// # Errors
/// Sense data for the host: INVALID COMMAND OPERATION CODE, or INVALID FIELD IN CDB.
pub(crate) fn find(
    cdb: Cdb,
    offered: impl Fn(&CommandDescription) -> bool,
) -> Result<&'static CommandDescription, Sense> {
    let mut candidates = with_operation_code(cdb.operation_code())
        .iter()
        .filter(|&command| offered(command))
        .peekable();
    if candidates.peek().is_none() {
        return Err(Sense::illegal_request(
            AdditionalSense::INVALID_COMMAND_OPERATION_CODE,
        ));
    }
    let action = cdb.byte(1) & SERVICE_ACTION;
    let command = candidates
        .find(|command| {
            command
                .service_action()
                .is_none_or(|supported| supported == action)
        })
        .ok_or(Sense::invalid_field_in_cdb(1, Some(4)))?;
    command.check(cdb)?;
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_sorted_and_each_command_occurs_once() {
        let keys: Vec<_> = COMMANDS
            .iter()
            .map(|command| (command.operation_code(), command.service_action()))
            .collect();
        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{keys:x?}");
    }

    #[test]
    fn usage_has_the_length_of_the_operation_code_group() {
        for command in COMMANDS {
            let length = match command.operation_code() >> 5 {
                0 => 6,
                1 | 2 => 10,
                4 => 16,
                5 => 12,
                group => panic!("no command of group {group} here"),
            };
            assert_eq!(command.usage.len(), length, "{command:?}");
        }
    }

    #[test]
    fn every_command_is_found_with_all_its_bits_and_refused_with_any_other() {
        for command in COMMANDS {
            assert_eq!(
                find(Cdb(command.usage), |_| true).unwrap().usage,
                command.usage
            );
            for at in 1..command.usage.len() {
                for bit in 0..8 {
                    let mut cdb = command.usage.to_vec();
                    let is_action = at == 1 && command.has_service_action && bit < 5;
                    if cdb[at] & (1 << bit) != 0 || is_action {
                        continue;
                    }
                    cdb[at] |= 1 << bit;
                    assert_eq!(
                        find(Cdb(&cdb), |_| true).unwrap_err(),
                        Sense::invalid_field_in_cdb(at as u16, Some(bit))
                    );
                }
            }
        }
    }

    #[test]
    fn unknown_codes_and_service_actions_get_different_errors() {
        assert_eq!(
            find(Cdb(&[0xff; 16]), |_| true).unwrap_err().additional,
            AdditionalSense::INVALID_COMMAND_OPERATION_CODE
        );
        assert_eq!(
            find(Cdb(&[0; 0]), |_| true).unwrap_err().additional,
            AdditionalSense::INVALID_FIELD_IN_CDB
        );
        let mut cdb = [0; 16];
        cdb[..2].copy_from_slice(&[0x9e, 0x1f]);
        assert_eq!(
            find(Cdb(&cdb), |_| true).unwrap_err(),
            Sense::invalid_field_in_cdb(1, Some(4))
        );
        assert_eq!(
            find(Cdb(&[0x28, 0, 0, 0, 0, 0]), |_| true)
                .unwrap_err()
                .additional,
            AdditionalSense::INVALID_FIELD_IN_CDB
        );
    }
}
