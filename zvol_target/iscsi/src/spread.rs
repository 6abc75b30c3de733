// SPDX-License-Identifier: Apache-2.0
//! Spreads sessions over the reactors by load, when they connect and later.

use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::RuntimeMetrics;
use tracing::debug;

use crate::arrivals::Arrivals;
use crate::config::ServerOptions;
use crate::reactor::{Arriving, Inlet, Reactor};
use crate::registry::{Counters, Registry, SessionRecord, network_of};

/// Shortest period of a load measurement.
const MEASURED: Duration = Duration::from_secs(1);

/// A reactor that is less busy has time for all its sessions, per mille.
const BUSY: u64 = 250;
/// A session moves if the busiest reactor becomes less busy by at least this, per mille.
const GAIN: u64 = 100;

/// Data that costs about as much CPU time as a command, bytes.
const BYTES_OF_WORK: u64 = 64 << 10;

/// A reactor, for the thread that accepts.
struct Choice {
    inlet: Inlet,
    metrics: RuntimeMetrics,
    /// Time that it ran tasks, at the last measurement.
    ran: Duration,
    /// Share of the time in which it ran tasks before the last measurement, per mille.
    busy: u64,
    /// Connections assigned after the last measurement.
    given: u64,
}

/// Assigns each connection to the reactor with the least load; if the load is about equal, to the one with the fewest
/// connections.
pub(crate) struct Spread {
    choices: Mutex<(Instant, Vec<Choice>)>,
    arrivals: Arc<Arrivals>,
}

impl Spread {
    pub fn new(reactors: &[Reactor], options: &ServerOptions) -> Self {
        let of = |reactor: &Reactor| Choice {
            inlet: reactor.inlet.clone(),
            metrics: reactor.metrics.clone(),
            ran: Duration::ZERO,
            busy: 0,
            given: 0,
        };
        Self {
            choices: Mutex::new((Instant::now(), reactors.iter().map(of).collect())),
            arrivals: Arc::new(Arrivals::new(
                options.max_logins,
                options.max_logins_per_peer,
            )),
        }
    }

    /// Assigns an accepted connection.
    pub fn give(&self, stream: std::net::TcpStream, peer: IpAddr, group_tag: u16) {
        let mut choices = self.measure();
        let choices = &mut choices.1;
        // Expected load of a new connection.
        let count = |choice: &Choice| choice.inlet.count.load(Ordering::Relaxed);
        let busy: u64 = choices.iter().map(|choice| choice.busy).sum();
        let each = busy / choices.iter().map(count).sum::<usize>().max(1) as u64;
        let load = |choice: &Choice| (choice.busy + choice.given * each) / 50;
        let least = choices
            .iter_mut()
            .min_by_key(|choice| (load(choice), count(choice)));
        if let Some(choice) = least {
            choice.given += 1;
            choice.inlet.send(Arriving::Accepted {
                stream,
                group_tag,
                arrival: self.arrivals.enter(network_of(peer)),
            });
        }
    }

    /// Measures the load, if the last measurement is old enough.
    fn measure(&self) -> MutexGuard<'_, (Instant, Vec<Choice>)> {
        // No code panics while it holds the lock.
        let mut choices = self.choices.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = choices.0.elapsed();
        if passed >= MEASURED {
            choices.0 += passed;
            let all = choices.1.iter_mut();
            all.for_each(|choice| choice.measure(passed));
        }
        choices
    }

    /// Moves a session from the busiest reactor to the least busy one, if that makes the busiest one noticeably less busy.
    pub fn balance(&self, registry: &Registry) {
        let busy: Vec<_> = self.measure().1.iter().map(|choice| choice.busy).collect();
        debug!(per_mille = ?busy, "load of the reactors");
        let sessions = registry.sessions();
        let work = |session: &Arc<SessionRecord>| {
            let all = work_of(&session.counters);
            let before = session.work_before.swap(all, Ordering::Relaxed);
            (session.reactor(), all.saturating_sub(before))
        };
        let work: Vec<_> = sessions.iter().map(work).collect();
        if let Some((index, to)) = best_move(&busy, &work) {
            sessions[index].reactor.store(to, Ordering::Relaxed);
        }
    }
}

/// An estimate of the CPU time that a session has used, in commands without data.
fn work_of(counters: &Counters) -> u64 {
    let [commands, data_in, data_out] = [
        &counters.commands,
        &counters.data_in_bytes,
        &counters.data_out_bytes,
    ]
    .map(|counter| counter.load(Ordering::Relaxed));
    commands + (data_in + data_out) / BYTES_OF_WORK
}

/// Chooses a session and its new reactor. `busy` is the share of the time that each reactor is busy, per mille; `sessions` are
/// the reactor of each session and its work.
fn best_move(busy: &[u64], sessions: &[(usize, u64)]) -> Option<(usize, usize)> {
    let by_load = |&reactor: &usize| busy[reactor];
    let from = (0..busy.len()).max_by_key(by_load)?;
    let to = (0..busy.len()).min_by_key(by_load)?;
    let here = || {
        sessions
            .iter()
            .enumerate()
            .filter(|(_, (at, _))| *at == from)
    };
    let all: u64 = here().map(|(_, (_, work))| work).sum();
    if busy[from] < BUSY || all == 0 {
        return None;
    }
    let after = |work: u64| {
        let load = busy[from] * work / all;
        (busy[from] - load).max(busy[to] + load)
    };
    let (index, (_, work)) = here().min_by_key(|(_, (_, work))| after(*work))?;
    (after(*work) + GAIN <= busy[from]).then_some((index, to))
}

impl Choice {
    /// Measures the load of the time that has passed since the last measurement.
    fn measure(&mut self, passed: Duration) {
        let ran = self.metrics.worker_total_busy_duration(0);
        let more = ran.saturating_sub(self.ran).as_millis() as u64;
        self.busy = more * 1000 / (passed.as_millis() as u64).max(1);
        (self.ran, self.given) = (ran, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_two_busy_sessions_moves() {
        let sessions = [(0, 5), (0, 4000), (0, 4000), (1, 10)];
        assert_eq!(best_move(&[900, 50], &sessions), Some((1, 1)));
        // Half of the load moves at most, also if a session has more.
        let sessions = [(1, 6000), (1, 2000), (1, 2000), (0, 0)];
        assert_eq!(best_move(&[100, 900], &sessions), Some((0, 0)));
    }

    #[test]
    fn sessions_stay_if_a_move_gains_little() {
        // A reactor that is not busy.
        assert_eq!(best_move(&[200, 0], &[(0, 10), (0, 10)]), None);
        // One busy session: the other reactor would be as busy.
        assert_eq!(best_move(&[950, 20], &[(0, 4000), (0, 1), (1, 50)]), None);
        // Equal load.
        assert_eq!(best_move(&[950, 900], &[(0, 10), (0, 10), (1, 10)]), None);
        assert_eq!(best_move(&[950], &[(0, 10)]), None);
        assert_eq!(best_move(&[950, 0], &[]), None);
    }
}
