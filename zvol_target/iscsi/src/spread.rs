// SPDX-License-Identifier: Apache-2.0
//! Spreads sessions over the reactors by load, when they connect.

use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::RuntimeMetrics;
use tokio::time::sleep;

use crate::arrivals::Arrivals;
use crate::config::ServerOptions;
use crate::reactor::{Accepted, Inlet, Reactor};
use crate::registry::network_of;

/// Shortest period of a load measurement.
const MEASURED: Duration = Duration::from_secs(1);

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
            choice.inlet.send(Accepted {
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

    /// Keeps the load recent: the last new connection can be days old.
    pub async fn keep_measuring(&self, interval: Duration) {
        loop {
            sleep(interval).await;
            drop(self.measure());
        }
    }
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
