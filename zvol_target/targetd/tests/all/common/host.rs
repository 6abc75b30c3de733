// SPDX-License-Identifier: Apache-2.0
//! A host that stays logged in, and records every status.

use iscsi::pdu::{ScsiCommand, TargetPdu};

use super::initiator::Initiator;
use super::{IQN, wait_until};

pub const HOST: &str = "iqn.2026-11.example:host";

/// TEST UNIT READY
const TEST_UNIT_READY: [u8; 6] = [0; 6];

/// Sense key, additional sense code and qualifier.
pub type Sense = (u8, u8, u8);

pub const NOT_READY: Sense = (0x02, 0x04, 0x01);
pub const BECAME_READY: Sense = (0x06, 0x28, 0x00);
pub const CAPACITY_CHANGED: Sense = (0x06, 0x2a, 0x09);
pub const INQUIRY_CHANGED: Sense = (0x06, 0x3f, 0x03);
pub const LUNS_CHANGED: Sense = (0x06, 0x3f, 0x0e);
pub const NO_SUCH_LUN: Sense = (0x05, 0x25, 0x00);
pub const WRITE_PROTECTED: Sense = (0x07, 0x27, 0x00);

/// RESERVATION CONFLICT status, which has no sense data.
pub const RESERVATION_CONFLICT: Sense = (0xff, 0x18, 0x00);

pub struct Host(pub Initiator);

impl Host {
    /// Logs in as `name` without CHAP, in the order of the tests.
    pub fn log_in(portal: &str, name: &str) -> Self {
        let initiator = Initiator::connect(portal.parse().unwrap());
        // The ISID separates the sessions of one host.
        let port = initiator.stream.local_addr().unwrap().port();
        Self::by_port(initiator, name, port)
    }

    /// Logs in with the initiator port of an earlier session.
    pub fn log_in_as(portal: &str, name: &str, port: u16) -> Self {
        Self::by_port(Initiator::connect(portal.parse().unwrap()), name, port)
    }

    fn by_port(mut initiator: Initiator, name: &str, port: u16) -> Self {
        initiator.isid[4..].copy_from_slice(&port.to_be_bytes());
        initiator.log_in(name, IQN, &[]);
        Self(initiator)
    }

    /// Runs a command with at most 64 KiB of Data-In, or with the given immediate Data-Out.
    pub fn execute(&mut self, lun: u8, cdb: &[u8], data_out: &[u8]) -> Result<Vec<u8>, Sense> {
        let mut logical_unit = [0; 8];
        logical_unit[1] = lun;
        let write = !data_out.is_empty();
        let command = ScsiCommand {
            lun: logical_unit,
            read: !write,
            write,
            expected_data_transfer_length: if write { data_out.len() as u32 } else { 65_536 },
            ..self.0.command(cdb)
        };
        self.0.send(command.encode(), data_out);
        let mut data = Vec::new();
        loop {
            let received = self.0.receive();
            match received.pdu {
                TargetPdu::DataIn(pdu) => {
                    data.extend_from_slice(&received.data);
                    if pdu.status_present {
                        return Ok(data);
                    }
                }
                TargetPdu::ScsiResponse(response) if response.status == 0 => return Ok(data),
                TargetPdu::ScsiResponse(response) if response.status == 0x18 => {
                    return Err(RESERVATION_CONFLICT);
                }
                TargetPdu::ScsiResponse(response) => {
                    assert_eq!(response.status, 2, "CHECK CONDITION");
                    // Behind the length of the sense data; fixed format.
                    let sense = &received.data[2..];
                    return Err((sense[2] & 0x0f, sense[12], sense[13]));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    pub fn test_unit_ready(&mut self, lun: u8) -> Result<(), Sense> {
        self.execute(lun, &TEST_UNIT_READY, &[]).map(drop)
    }

    /// Returns the pending unit attentions.
    pub fn attentions(&mut self, lun: u8) -> Vec<Sense> {
        let mut attentions = Vec::new();
        loop {
            match self.test_unit_ready(lun) {
                Err(sense) if sense.0 == 6 => attentions.push(sense),
                _ => return attentions,
            }
        }
    }

    /// Tests the unit until it returns `answer`. Returns the earlier answers.
    pub fn wait_for(&mut self, lun: u8, answer: Result<(), Sense>) -> Vec<Sense> {
        let mut before = Vec::new();
        wait_until(&format!("LUN {lun} to answer {answer:?}"), || {
            let status = self.test_unit_ready(lun);
            before.extend(status.err().filter(|sense| !before.contains(sense)));
            status == answer
        });
        before
    }

    pub fn inquiry(&mut self, lun: u8, page: Option<u8>) -> Vec<u8> {
        let cdb = [0x12, u8::from(page.is_some()), page.unwrap_or(0), 1, 0, 0];
        self.execute(lun, &cdb, &[]).unwrap()
    }

    /// Numbers from REPORT LUNS.
    pub fn luns(&mut self) -> Vec<u8> {
        let mut cdb = [0; 12];
        cdb[0] = 0xa0;
        cdb[8] = 1;
        let data = self.execute(0, &cdb, &[]).unwrap();
        data[8..].chunks_exact(8).map(|lun| lun[1]).collect()
    }

    pub fn capacity_bytes(&mut self, lun: u8) -> u64 {
        let data = self.execute(lun, &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[]);
        let data = data.unwrap();
        let number =
            |at: usize| u64::from(u32::from_be_bytes(data[at..at + 4].try_into().unwrap()));
        (number(0) + 1) * number(4)
    }

    /// WRITE(10) of one block.
    pub fn write(&mut self, lun: u8, block: u8, byte: u8) -> Result<(), Sense> {
        let cdb = [0x2a, 0, 0, 0, 0, block, 0, 0, 1, 0];
        self.execute(lun, &cdb, &[byte; 512]).map(drop)
    }

    /// READ(10) of one block.
    pub fn read(&mut self, lun: u8, block: u8) -> Result<Vec<u8>, Sense> {
        self.execute(lun, &[0x28, 0, 0, 0, 0, block, 0, 0, 1, 0], &[])
    }
}
