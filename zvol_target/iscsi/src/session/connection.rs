// SPDX-License-Identifier: Apache-2.0
//! State and main loop of a connection, and its end.

use std::collections::HashMap;
use std::future::{Future as _, poll_fn};
use std::mem::take;
use std::net::Shutdown;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join;
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

/// Stop receiving while more Data-In than this is unread by the initiator, bytes. [`Memory`] limits long data; short answers can
/// add 64 KiB for each command of the window before the next check.
const UNREAD_DATA: usize = THREAD_MEMORY / 2;
/// Limit of the data of requests that arrived early, bytes. Normal initiators do not send pings and texts out of order.
pub(super) const EARLY_REQUESTS: usize = 64 << 10;
/// Stop receiving while more bytes of responses than this, without data, are unread by the initiator.
const UNREAD_RESPONSES: usize = 2 << 20;
/// Approximate memory of a connection without commands, and of a command without its data, bytes.
const BYTES_OF_A_CONNECTION: usize = 128 << 10;
const BYTES_OF_A_TASK: usize = 4 << 10;
/// Receive, run and send this often before other connections have their turn.
const MOST_TURNS: usize = 8;
/// End the session after this many keepalive intervals without a byte of a command's outstanding Data-Out, which is at least
/// twice the interval. An initiator that never sends the data would block later commands of the logical unit.
/// `ErrorRecoveryLevel` 0 has no other recovery (7.1.5).
const DATA_OUT_INTERVALS: u32 = 3;
/// How long the end of a session waits for its commands. On a volume that works they end in this time, so that the initiator's
/// next session finds no fenced unit.
const END_OF_COMMANDS: Duration = Duration::from_millis(200);
/// Time limit of a message before the connection is closed.
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
    /// Data arrived since the timer was set.
    Heard,
    /// No data arrived.
    Quiet,
    /// No data arrived, and a NOP-In was sent.
    Pinged,
}

/// An I\_T nexus with its target. Dropping it always notifies the target of the nexus loss.
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
    /// The nexus and its target; `None` in a discovery session.
    pub(super) nexus: Option<Attachment>,
    pub(super) parameters: NegotiatedParameters,
    pub(super) digests: Digests,
    pub(super) window: CommandWindow,
    pub(super) stat_sn: u32,
    /// Commands by Initiator Task Tag.
    pub(super) tasks: HashMap<u32, Task>,
    /// Requests that arrived before their turn, by `CmdSN`.
    pub(super) held: HashMap<u32, Held>,
    /// Number of running immediate requests.
    pub(super) immediate: u32,
    pub(super) running: FuturesUnordered<Running>,
    /// Number of commands passed to the SCSI target.
    pub(super) started: u64,
    pub(super) requests: Rc<Requests>,
    pub(super) solicited: Solicited,
    pub(super) next_transfer_tag: u32,
    pub(super) incoming: Incoming,
    /// Whether the last data segment was long.
    pub(super) bulk: bool,
    pub(super) memory: Rc<Memory>,
    held_memory: HeldMemory,
    pub(super) text: TextNegotiation,
    pub(super) logout: Option<LogoutRequest>,
    keepalive: Keepalive,
    timer: Pin<Box<Sleep>>,
}

impl Connection {
    /// A connection whose login is complete. `inbound` can hold bytes that follow the login.
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

    /// Serves the initiator until the connection ends. Ready when the last command has also ended; the initiator can log in
    /// before that.
    pub async fn run(mut self) {
        let end = poll_fn(|context| self.poll_turn(context)).await;
        let initiator = &self.registration.record.initiator;
        match &end {
            End::Ended(EndReason::MemoryShort) => {
                warn!(%initiator, "memory for sessions is exhausted; this session held the most and is closed");
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
        if let End::Ended(EndReason::MemoryShort) = end {
            // Drop everything at once, including the kernel's send buffer: the initiator does not read it.
            self.outbound = Outbound::default();
            self.long_data = LongData::default();
            let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
        }
        self.end_nexus().await;
        match end {
            End::Logout(request) => self.push_logout_response(&request),
            End::DataOutMissing | End::Ended(EndReason::Shutdown | EndReason::Removed) => {
                self.push_connections_dropped();
            }
            _ => {}
        }
        let mut running = take(&mut self.running);
        let last_words = async move {
            if lingers {
                self.flush_last_words().await;
            }
            // The initiator can log in again from here on. Units with running commands are fenced for it.
            let Self {
                stream,
                inbound,
                registration,
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
            held_memory
        };
        // Commands run on in the meantime: other hosts can wait for the ranges that they hold.
        let ended = async { while running.next().await.is_some() {} };
        let (_held_memory, ()) = join(last_words, ended).await;
    }

    async fn flush_last_words(&mut self) {
        let Self {
            stream, outbound, ..
        } = self;
        let flush = poll_fn(|context| outbound.poll_flush(stream, context));
        // The connection is closed next in any case.
        let _ = timeout(LAST_WORDS_TIMEOUT, flush).await;
    }

    /// Ends the nexus, and waits [`END_OF_COMMANDS`] for its commands. A command that runs longer waits for a volume that hangs,
    /// and cannot be cancelled.
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

    /// One turn: receives, runs and sends while there is work, until other connections must have their turn.
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
        for _ in 0..MOST_TURNS {
            let paused = self.is_receiving_paused();
            let received = match self.poll_receive(context) {
                Poll::Ready(Ok(())) => true,
                Poll::Ready(Err(end)) => return Poll::Ready(end),
                Poll::Pending => false,
            };
            self.poll_running(context);
            self.announce_window();
            if let Poll::Ready(Err(error)) = self.poll_send(context) {
                return Poll::Ready(End::Io(error));
            }
            // Sent data can have freed memory, for commands that wait and for bytes in the socket.
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
        // The timer of a connection that is never idle must be checked too.
        if self.timer.is_elapsed() {
            if let Poll::Ready(end) = self.poll_keepalive(context) {
                return Poll::Ready(end);
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Runs commands until all wait, and requests the data that they wait for.
    pub(super) fn poll_running(&mut self, context: &mut Context<'_>) {
        while let Poll::Ready(Some(finished)) = self.running.poll_next_unpin(context) {
            self.finish(finished);
        }
        self.send_requests();
    }

    /// Whether to stop reading from the socket until the initiator reads. It never waits for the end of commands: they can wait
    /// for bytes in the socket, and a ping can be there too.
    pub(super) fn is_receiving_paused(&self) -> bool {
        self.outbound.staged_bytes() > UNREAD_RESPONSES || self.unread_data() > UNREAD_DATA
    }

    /// Called once an interval. Whether a command has waited too long for its Data-Out.
    fn is_data_out_missing(&self) -> bool {
        // While receiving is paused, the delay is ours.
        let paused = self.is_receiving_paused();
        self.tasks
            .values()
            .filter_map(|task| task.transfer.as_ref())
            .any(|transfer| transfer.count_silence(paused) >= DATA_OUT_INTERVALS)
    }

    fn poll_keepalive(&mut self, context: &mut Context<'_>) -> Poll<End> {
        // The check of the time is cheap; poll the timer only to register its waker again.
        while self.timer.is_elapsed() || self.timer.as_mut().poll(context).is_ready() {
            if self.is_data_out_missing() {
                return Poll::Ready(End::DataOutMissing);
            }
            self.keepalive = match self.keepalive {
                Keepalive::Heard => Keepalive::Quiet,
                // A discovery session is short; close an idle one.
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

/// Reads what the initiator still sends until it closes. Closing a connection with unread bytes resets it, and the last sent data
/// can be lost.
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
    // Closed in any case after the timeout.
    let _ = timeout(LAST_WORDS_TIMEOUT, drain).await;
}
