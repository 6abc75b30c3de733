// SPDX-License-Identifier: Apache-2.0
//! Connections that have not logged in, or only for discovery: limits their number, and closes the oldest ones first.
//!
//! Anyone who reaches a portal can open connections and send nothing. The limit bounds the cost of such a flood. It locks no host
//! out: the oldest connection of the address with the most connections is closed. A host that opens a few and logs in within
//! milliseconds keeps them. Sessions have separate limits and are never closed for a new connection.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tracing::{debug, warn};

/// The connections that have not logged in.
pub(crate) struct Arrivals {
    limit: usize,
    limit_per_peer: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    /// No message is ever sent: dropping the sender is the signal.
    all: BTreeMap<u64, oneshot::Sender<Infallible>>,
    /// Numbers in ascending order; no queue is empty.
    by_peer: HashMap<IpAddr, VecDeque<u64>>,
    /// Connections were closed after the number was last below half of the limit.
    crowded: bool,
}

/// The place of one connection, free again when dropped.
pub(crate) struct Arrival {
    arrivals: Arc<Arrivals>,
    number: u64,
    peer: IpAddr,
    stays: oneshot::Receiver<Infallible>,
}

impl Arrivals {
    /// At most `limit` connections, and `limit_per_peer` of one address; each at least 1.
    pub fn new(limit: usize, limit_per_peer: usize) -> Self {
        Self {
            limit: limit.max(1),
            limit_per_peer: limit_per_peer.max(1),
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock; the maps would be consistent even then.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a connection. If a limit is reached, closes another connection.
    pub fn enter(self: &Arc<Self>, peer: IpAddr) -> Arrival {
        let mut state = self.lock();
        let of_peer = state.by_peer.get(&peer).map_or(0, VecDeque::len);
        let crowded = if of_peer >= self.limit_per_peer {
            Some(peer)
        } else if state.all.len() >= self.limit {
            state.most_crowded_peer()
        } else {
            None
        };
        if let Some(crowded) = crowded {
            state.give_way(crowded);
        }
        let number = state.next;
        state.next += 1;
        let (stays, stay) = oneshot::channel();
        state.all.insert(number, stays);
        state.by_peer.entry(peer).or_default().push_back(number);
        Arrival {
            arrivals: Arc::clone(self),
            number,
            peer,
            stays: stay,
        }
    }
}

impl State {
    fn most_crowded_peer(&self) -> Option<IpAddr> {
        self.by_peer
            .iter()
            // Of several addresses with the same number, the one whose oldest connection has waited longest.
            .max_by_key(|(_, numbers)| (numbers.len(), std::cmp::Reverse(numbers.front().copied())))
            .map(|(peer, _)| *peer)
    }

    fn give_way(&mut self, peer: IpAddr) {
        let oldest = self.by_peer.get(&peer).and_then(VecDeque::front).copied();
        let Some(oldest) = oldest else { return };
        self.remove(oldest, peer);
        debug!(%peer, "a connection that had not logged in is closed for a newer one");
        if !self.crowded {
            self.crowded = true;
            warn!(%peer, "connections arrive faster than they log in; the oldest are closed");
        }
    }

    fn remove(&mut self, number: u64, peer: IpAddr) {
        self.all.remove(&number);
        if let Some(numbers) = self.by_peer.get_mut(&peer) {
            numbers.retain(|other| *other != number);
            if numbers.is_empty() {
                self.by_peer.remove(&peer);
            }
        }
    }
}

impl Arrival {
    /// Ready when the connection must close.
    pub async fn evicted(&mut self) {
        match (&mut self.stays).await {
            Ok(never) => match never {},
            Err(_dropped) => {}
        }
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        let mut state = self.arrivals.lock();
        state.remove(self.number, self.peer);
        if state.all.len() < self.arrivals.limit / 2 {
            state.crowded = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use proptest::prelude::*;

    use super::*;

    fn peer(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    fn stay(arrivals: &mut [Arrival]) -> Vec<bool> {
        arrivals
            .iter_mut()
            .map(|arrival| arrival.evicted().now_or_never().is_none())
            .collect()
    }

    #[test]
    fn the_oldest_of_the_same_peer_gives_way_at_its_limit() {
        let arrivals = Arc::new(Arrivals::new(10, 2));
        let mut all: Vec<_> = [1, 2, 1, 1].map(|at| arrivals.enter(peer(at))).into();
        assert_eq!(stay(&mut all), [false, true, true, true]);
    }

    #[test]
    fn at_the_limit_of_all_the_most_crowded_peer_gives_way() {
        let arrivals = Arc::new(Arrivals::new(4, 3));
        let mut all: Vec<_> = [9, 1, 1, 2, 3].map(|at| arrivals.enter(peer(at))).into();
        assert_eq!(stay(&mut all), [true, false, true, true, true]);
        // Dropped connections free their places.
        all.truncate(1);
        assert_eq!(arrivals.lock().all.len(), 1);
        drop(all);
        assert!(arrivals.lock().by_peer.is_empty());
    }

    proptest! {
        #[test]
        fn a_lone_connection_outlasts_a_flood_of_fewer_addresses_than_places(
            flood in prop::collection::vec(0u8..7, 0..200),
        ) {
            let arrivals = Arc::new(Arrivals::new(16, 8));
            let mut lone = arrivals.enter(peer(200));
            let all: Vec<_> = flood.into_iter().map(|at| arrivals.enter(peer(at))).collect();
            prop_assert!(lone.evicted().now_or_never().is_none());
            let state = arrivals.lock();
            prop_assert!(state.all.len() <= 16);
            prop_assert!(state.by_peer.values().all(|numbers| numbers.len() <= 8));
            drop(state);
            drop(all);
        }
    }
}
