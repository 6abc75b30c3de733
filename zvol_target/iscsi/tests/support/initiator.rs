// SPDX-License-Identifier: Apache-2.0
//! An initiator that sends exactly the given PDUs.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use iscsi::pdu::{
    self, DataIn, DataOut, Digests, Header, LoginRequest, LoginResponse, NopIn, NopOut,
    RESERVED_TAG, ReadyToTransfer, ScsiCommand, ScsiResponse, TargetPdu, TaskManagementRequest,
    TaskManagementResponse, TextRequest,
};

/// A PDU of the target with its data segment.
#[derive(Clone, Debug)]
pub struct Pdu {
    pub pdu: TargetPdu,
    pub data: Vec<u8>,
}

pub struct Initiator {
    pub stream: TcpStream,
    pub digests: Digests,
    pub cmd_sn: u32,
    pub next_tag: u32,
    pub tsih: u16,
    pub isid: [u8; 6],
    received: Vec<u8>,
}

impl Initiator {
    pub fn connect(address: SocketAddr) -> Self {
        Self::on(TcpStream::connect(address).unwrap())
    }

    /// An initiator with a small receive buffer.
    pub fn connect_with_small_buffer(address: SocketAddr) -> Self {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(64 << 10).unwrap();
        socket.connect(&address.into()).unwrap();
        Self::on(socket.into())
    }

    pub fn on(stream: TcpStream) -> Self {
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        stream
            .set_write_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            digests: Digests::default(),
            cmd_sn: 1,
            next_tag: 0x100,
            tsih: 0,
            isid: [0x40, 0, 0, 1, 0, 0],
            received: Vec::new(),
        }
    }

    pub fn tag(&mut self) -> u32 {
        self.next_tag += 1;
        self.next_tag
    }

    pub fn send(&mut self, header: Header, data: &[u8]) {
        let bytes = pdu::encode(header, &[], data, self.digests);
        self.stream.write_all(&bytes).unwrap();
    }

    /// The next PDU; `None` if the target has closed the connection.
    pub fn try_receive(&mut self) -> Option<Pdu> {
        loop {
            if let Some(frame) = pdu::decode(&self.received, self.digests, 1 << 24).unwrap() {
                let pdu = TargetPdu::decode(&frame.header).expect("an opcode of a target");
                let (data, length) = (frame.data.to_vec(), frame.length);
                self.received.drain(..length);
                return Some(Pdu { pdu, data });
            }
            let mut bytes = [0; 16384];
            match self.stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(count) => self.received.extend_from_slice(&bytes[..count]),
                // A process that was stopped hears this from a socket with a timeout, signal(7).
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("nothing came: {error}"),
            }
        }
    }

    pub fn receive(&mut self) -> Pdu {
        self.try_receive()
            .expect("the target closed the connection")
    }

    pub fn expect_closed(&mut self) {
        assert!(self.try_receive().is_none(), "the connection is still open");
    }

    /// Sends one Login Request; returns its response.
    pub fn login_step(
        &mut self,
        request: LoginRequest,
        keys: &[(&str, &str)],
    ) -> (LoginResponse, Vec<(String, String)>) {
        let pairs: Vec<_> = keys
            .iter()
            .map(|(key, value)| format!("{key}={value}\0"))
            .collect();
        let text = pairs.concat();
        self.send(request.encode(), text.as_bytes());
        let Pdu {
            pdu: TargetPdu::LoginResponse(response),
            data,
        } = self.receive()
        else {
            panic!("no Login Response");
        };
        let pairs = String::from_utf8(data).unwrap();
        let pairs = pairs.split_terminator('\0').map(|pair| {
            let (key, value) = pair.split_once('=').unwrap();
            (key.to_owned(), value.to_owned())
        });
        (response, pairs.collect())
    }

    /// The request that moves from the operational stage to the full feature phase.
    pub fn operational(&self) -> LoginRequest {
        LoginRequest {
            transit: true,
            current_stage: 1,
            next_stage: 3,
            isid: self.isid,
            tsih: self.tsih,
            initiator_task_tag: 0x10,
            cid: 1,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: 0x1000,
            ..LoginRequest::default()
        }
    }

    /// A login with one request, without authentication.
    pub fn log_in(
        &mut self,
        initiator: &str,
        target: &str,
        keys: &[(&str, &str)],
    ) -> Vec<(String, String)> {
        let mut all = vec![
            ("InitiatorName", initiator),
            ("SessionType", "Normal"),
            ("TargetName", target),
        ];
        all.extend_from_slice(keys);
        let (response, answers) = self.login_step(self.operational(), &all);
        assert_eq!((response.status_class, response.status_detail), (0, 0));
        assert!(response.transit && response.next_stage == 3 && response.tsih != 0);
        self.tsih = response.tsih;
        let chosen = |key: &str| answers.iter().any(|(k, v)| k == key && v == "CRC32C");
        self.digests = Digests {
            header: chosen("HeaderDigest"),
            data: chosen("DataDigest"),
        };
        answers
    }

    pub fn command(&mut self, cdb: &[u8]) -> ScsiCommand {
        let mut padded = [0; 16];
        padded[..cdb.len()].copy_from_slice(cdb);
        let command = ScsiCommand {
            r#final: true,
            attribute: 1,
            initiator_task_tag: self.tag(),
            cmd_sn: self.cmd_sn,
            cdb: padded,
            ..ScsiCommand::default()
        };
        self.cmd_sn = self.cmd_sn.wrapping_add(1);
        command
    }

    /// READ(10) of 512-byte blocks.
    pub fn read_command(&mut self, block: u32, count: u16) -> ScsiCommand {
        ScsiCommand {
            read: true,
            expected_data_transfer_length: u32::from(count) * 512,
            ..self.command(&transfer_cdb(0x28, block, count))
        }
    }

    /// WRITE(10) of 512-byte blocks.
    pub fn write_command(&mut self, block: u32, count: u16) -> ScsiCommand {
        ScsiCommand {
            write: true,
            expected_data_transfer_length: u32::from(count) * 512,
            ..self.command(&transfer_cdb(0x2a, block, count))
        }
    }

    /// Receives Data-In up to its status. Checks the order fields and returns all data.
    pub fn receive_data_in(&mut self, tag: u32) -> (Vec<u8>, Vec<DataIn>) {
        let (mut data, mut pdus) = (Vec::new(), Vec::new());
        loop {
            let received = self.receive();
            let TargetPdu::DataIn(pdu) = received.pdu else {
                panic!("no Data-In: {:?}", received.pdu);
            };
            assert_eq!(pdu.initiator_task_tag, tag);
            assert_eq!(pdu.buffer_offset as usize, data.len());
            assert_eq!(pdu.data_sn as usize, pdus.len());
            data.extend_from_slice(&received.data);
            pdus.push(pdu);
            if pdu.status_present {
                assert!(pdu.r#final);
                return (data, pdus);
            }
        }
    }

    /// Receives Data-In of several commands up to the last status. Returns the data by tag, in the order of their ends.
    pub fn receive_all_data_in(&mut self, tags: &[u32]) -> Vec<(u32, Vec<u8>)> {
        let mut partial: HashMap<u32, (Vec<u8>, u32)> = HashMap::new();
        let mut ended = Vec::new();
        let mut stat_sn = None;
        while ended.len() < tags.len() {
            let received = self.receive();
            let TargetPdu::DataIn(pdu) = received.pdu else {
                panic!("no Data-In: {:?}", received.pdu);
            };
            let tag = pdu.initiator_task_tag;
            assert!(tags.contains(&tag), "{tag} was not requested");
            let (data, data_sn) = partial.entry(tag).or_default();
            assert_eq!(
                (pdu.buffer_offset as usize, pdu.data_sn),
                (data.len(), *data_sn)
            );
            *data_sn += 1;
            data.extend_from_slice(&received.data);
            if pdu.status_present {
                let in_order = stat_sn.is_none_or(|last: u32| pdu.stat_sn == last.wrapping_add(1));
                assert!(in_order, "StatSN {} after {stat_sn:?}", pdu.stat_sn);
                stat_sn = Some(pdu.stat_sn);
                let (data, _) = partial.remove(&tag).unwrap();
                ended.push((tag, data));
            }
        }
        ended
    }

    pub fn read(&mut self, block: u32, count: u16) -> Vec<u8> {
        let command = self.read_command(block, count);
        self.send(command.encode(), &[]);
        self.receive_data_in(command.initiator_task_tag).0
    }

    pub fn expect_response(&mut self, tag: u32) -> (ScsiResponse, Vec<u8>) {
        let received = self.receive();
        let TargetPdu::ScsiResponse(response) = received.pdu else {
            panic!("no SCSI Response: {:?}", received.pdu);
        };
        assert_eq!(response.initiator_task_tag, tag);
        (response, received.data)
    }

    pub fn expect_r2t(&mut self, tag: u32) -> ReadyToTransfer {
        let received = self.receive();
        let TargetPdu::ReadyToTransfer(r2t) = received.pdu else {
            panic!("no R2T: {:?}", received.pdu);
        };
        assert_eq!(r2t.initiator_task_tag, tag);
        r2t
    }

    pub fn expect_reject(&mut self) -> u8 {
        let received = self.receive();
        let TargetPdu::Reject(reject) = received.pdu else {
            panic!("no Reject: {:?}", received.pdu);
        };
        assert_eq!(received.data.len(), 48);
        reject.reason
    }

    /// Sends `data`, which starts at `base`, for an R2T, in PDUs of at most `segment` bytes.
    pub fn satisfy(&mut self, r2t: &ReadyToTransfer, data: &[u8], base: usize, segment: usize) {
        let start = r2t.buffer_offset as usize - base;
        let burst = &data[start..start + r2t.desired_data_transfer_length as usize];
        let mut offset = 0;
        for (data_sn, part) in burst.chunks(segment).enumerate() {
            let pdu = DataOut {
                r#final: offset + part.len() == burst.len(),
                initiator_task_tag: r2t.initiator_task_tag,
                target_transfer_tag: r2t.target_transfer_tag,
                data_sn: data_sn as u32,
                buffer_offset: r2t.buffer_offset + offset as u32,
                ..DataOut::default()
            };
            self.send(pdu.encode(), part);
            offset += part.len();
        }
    }

    pub fn manage(&mut self, function: u8, referenced: Option<&ScsiCommand>) -> u32 {
        let request = TaskManagementRequest {
            immediate: true,
            function,
            initiator_task_tag: self.tag(),
            referenced_task_tag: referenced
                .map_or(RESERVED_TAG, |command| command.initiator_task_tag),
            ref_cmd_sn: referenced.map_or(0, |command| command.cmd_sn),
            cmd_sn: self.cmd_sn,
            ..TaskManagementRequest::default()
        };
        self.send(request.encode(), &[]);
        request.initiator_task_tag
    }

    pub fn expect_managed(&mut self, tag: u32) -> TaskManagementResponse {
        let response = self.receive_managed();
        assert_eq!(response.initiator_task_tag, tag);
        response
    }

    pub fn receive_managed(&mut self) -> TaskManagementResponse {
        loop {
            match self.receive().pdu {
                TargetPdu::TaskManagementResponse(response) => break response,
                // A NOP-In can announce the open window before.
                TargetPdu::NopIn(pdu) if pdu.target_transfer_tag == RESERVED_TAG => {}
                other => panic!("no Task Management Function Response: {other:?}"),
            }
        }
    }

    pub fn expect_nop_in(&mut self) -> NopIn {
        let received = self.receive();
        let TargetPdu::NopIn(pdu) = received.pdu else {
            panic!("no NOP-In: {:?}", received.pdu);
        };
        assert!(received.data.is_empty());
        pdu
    }

    /// Answers a NOP-In that requests an answer.
    pub fn answer(&mut self, ping: &NopIn) {
        assert_ne!(ping.target_transfer_tag, RESERVED_TAG);
        let answer = NopOut {
            immediate: true,
            initiator_task_tag: RESERVED_TAG,
            target_transfer_tag: ping.target_transfer_tag,
            cmd_sn: self.cmd_sn,
            ..NopOut::default()
        };
        self.send(answer.encode(), &[]);
    }

    pub fn expect_dropped(&mut self) {
        let received = self.receive();
        let TargetPdu::AsynchronousMessage(message) = received.pdu else {
            panic!("no Asynchronous Message: {:?}", received.pdu);
        };
        assert_eq!(message.event, 3);
        self.expect_closed();
    }

    /// Sends a Text Request and receives the whole answer, in as many parts as needed.
    pub fn text(&mut self, text: &str) -> String {
        let request = TextRequest {
            r#final: true,
            initiator_task_tag: self.tag(),
            target_transfer_tag: RESERVED_TAG,
            cmd_sn: self.cmd_sn,
            ..TextRequest::default()
        };
        self.cmd_sn += 1;
        self.send(request.encode(), text.as_bytes());
        let mut text = Vec::new();
        loop {
            let answer = self.receive();
            let TargetPdu::TextResponse(response) = answer.pdu else {
                panic!("{answer:?}")
            };
            text.extend(answer.data);
            if response.r#final {
                return String::from_utf8(text).unwrap();
            }
            assert!(response.r#continue);
            let more = TextRequest {
                target_transfer_tag: response.target_transfer_tag,
                cmd_sn: self.cmd_sn,
                ..request
            };
            self.cmd_sn += 1;
            self.send(more.encode(), &[]);
        }
    }

    /// Sends a ping and waits for its answer: earlier requests have been processed then.
    pub fn ping(&mut self) {
        let request = NopOut {
            immediate: true,
            initiator_task_tag: self.tag(),
            target_transfer_tag: RESERVED_TAG,
            cmd_sn: self.cmd_sn,
            ..NopOut::default()
        };
        self.send(request.encode(), b"ping");
        let received = self.receive();
        let TargetPdu::NopIn(answer) = received.pdu else {
            panic!("no NOP-In: {:?}", received.pdu);
        };
        assert_eq!(answer.initiator_task_tag, request.initiator_task_tag);
        assert_eq!(received.data, b"ping");
    }
}

pub fn transfer_cdb(opcode: u8, block: u32, count: u16) -> [u8; 10] {
    let mut cdb = [opcode, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    cdb[2..6].copy_from_slice(&block.to_be_bytes());
    cdb[7..9].copy_from_slice(&count.to_be_bytes());
    cdb
}
