// SPDX-License-Identifier: Apache-2.0
//! A whole connection: a valid login, then anything an initiator can send, in pieces of any size, to a device in memory.
//!
//! Input: keys to negotiate, the plan of the volumes (its length, then the bytes), then steps. The low bits of a step's first
//! byte select its kind. Sequence numbers, lengths and digests are right unless a step changes them.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::time::Duration;

use iscsi::fuzzing::Site;
use iscsi::pdu::{
    self, DataOut, Digests, Header, LoginRequest, LogoutRequest, NopOut, RESERVED_TAG, ScsiCommand,
    SnackRequest, TaskManagementRequest, TextRequest,
};
use iscsi::{Authentication, ServerOptions, TargetAccess, TargetDefinition, TargetPort};
use scsi::{Device, LogicalUnit, LogicalUnitAccess, LogicalUnitOptions, ProductIdentification};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{Builder, LocalOptions};
use tokio::task::{JoinHandle, spawn_local, yield_now};

use super::login::{HOST, PORTAL_GROUP, TARGET};
use super::observer::Observer;
use super::pdu_stream::whole_words;
use crate::input::Input;
use crate::memory;
use crate::memory_volume::MemoryVolume;

/// Most steps of one input.
const MOST_STEPS: usize = 96;
/// Memory limit of one connection: 16 MiB of commands, the same for a larger one, 32 MiB of unread data, 16 MiB of reusable
/// buffers, and this initiator.
const CONNECTION_MEMORY: usize = 128 << 20;
/// Most turns for the target to process the sent data, before this initiator continues.
const MOST_TURNS: usize = 64;
/// Longer than any timer of a connection.
const LONG: Duration = Duration::from_secs(40);

/// Checks the properties of [`Observer`], and that the connection ends and frees everything.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    // The clock stops while there is work, and jumps to the next timer when there is none.
    let runtime = Builder::new_current_thread()
        .enable_all()
        .event_interval(1)
        .start_paused(true)
        .build_local(LocalOptions::default())
        .expect("a runtime");
    memory::bounded(CONNECTION_MEMORY, || runtime.block_on(converse(&mut input)));
}

/// Negotiated keys.
#[derive(Clone, Copy)]
struct Choice(u8);

impl Choice {
    fn digests(self) -> Digests {
        Digests {
            header: self.0 & 1 != 0,
            data: self.0 & 2 != 0,
        }
    }

    fn is_discovery(self) -> bool {
        self.0 & 0xf0 == 0xf0
    }

    fn data_segment_limit(self) -> u32 {
        if self.0 & 0x10 != 0 { 512 } else { 65536 }
    }

    fn burst_limit(self) -> u32 {
        if self.0 & 0x20 != 0 { 1024 } else { 262_144 }
    }

    fn text(self) -> String {
        let yes_no = |yes: bool| if yes { "Yes" } else { "No" };
        let digest = |used: bool| if used { "CRC32C" } else { "None" };
        let Digests { header, data } = self.digests();
        let session = if self.is_discovery() {
            "SessionType=Discovery\0".to_owned()
        } else {
            format!(
                "TargetName={TARGET}\0InitialR2T={}\0ImmediateData={}\0MaxBurstLength={}\0FirstBurstLength={}\0\
                 MaxOutstandingR2T={}\0",
                yes_no(self.0 & 4 != 0),
                yes_no(self.0 & 8 == 0),
                self.burst_limit(),
                self.burst_limit() / 2,
                if self.0 & 0x40 != 0 { 4 } else { 1 },
            )
        };
        format!(
            "InitiatorName={HOST}\0{session}HeaderDigest={}\0DataDigest={}\0MaxRecvDataSegmentLength={}\0",
            digest(header),
            digest(data),
            self.data_segment_limit(),
        )
    }
}

async fn converse(input: &mut Input<'_>) {
    let choice = Choice(input.byte());
    let length = usize::from(input.byte() & 0x1f);
    let (site, volume) = site(input.take(length));
    let mut initiator = Initiator::connect(&site, choice);
    initiator.log_in(choice).await;
    for _ in 0..MOST_STEPS {
        if input.is_empty() || initiator.is_over() {
            break;
        }
        initiator.step(input, &site, &volume).await;
    }
    initiator.end().await;
    assert_eq!(site.sessions(), 0);
}

fn site(plan: &[u8]) -> (Site, Arc<MemoryVolume>) {
    let product = ProductIdentification::new("ZVAAI", "fuzz", "1").expect("short ASCII");
    let device = Device::new(product.clone());
    let volume = MemoryVolume::new(64 << 20, false, plan);
    for number in 0..2 {
        let options = LogicalUnitOptions {
            uuid: [number as u8 + 1; 16],
            product: product.clone(),
            read_only: false,
        };
        let unit = LogicalUnit::new(Arc::clone(&volume) as _, options);
        device
            .insert_logical_unit(
                number,
                unit.expect("a geometry that is taken"),
                LogicalUnitAccess::Any,
            )
            .expect("a number that is free");
    }
    let definition = TargetDefinition {
        name: TARGET.parse().expect("a name"),
        ports: vec![TargetPort {
            portal_group_tag: PORTAL_GROUP,
            relative_target_port: 1,
        }],
        access: TargetAccess::Any,
        authentication: Authentication::default(),
        device: Arc::new(device),
    };
    let site = Site::new(ServerOptions::default(), vec![definition]);
    (site.expect("a configuration that is taken"), volume)
}

/// An initiator at the other end of a socket pair.
struct Initiator {
    stream: UnixStream,
    serving: JoinHandle<()>,
    observer: Observer,
    digests: Digests,
    cmd_sn: u32,
    next_tag: u32,
    /// The target no longer reads.
    closed: bool,
    /// Bytes per write.
    piece: usize,
    /// Whether the initiator reads.
    reads: bool,
}

impl Initiator {
    fn connect(site: &Site, choice: Choice) -> Self {
        let (near, far) = StdUnixStream::pair().expect("a socket pair");
        near.set_nonblocking(true).expect("a socket");
        far.set_nonblocking(true).expect("a socket");
        let far = std::net::TcpStream::from(OwnedFd::from(far));
        let far = TcpStream::from_std(far).expect("a stream socket");
        Self {
            stream: UnixStream::from_std(near).expect("a socket"),
            serving: spawn_local(site.serve(far, PORTAL_GROUP)),
            observer: Observer::new(
                choice.digests(),
                choice.data_segment_limit() as usize,
                choice.burst_limit(),
            ),
            digests: Digests::default(),
            cmd_sn: 1,
            next_tag: 0x100,
            closed: false,
            piece: usize::MAX,
            reads: true,
        }
    }

    async fn log_in(&mut self, choice: Choice) {
        let request = LoginRequest {
            transit: true,
            current_stage: 1,
            next_stage: 3,
            isid: [0x40, 0, 0, 1, 0, 0],
            cmd_sn: self.cmd_sn,
            ..LoginRequest::default()
        };
        self.send(request.encode(), &[], choice.text().as_bytes())
            .await;
        for _ in 0..MOST_TURNS {
            if self.observer.login().is_some() {
                break;
            }
            self.turn().await;
        }
        assert!(self.observer.login().is_some(), "the login by the book");
        self.digests = choice.digests();
    }

    fn is_over(&self) -> bool {
        self.closed || self.serving.is_finished()
    }

    async fn step(&mut self, input: &mut Input<'_>, site: &Site, volume: &MemoryVolume) {
        let step = input.byte();
        let bits = step >> 4;
        match step & 0x0f {
            0..=3 => self.command(bits, input).await,
            4 => self.satisfy(bits, input).await,
            5 => self.data_out(bits, input).await,
            6 => self.manage(bits, input).await,
            7 => self.ping(bits, input).await,
            8 => self.text(bits, input).await,
            9 => self.rare(bits, input).await,
            10 => {
                let header: Header = input.array();
                let additional = input.take(usize::from(bits) * 4).to_vec();
                let length = usize::from(input.half());
                self.send(header, &additional, input.take(length)).await;
            }
            11 => {
                self.observer.wild = true;
                let length = usize::from(input.byte());
                self.write(input.take(length)).await;
            }
            12 => {
                for _ in 0..=bits {
                    self.turn().await;
                }
            }
            13 => self.piece = if bits == 0 { usize::MAX } else { 1 << bits },
            14 => match bits {
                0 => site.stop(),
                1 => tokio::time::sleep(LONG).await,
                2 => volume.grow(u64::from(input.half())),
                3..6 => self.reads = false,
                _ => self.reads = true,
            },
            _ => tokio::time::sleep(Duration::from_secs(u64::from(bits))).await,
        }
    }

    /// A tag: a new one, or one of a few that are reused.
    fn tag(&mut self, which: u8) -> u32 {
        if which & 0x0c == 0 {
            return u32::from(which & 3);
        }
        self.next_tag += 1;
        self.next_tag
    }

    /// The next `CmdSN`, or a wrong one.
    fn next_cmd_sn(&mut self, which: u8, immediate: bool) -> u32 {
        let due = self.cmd_sn;
        let offset = match which & 7 {
            6 => 1,
            7 => u32::MAX,
            _ => 0,
        };
        if offset == 0 && !immediate {
            self.cmd_sn = due.wrapping_add(1);
        }
        due.wrapping_add(offset)
    }

    async fn command(&mut self, bits: u8, input: &mut Input<'_>) {
        let flags = input.byte();
        let what = input.byte();
        let immediate = bits & 8 != 0;
        let length = match what & 3 {
            0 => 512 * u32::from(what >> 2),
            1 => u32::from(input.half()),
            2 => input.word(),
            _ => 0,
        };
        let mut lun = [0; 8];
        lun[1] = (bits >> 2) & 1;
        let request = ScsiCommand {
            immediate,
            r#final: flags & 0x80 != 0,
            read: flags & 0x40 != 0,
            write: flags & 0x20 != 0,
            attribute: flags & 7,
            lun,
            initiator_task_tag: self.tag(((flags >> 3) & 3) | ((bits << 2) & 0x0c)),
            expected_data_transfer_length: length,
            cmd_sn: self.next_cmd_sn(bits, immediate),
            exp_stat_sn: 0,
            cdb: input.array(),
        };
        let extra = input.byte();
        let additional = match extra & 3 {
            1 => whole_words(input.take(usize::from(extra >> 2) + 1)),
            _ => Vec::new(),
        };
        let data = match extra & 3 {
            3 => vec![extra; usize::from(input.half())],
            _ => Vec::new(),
        };
        self.send(request.encode(), &additional, &data).await;
    }

    /// Sends the data of an R2T: complete or not, valid or not.
    async fn satisfy(&mut self, bits: u8, input: &mut Input<'_>) {
        let Some(ready) = self.observer.ready.pop_front() else {
            self.turn().await;
            return;
        };
        let length = ready.desired_data_transfer_length as usize;
        let segment = match bits & 3 {
            0 => 65536,
            1 => 512,
            2 => 1000,
            _ => length.max(1),
        };
        let data = vec![input.byte(); length];
        let count = length.div_ceil(segment);
        for (number, part) in data.chunks(segment).enumerate() {
            // Deliberate errors: order, offset, end.
            let wrong = |bit: u8| u32::from(bits & 0x0c == bit && number == 0);
            let request = DataOut {
                r#final: (number + 1 == count) != (wrong(4) == 1),
                lun: ready.lun,
                initiator_task_tag: ready.initiator_task_tag,
                target_transfer_tag: ready.target_transfer_tag,
                exp_stat_sn: 0,
                data_sn: number as u32 + wrong(8),
                buffer_offset: ready.buffer_offset + (number * segment) as u32 + wrong(12),
            };
            self.send(request.encode(), &[], part).await;
        }
    }

    /// Unsolicited Data-Out, or a part of solicited data.
    async fn data_out(&mut self, bits: u8, input: &mut Input<'_>) {
        let solicited = (bits & 1 != 0).then(|| self.observer.ready.front().copied());
        let ready = solicited.flatten().unwrap_or_default();
        let request = DataOut {
            r#final: bits & 2 != 0,
            lun: ready.lun,
            initiator_task_tag: match bits & 4 {
                0 => ready.initiator_task_tag,
                _ => u32::from(input.byte() & 3),
            },
            target_transfer_tag: match bits & 1 {
                0 => RESERVED_TAG,
                _ => ready.target_transfer_tag,
            },
            exp_stat_sn: 0,
            data_sn: u32::from(input.byte() & 3),
            buffer_offset: ready.buffer_offset + u32::from(input.half()),
        };
        let length = usize::from(input.half());
        self.send(request.encode(), &[], &vec![bits; length]).await;
    }

    async fn manage(&mut self, bits: u8, input: &mut Input<'_>) {
        let immediate = bits & 1 == 0;
        let function = input.byte();
        let named = input.byte();
        let mut lun = [0; 8];
        lun[1] = named >> 7;
        let request = TaskManagementRequest {
            immediate,
            function: function & 0x7f,
            lun,
            initiator_task_tag: self.tag(bits),
            referenced_task_tag: match named & 0x7f {
                0x7f => RESERVED_TAG,
                tag @ 0..4 => u32::from(tag),
                back => self.next_tag.wrapping_sub(u32::from(back) - 4),
            },
            cmd_sn: self.next_cmd_sn(bits >> 1, immediate),
            exp_stat_sn: 0,
            ref_cmd_sn: self.cmd_sn.wrapping_sub(u32::from(function >> 7) * 2),
            exp_data_sn: 0,
        };
        self.send(request.encode(), &[], &[]).await;
    }

    async fn ping(&mut self, bits: u8, input: &mut Input<'_>) {
        let immediate = bits & 1 == 0;
        let request = NopOut {
            immediate,
            lun: [0; 8],
            initiator_task_tag: match bits & 2 {
                0 => self.tag(bits),
                _ => RESERVED_TAG,
            },
            target_transfer_tag: match bits & 4 {
                0 => RESERVED_TAG,
                _ => self.observer.target_transfer_tag,
            },
            cmd_sn: self.next_cmd_sn(bits, immediate),
            exp_stat_sn: 0,
        };
        let length = usize::from(input.half());
        self.send(request.encode(), &[], &vec![bits; length]).await;
    }

    async fn text(&mut self, bits: u8, input: &mut Input<'_>) {
        let immediate = bits & 1 == 0;
        let request = TextRequest {
            immediate,
            r#final: bits & 2 == 0,
            r#continue: bits & 4 != 0,
            lun: [0; 8],
            initiator_task_tag: self.tag(bits),
            target_transfer_tag: match bits & 8 {
                0 => RESERVED_TAG,
                _ => self.observer.target_transfer_tag,
            },
            cmd_sn: self.next_cmd_sn(0, immediate),
            exp_stat_sn: 0,
        };
        let length = usize::from(input.byte());
        let text = match length {
            0 => b"SendTargets=All\0",
            length => input.take(length),
        };
        self.send(request.encode(), &[], text).await;
    }

    /// PDUs that end a connection, or are not allowed.
    async fn rare(&mut self, bits: u8, input: &mut Input<'_>) {
        let immediate = bits & 1 == 0;
        let header = match bits >> 1 {
            0..=2 => LogoutRequest {
                immediate,
                reason: input.byte() & 3,
                initiator_task_tag: self.tag(bits),
                cid: 0,
                cmd_sn: self.next_cmd_sn(0, immediate),
                exp_stat_sn: 0,
            }
            .encode(),
            3 => LoginRequest::default().encode(),
            _ => SnackRequest {
                kind: bits & 3,
                initiator_task_tag: u32::from(input.byte() & 3),
                run_length: u32::from(input.byte()),
                ..SnackRequest::default()
            }
            .encode(),
        };
        self.send(header, &[], &[]).await;
    }

    async fn send(&mut self, header: Header, additional: &[u8], data: &[u8]) {
        self.observer.sending(&header);
        self.write(&pdu::encode(header, additional, data, self.digests))
            .await;
    }

    async fn write(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(self.piece.min(bytes.len()).max(1)) {
            let mut left = piece;
            let mut turns = 0;
            while !left.is_empty() && !self.closed {
                match self.stream.try_write(left) {
                    Ok(written) => left = &left[written..],
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                        turns += 1;
                        // Do not wait for a target that waits for this initiator to read.
                        self.reads |= turns > MOST_TURNS;
                        self.turn().await;
                        if turns > MOST_TURNS * 4 {
                            // It may wait for data that is not sent. Its timers must end the connection.
                            self.closed = true;
                        }
                    }
                    Err(_) => self.closed = true,
                }
            }
            if self.piece < bytes.len() {
                self.turn().await;
            }
        }
    }

    /// Runs the target for a turn, and checks what it sent.
    async fn turn(&mut self) {
        yield_now().await;
        if self.reads {
            self.read();
        }
    }

    /// Reads available bytes; false at the end of the stream.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 16384];
        loop {
            match self.stream.try_read(&mut bytes) {
                Ok(0) => return false,
                Ok(count) => self.observer.receive(&bytes[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
    }

    /// Closes this side, and waits for the other.
    async fn end(mut self) {
        self.turn().await;
        let stream = self.stream.into_std().expect("a socket");
        let _ = stream.shutdown(std::net::Shutdown::Write);
        self.stream = UnixStream::from_std(stream).expect("a socket");
        self.reads = true;
        loop {
            tokio::select! {
                biased;
                ended = &mut self.serving => {
                    ended.expect("no panic in a connection");
                    break;
                }
                _ = self.stream.readable() => {
                    if !self.read() {
                        (&mut self.serving).await.expect("no panic in a connection");
                        break;
                    }
                }
            }
        }
        self.read();
    }
}
