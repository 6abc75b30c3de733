// SPDX-License-Identifier: Apache-2.0
//! The connection: its state, its turn, its end.

use std::collections::HashMap;
use std::future::{Future as _, poll_fn};
use std::net::Shutdown;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use scsi::sam::{Nexus, ScsiTarget};
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep, timeout};
use tracing::{debug, warn};

use super::data_in::LongData;
use super::dispatch::Held;
use super::memory::{HeldMemory, Memory, THREAD_MEMORY};
use super::receive::Incoming;
use super::solicit::Solicited;
use super::task::{Running, Task};
use super::text::TextNegotiation;
use super::transfer::Requests;
use super::window::CommandWindow;
use super::{Inbound, Outbound};
use crate::login::{LoggedIn, NegotiatedParameters};
use crate::pdu::{Digests, FrameError, LogoutRequest};
use crate::registry::{EndReason, Registration, Registry};
use crate::text::format_binary;

/// Data-In that the initiator has not read, above which nothing more is received. Long data is bounded by [`Memory`]; short
/// answers can add 64 KiB for each command of the window before this is checked again.
const UNREAD_DATA: usize = THREAD_MEMORY / 2;
/// Data of requests that came before their turn, bytes: no initiator sends its pings and texts so.
pub(super) const EARLY_REQUESTS: usize = 64 << 10;
/// Bytes of responses an initiator leaves unread, data apart, above which nothing more is received from it.
const UNREAD_RESPONSES: usize = 2 << 20;
/// What a connection takes without any command, and a command without its data; bytes, about.
const BYTES_OF_A_CONNECTION: usize = 128 << 10;
const BYTES_OF_A_TASK: usize = 4 << 10;
/// Rounds of receiving, running and sending before other connections have their turn.
const ROUNDS: usize = 8;
/// Intervals of the keepalive timer over which no byte of a command's outstanding Data-Out has come, after which the session
/// ends: twice the interval at least. An initiator that is there but leaves a command without its data would hold up
/// what is behind it in the logical unit for ever; at `ErrorRecoveryLevel` 0 there is no other recovery (7.1.5).
const DATA_OUT_INTERVALS: u32 = 3;
/// How long the end of a session waits for its commands: those of a volume that works end within it, so that the next session of
/// the initiator finds no unit fenced off.
const END_OF_COMMANDS: Duration = Duration::from_millis(200);
/// How long a message that goes before a close may take.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_secs(1);

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum End {
    #[error("the initiator closed the connection")]
    Closed,
    #[error("the initiator logged out")]
    Logout(LogoutRequest),
    #[error("the initiator did not answer")]
    Silent,
    #[error("the initiator did not send data that was requested or announced")]
    DataOutMissing,
    #[error("format error: {0}")]
    Frame(#[from] FrameError),
    #[error("protocol error: {0}")]
    Protocol(&'static str),
    #[error("ended from this side: {0:?}")]
    Ended(EndReason),
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// State of the keepalive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keepalive {
    /// Something was received since the timer was set.
    Heard,
    /// Nothing was.
    Quiet,
    /// Nothing was, and a NOP-In is on its way.
    Pinged,
}

/// An I\_T nexus with its target. However it is dropped, the target is notified of the nexus loss.
pub(super) struct Attachment {
    pub nexus: Arc<Nexus>,
    pub target: Arc<dyn ScsiTarget>,
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.target.nexus_lost(&self.nexus);
    }
}

/// A session and its connection.
pub(crate) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) inbound: Inbound,
    pub(super) outbound: Outbound,
    pub(super) long_data: LongData,
    pub(super) registry: Arc<Registry>,
    pub(super) registration: Registration,
    /// The nexus and its target; none in a discovery session.
    pub(super) nexus: Option<Attachment>,
    pub(super) parameters: NegotiatedParameters,
    pub(super) digests: Digests,
    pub(super) window: CommandWindow,
    pub(super) stat_sn: u32,
    /// Commands by Initiator Task Tag.
    pub(super) tasks: HashMap<u32, Task>,
    /// What came before its turn, by `CmdSN`.
    pub(super) held: HashMap<u32, Held>,
    /// Immediate requests under way.
    pub(super) immediate: u32,
    pub(super) running: FuturesUnordered<Running>,
    /// Commands that the SCSI target was given so far.
    pub(super) started: u64,
    pub(super) requests: Rc<Requests>,
    pub(super) solicited: Solicited,
    pub(super) next_transfer_tag: u32,
    pub(super) incoming: Incoming,
    /// The last data segment was long.
    pub(super) bulk: bool,
    pub(super) memory: Rc<Memory>,
    held_memory: HeldMemory,
    pub(super) text: TextNegotiation,
    pub(super) logout: Option<LogoutRequest>,
    keepalive: Keepalive,
    timer: Pin<Box<Sleep>>,
}

impl Connection {
    /// A connection whose login is complete. `inbound` may hold bytes that came behind it.
    pub fn new(
        stream: TcpStream,
        inbound: Inbound,
        registry: Arc<Registry>,
        login: LoggedIn,
    ) -> Self {
        let record = &login.registration.record;
        let nexus = record.target.as_ref().map(|(target, port)| {
            let isid = format_binary(&record.isid);
            let nexus = Arc::new(Nexus {
                id: registry.new_nexus_identifier(),
                initiator_port: format!("{},i,{isid}", record.initiator),
                initiator_device: record.initiator.to_string(),
                relative_target_port: port.relative_target_port,
                proof: record
                    .account
                    .as_deref()
                    .and_then(|account| target.proven_by(account)),
            });
            target.device.nexus_established(&nexus);
            Attachment {
                nexus,
                target: Arc::clone(&target.device),
            }
        });
        let interval = registry.options.keepalive_interval;
        let requests = Rc::<Requests>::default();
        Self {
            held_memory: HeldMemory::new(&registry, record),
            stream,
            inbound,
            outbound: Outbound::default(),
            long_data: LongData::default(),
            registry,
            registration: login.registration,
            nexus,
            digests: Digests {
                header: login.parameters.header_digest,
                data: login.parameters.data_digest,
            },
            parameters: login.parameters,
            window: CommandWindow::new(login.cmd_sn),
            stat_sn: login.stat_sn,
            tasks: HashMap::new(),
            held: HashMap::new(),
            immediate: 0,
            running: FuturesUnordered::new(),
            started: 0,
            memory: Rc::clone(&requests.memory),
            requests,
            solicited: Solicited::default(),
            next_transfer_tag: 0,
            incoming: Incoming::Headers,
            bulk: false,
            text: TextNegotiation::default(),
            logout: None,
            keepalive: Keepalive::Quiet,
            timer: Box::pin(sleep(interval)),
        }
    }

    /// Serves the initiator until the connection ends. Ready when the last command has ended too; the initiator may log in before.
    pub async fn run(self) {
        let (mut running, held_memory) = self.serve().await;
        while running.next().await.is_some() {}
        drop(held_memory);
    }

    /// Serves the initiator until the connection ends, and returns the commands that have not ended, and what counts their memory.
    async fn serve(mut self) -> (FuturesUnordered<Running>, HeldMemory) {
        let end = poll_fn(|context| self.poll_turn(context)).await;
        let initiator = &self.registration.record.initiator;
        match &end {
            End::Ended(EndReason::MemoryShort) => {
                warn!(%initiator, "the session held the most memory of all, and there is no more: it ends");
            }
            End::Closed | End::Logout(_) | End::Ended(_) => {
                debug!(%initiator, %end, "session ends");
            }
            End::Silent | End::DataOutMissing | End::Frame(_) | End::Protocol(_) | End::Io(_) => {
                warn!(%initiator, %end, "session ends");
            }
        }
        let lingers = !matches!(
            end,
            End::Closed
                | End::Silent
                | End::Ended(EndReason::Reinstated | EndReason::MemoryShort)
                | End::Io(_)
        );
        match end {
            End::Logout(request) => {
                self.end_nexus().await;
                self.push_logout_response(&request);
                self.flush_last_words().await;
            }
            End::DataOutMissing | End::Ended(EndReason::Shutdown | EndReason::Removed) => {
                self.push_connections_dropped();
                self.flush_last_words().await;
                self.end_nexus().await;
            }
            // A Reject may be queued.
            End::Frame(_) | End::Protocol(_) => {
                self.flush_last_words().await;
                self.end_nexus().await;
            }
            End::Ended(EndReason::MemoryShort) => {
                // At once, also what the kernel has: the initiator does not read it.
                self.outbound = Outbound::default();
                self.long_data = LongData::default();
                let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
                self.end_nexus().await;
            }
            End::Closed | End::Silent | End::Ended(EndReason::Reinstated) | End::Io(_) => {
                self.end_nexus().await;
            }
        }
        // From here on the initiator may log in again: units in which commands still run are fenced off from it.
        let Self {
            stream,
            inbound,
            registration,
            running,
            memory,
            held_memory,
            ..
        } = self;
        memory.set_unread(0);
        drop(registration);
        if lingers {
            linger(stream, inbound).await;
        }
        held_memory.set(memory.total());
        (running, held_memory)
    }

    async fn flush_last_words(&mut self) {
        let Self {
            stream, outbound, ..
        } = self;
        let flush = poll_fn(|context| outbound.poll_flush(stream, context));
        // The connection is closed next, whether they got through or not.
        let _ = timeout(LAST_WORDS_TIMEOUT, flush).await;
    }

    /// Ends the nexus, and gives its commands [`END_OF_COMMANDS`] to end. One that runs longer is in an operation of a volume that
    /// hangs, which nobody can call back.
    async fn end_nexus(&mut self) {
        for task in self.tasks.values() {
            if let Some(transfer) = &task.transfer {
                transfer.lose_nexus();
            }
        }
        self.nexus = None;
        let ended = async { while self.running.next().await.is_some() {} };
        let _ = timeout(END_OF_COMMANDS, ended).await;
        self.tasks.clear();
    }

    /// One turn: receive, run, send, as often as there is something to do and others are not kept waiting.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<End> {
        if let Poll::Ready(reason) = self.registration.record.end.poll(context) {
            return Poll::Ready(End::Ended(reason));
        }
        self.requests.begin_turn(context.waker());
        let turn = self.poll_steps(context);
        self.requests.end_turn();
        let tasks = self.tasks.len() * BYTES_OF_A_TASK;
        let other = BYTES_OF_A_CONNECTION + self.outbound.staged_bytes() + tasks;
        self.held_memory.set(self.memory.total() + other);
        turn
    }

    fn poll_steps(&mut self, context: &mut Context<'_>) -> Poll<End> {
        for _ in 0..ROUNDS {
            let paused = self.is_receiving_paused();
            let received = match self.poll_receive(context) {
                Poll::Ready(Ok(())) => true,
                Poll::Ready(Err(end)) => return Poll::Ready(end),
                Poll::Pending => false,
            };
            self.poll_running(context);
            self.tell_window();
            if let Poll::Ready(Err(error)) = self.poll_send(context) {
                return Poll::Ready(End::Io(error));
            }
            // What was sent may have made room: for commands that wait, and for what is in the socket.
            let granted = self.memory.serve(self.unread_data());
            let resumed = granted || (paused && !self.is_receiving_paused());
            if let Some(request) = self.logout.take() {
                return Poll::Ready(End::Logout(request));
            }
            if received {
                self.keepalive = Keepalive::Heard;
            } else if !resumed {
                return self.poll_keepalive(context);
            }
        }
        // A connection that is never idle has its timer checked all the same.
        if self.timer.is_elapsed() {
            if let Poll::Ready(end) = self.poll_keepalive(context) {
                return Poll::Ready(end);
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Runs commands as far as they get, and asks for the data they wait for.
    pub(super) fn poll_running(&mut self, context: &mut Context<'_>) {
        while let Poll::Ready(Some(finished)) = self.running.poll_next_unpin(context) {
            self.finish(finished);
        }
        self.send_requests();
    }

    /// Whether reading from the socket has to wait: for the initiator to read. Never for commands to end, as what is in the socket
    /// may be what they wait for, or a ping.
    pub(super) fn is_receiving_paused(&self) -> bool {
        self.outbound.staged_bytes() > UNREAD_RESPONSES || self.unread_data() > UNREAD_DATA
    }

    /// Called once an interval: whether some command has waited too long for its Data-Out.
    fn is_data_out_missing(&self) -> bool {
        // While we do not receive it is for us to go on.
        let paused = self.is_receiving_paused();
        self.tasks
            .values()
            .filter_map(|task| task.transfer.as_ref())
            .any(|transfer| transfer.count_silence(paused) >= DATA_OUT_INTERVALS)
    }

    fn poll_keepalive(&mut self, context: &mut Context<'_>) -> Poll<End> {
        // An elapsed check is cheap; the timer is polled only to set its waker anew.
        while self.timer.is_elapsed() || self.timer.as_mut().poll(context).is_ready() {
            if self.is_data_out_missing() {
                return Poll::Ready(End::DataOutMissing);
            }
            self.keepalive = match self.keepalive {
                Keepalive::Heard => Keepalive::Quiet,
                // A discovery session is for questions only; an idle one ends.
                Keepalive::Quiet if self.nexus.is_none() => Keepalive::Pinged,
                Keepalive::Quiet => {
                    self.push_ping();
                    if let Poll::Ready(Err(error)) = self.poll_send(context) {
                        return Poll::Ready(End::Io(error));
                    }
                    Keepalive::Pinged
                }
                Keepalive::Pinged => return Poll::Ready(End::Silent),
            };
            let next = tokio::time::Instant::now() + self.registry.options.keepalive_interval;
            self.timer.as_mut().reset(next);
        }
        Poll::Pending
    }
}

/// Reads what the initiator still sends, until it closes: closing with bytes unread resets the connection, and what was
/// sent last may be lost.
async fn linger(mut stream: TcpStream, mut inbound: Inbound) {
    let _ = SockRef::from(&stream).shutdown(Shutdown::Write);
    let drain = async {
        loop {
            inbound.consume(usize::MAX);
            let received = poll_fn(|context| inbound.poll_receive(&mut stream, context, false));
            if matches!(received.await, Ok(0) | Err(_)) {
                break;
            }
        }
    };
    // Closed in any case when the time is over.
    let _ = timeout(LAST_WORDS_TIMEOUT, drain).await;
}
