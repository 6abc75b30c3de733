// SPDX-License-Identifier: Apache-2.0
//! Counters of each nexus, and of each host over all its nexuses, present and past.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::lock;
use crate::sam::Nexus;
use crate::statistics::{Counters, Statistics};

/// Most hosts without a nexus whose counters are retained; the first to leave is dropped.
///
/// The transport limits the number of hosts with a nexus.
const MAXIMUM_ABSENT_HOSTS: usize = 256;

/// One host: an initiator device (SAM-5 4.5).
#[derive(Debug, Default)]
struct Host {
    accounts: Mutex<Accounts>,
}

#[derive(Debug, Default)]
struct Accounts {
    /// Sums of nexuses that have ended with all their tasks.
    past: Statistics,
    present: Vec<(u64, Arc<Counters>)>,
}

impl Host {
    fn statistics(&self) -> Statistics {
        let accounts = lock(&self.accounts);
        let mut sum = accounts.past.clone();
        for (_, counters) in &accounts.present {
            sum.add(&counters.snapshot());
        }
        sum
    }
}

/// A nexus with its counters. Its tasks refer to it, so it exists as long as something is counted.
#[derive(Debug)]
pub(crate) struct CountedNexus {
    pub(crate) nexus: Arc<Nexus>,
    pub(crate) counters: Arc<Counters>,
    host: Arc<Host>,
}

impl Drop for CountedNexus {
    fn drop(&mut self) {
        let mut accounts = lock(&self.host.accounts);
        accounts.present.retain(|(id, _)| *id != self.nexus.id);
        accounts.past.add(&self.counters.snapshot());
    }
}

/// Hosts by initiator device name.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    hosts: BTreeMap<String, Known>,
    departures: u64,
}

#[derive(Debug, Default)]
struct Known {
    host: Arc<Host>,
    nexuses: usize,
    /// Number of hosts that lost their last nexus so far; their order.
    departed: u64,
}

impl Hosts {
    pub(crate) fn arrive(&mut self, nexus: &Arc<Nexus>) -> Arc<CountedNexus> {
        let known = self
            .hosts
            .entry(nexus.initiator_device.clone())
            .or_default();
        known.nexuses += 1;
        let counters = Arc::new(Counters::default());
        lock(&known.host.accounts)
            .present
            .push((nexus.id, Arc::clone(&counters)));
        Arc::new(CountedNexus {
            nexus: Arc::clone(nexus),
            counters,
            host: Arc::clone(&known.host),
        })
    }

    pub(crate) fn depart(&mut self, nexus: &Nexus) {
        let Some(known) = self.hosts.get_mut(&nexus.initiator_device) else {
            return;
        };
        known.nexuses = known.nexuses.saturating_sub(1);
        if known.nexuses > 0 {
            return;
        }
        self.departures += 1;
        known.departed = self.departures;
        let absent = || self.hosts.iter().filter(|(_, known)| known.nexuses == 0);
        if absent().count() > MAXIMUM_ABSENT_HOSTS {
            let oldest = absent()
                .min_by_key(|(_, known)| known.departed)
                .map(|(name, _)| name.clone());
            if let Some(name) = oldest {
                self.hosts.remove(&name);
            }
        }
    }

    pub(crate) fn statistics(&self) -> BTreeMap<String, Statistics> {
        self.hosts
            .iter()
            .map(|(name, known)| (name.clone(), known.host.statistics()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Counted;

    fn nexus(id: u64, host: usize) -> Arc<Nexus> {
        Arc::new(Nexus {
            id,
            initiator_port: format!("host{host},i,0x{id:012x}"),
            initiator_device: format!("host{host}"),
            relative_target_port: 1,
        })
    }

    fn aborted(hosts: &Hosts, host: &str) -> Option<u64> {
        hosts
            .statistics()
            .get(host)
            .map(|statistics| statistics.aborted)
    }

    #[test]
    fn a_host_is_the_sum_of_its_nexuses_and_never_counts_down() {
        let mut hosts = Hosts::default();
        let (first, second) = (nexus(1, 1), nexus(2, 1));
        let (earlier, later) = (hosts.arrive(&first), hosts.arrive(&second));
        earlier.counters.count(Counted::Aborted);
        later.counters.count(Counted::Aborted);
        assert_eq!(aborted(&hosts, "host1"), Some(2));
        hosts.depart(&first);
        assert_eq!(aborted(&hosts, "host1"), Some(2));
        // The last task of a lost nexus.
        earlier.counters.count(Counted::Aborted);
        drop(earlier);
        assert_eq!(aborted(&hosts, "host1"), Some(3));
        hosts.depart(&second);
        drop(later);
        assert_eq!(aborted(&hosts, "host1"), Some(3));
        let again = hosts.arrive(&nexus(3, 1));
        again.counters.count(Counted::Aborted);
        assert_eq!(aborted(&hosts, "host1"), Some(4));
    }

    #[test]
    fn absent_hosts_are_limited_and_present_hosts_are_not() {
        let mut hosts = Hosts::default();
        let staying = hosts.arrive(&nexus(0, 0));
        for id in 1..=MAXIMUM_ABSENT_HOSTS + 10 {
            let nexus = nexus(id as u64, id);
            drop(hosts.arrive(&nexus));
            hosts.depart(&nexus);
        }
        let known = hosts.statistics();
        assert_eq!(known.len(), MAXIMUM_ABSENT_HOSTS + 1);
        assert!(known.contains_key("host0") && known.contains_key("host11"));
        assert!(!known.contains_key("host10"));
        drop(staying);
    }
}
