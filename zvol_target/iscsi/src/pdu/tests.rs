// SPDX-License-Identifier: Apache-2.0
use proptest::prelude::*;

use super::*;

fn digests() -> impl Strategy<Value = Digests> {
    (any::<bool>(), any::<bool>()).prop_map(|(header, data)| Digests { header, data })
}

fn reencode(header: &Header) -> Option<Header> {
    InitiatorPdu::decode(header)
        .map(|pdu| match pdu {
            InitiatorPdu::NopOut(pdu) => pdu.encode(),
            InitiatorPdu::ScsiCommand(pdu) => pdu.encode(),
            InitiatorPdu::TaskManagementRequest(pdu) => pdu.encode(),
            InitiatorPdu::LoginRequest(pdu) => pdu.encode(),
            InitiatorPdu::TextRequest(pdu) => pdu.encode(),
            InitiatorPdu::DataOut(pdu) => pdu.encode(),
            InitiatorPdu::LogoutRequest(pdu) => pdu.encode(),
            InitiatorPdu::SnackRequest(pdu) => pdu.encode(),
        })
        .or_else(|| {
            TargetPdu::decode(header).map(|pdu| match pdu {
                TargetPdu::NopIn(pdu) => pdu.encode(),
                TargetPdu::ScsiResponse(pdu) => pdu.encode(),
                TargetPdu::TaskManagementResponse(pdu) => pdu.encode(),
                TargetPdu::LoginResponse(pdu) => pdu.encode(),
                TargetPdu::TextResponse(pdu) => pdu.encode(),
                TargetPdu::DataIn(pdu) => pdu.encode(),
                TargetPdu::LogoutResponse(pdu) => pdu.encode(),
                TargetPdu::ReadyToTransfer(pdu) => pdu.encode(),
                TargetPdu::AsynchronousMessage(pdu) => pdu.encode(),
                TargetPdu::Reject(pdu) => pdu.encode(),
            })
        })
}

#[test]
fn crc32c_vectors_of_rfc_7143_appendix_a() {
    // Appendix A.4: 32 bytes of zeroes, of ones, incrementing.
    assert_eq!(
        crc32c::crc32c(&[0; 32]).to_le_bytes(),
        [0xaa, 0x36, 0x91, 0x8a]
    );
    assert_eq!(
        crc32c::crc32c(&[0xff; 32]).to_le_bytes(),
        [0x43, 0xab, 0xa8, 0x62]
    );
    let incrementing: Vec<u8> = (0..32).collect();
    assert_eq!(
        crc32c::crc32c(&incrementing).to_le_bytes(),
        [0x4e, 0x79, 0xdd, 0x46]
    );
}

#[test]
fn a_command_has_the_layout_of_the_standard() {
    let header = ScsiCommand {
        immediate: true,
        r#final: true,
        write: true,
        attribute: 1,
        lun: [0, 5, 0, 0, 0, 0, 0, 0],
        initiator_task_tag: 0x0102_0304,
        expected_data_transfer_length: 4096,
        cmd_sn: 7,
        exp_stat_sn: 9,
        cdb: [0x2a; 16],
        ..ScsiCommand::default()
    }
    .encode();
    assert_eq!(header[..4], [0x41, 0xa1, 0, 0]);
    assert_eq!(header[8..16], [0, 5, 0, 0, 0, 0, 0, 0]);
    assert_eq!(
        header[16..32],
        [1, 2, 3, 4, 0, 0, 16, 0, 0, 0, 0, 7, 0, 0, 0, 9]
    );
    assert_eq!(header[32..], [0x2a; 16]);
}

#[test]
fn login_stages_share_a_byte() {
    let header = LoginResponse {
        transit: true,
        current_stage: 1,
        next_stage: 3,
        ..LoginResponse::default()
    }
    .encode();
    assert_eq!(header[..2], [0x23, 0x87]);
}

#[test]
fn a_long_data_segment_is_refused_before_it_arrives() {
    let mut header = NopOut::default().encode();
    set_data_segment_length(&mut header, 8193);
    assert_eq!(
        decode(&header, Digests::default(), 8192),
        Err(FrameError::DataSegmentTooLong {
            length: 8193,
            limit: 8192
        })
    );
}

proptest! {
    #[test]
    fn decoding_forgets_nothing_it_names(mut header: [u8; 48], opcode in 0u8..0x40) {
        header[0] = (header[0] & 0x40) | opcode;
        if let Some(once) = reencode(&header) {
            // The first pass clears reserved bits; nothing changes after that.
            prop_assert_eq!(reencode(&once), Some(once));
            prop_assert_eq!(InitiatorPdu::decode(&once), InitiatorPdu::decode(&header));
            prop_assert_eq!(TargetPdu::decode(&once), TargetPdu::decode(&header));
        }
    }

    #[test]
    fn frames_come_back(header: [u8; 48], words in 0usize..8, data: Vec<u8>, digests in digests(), tail: Vec<u8>) {
        let additional = vec![0x5a; words * 4];
        let mut bytes = encode(header, &additional, &data, digests);
        let length = bytes.len();
        for cut in [0, 47, length / 2, length - 1] {
            prop_assert_eq!(decode(&bytes[..cut], digests, 1 << 20), Ok(None));
        }
        bytes.extend_from_slice(&tail);
        let frame = decode(&bytes, digests, 1 << 20).unwrap().unwrap();
        prop_assert_eq!(frame.length, length);
        prop_assert_eq!(frame.data, &data[..]);
        prop_assert_eq!(frame.additional_headers, &additional[..]);
    }

    #[test]
    fn a_flipped_bit_is_noticed(data in prop::collection::vec(any::<u8>(), 1..600), at: prop::sample::Index, bit in 0u8..8) {
        let digests = Digests { header: true, data: true };
        let mut bytes = encode(NopOut::default().encode(), &[], &data, digests);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        // A wrong length field can request more bytes than exist; it never results in a PDU.
        prop_assert!(!matches!(decode(&bytes, digests, 1 << 24), Ok(Some(_))));
    }

    #[test]
    fn arbitrary_bytes_are_frames_or_errors(bytes: Vec<u8>, digests in digests()) {
        if let Ok(Some(frame)) = decode(&bytes, digests, 4096) {
            prop_assert!(frame.length <= bytes.len());
        }
    }
}
