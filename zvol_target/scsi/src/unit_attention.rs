// SPDX-License-Identifier: Apache-2.0
//! Unit attention conditions of one logical unit, per nexus (SAM-5 5.14).

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::additional_sense::AdditionalSense;
use crate::lock;

/// Limit of pending conditions of one nexus: more than this crate has different ones.
const MAXIMUM_PENDING: usize = 16;

/// Code of the conditions that a reset establishes. The lower the qualifier, the higher the precedence (SAM-5 5.14).
const RESET_OCCURRED: u8 = 0x29;

/// Queues of pending conditions, one for each added nexus.
#[derive(Debug, Default)]
pub(crate) struct UnitAttentions {
    /// Conditions in all queues: if there are none, commands need not take the lock.
    pending: AtomicUsize,
    queues: Mutex<HashMap<u64, VecDeque<AdditionalSense>>>,
}

impl UnitAttentions {
    /// Adds a queue for the nexus, with `conditions` first.
    pub(crate) fn add_nexus(&self, nexus: u64, conditions: &[AdditionalSense]) {
        let mut queues = lock(&self.queues);
        let queue = queues.entry(nexus).or_default();
        for &condition in conditions {
            self.enqueue(queue, condition);
        }
    }

    /// Conditions pending for each nexus.
    pub(crate) fn pending(&self) -> Vec<(u64, Vec<AdditionalSense>)> {
        lock(&self.queues)
            .iter()
            .map(|(&nexus, queue)| (nexus, queue.iter().copied().collect()))
            .collect()
    }

    /// Removes the queue of the nexus.
    pub(crate) fn remove_nexus(&self, nexus: u64) {
        if let Some(queue) = lock(&self.queues).remove(&nexus) {
            self.pending.fetch_sub(queue.len(), Ordering::Relaxed);
        }
    }

    /// Establishes the condition for every nexus except `except`.
    pub(crate) fn establish(&self, condition: AdditionalSense, except: Option<u64>) {
        for (&nexus, queue) in lock(&self.queues).iter_mut() {
            if Some(nexus) != except {
                self.enqueue(queue, condition);
            }
        }
    }

    /// Establishes the condition for one nexus.
    pub(crate) fn establish_for(&self, nexus: u64, condition: AdditionalSense) {
        if let Some(queue) = lock(&self.queues).get_mut(&nexus) {
            self.enqueue(queue, condition);
        }
    }

    /// Takes the next condition of the nexus.
    pub(crate) fn take(&self, nexus: u64) -> Option<AdditionalSense> {
        if self.pending.load(Ordering::Acquire) == 0 {
            return None;
        }
        let condition = lock(&self.queues).get_mut(&nexus)?.pop_front()?;
        self.pending.fetch_sub(1, Ordering::Relaxed);
        Some(condition)
    }

    /// Takes the next condition of the nexus, if it is a reset.
    pub(crate) fn take_reset(&self, nexus: u64) -> Option<AdditionalSense> {
        if self.pending.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut queues = lock(&self.queues);
        let queue = queues.get_mut(&nexus)?;
        // A reset is always first.
        let is_reset = |condition: &&AdditionalSense| condition.code == RESET_OCCURRED;
        queue.front().filter(is_reset)?;
        let condition = queue.pop_front()?;
        self.pending.fetch_sub(1, Ordering::Relaxed);
        Some(condition)
    }

    /// Clears one condition of the nexus, if it is pending.
    pub(crate) fn clear(&self, nexus: u64, condition: AdditionalSense) {
        if self.pending.load(Ordering::Acquire) == 0 {
            return;
        }
        if let Some(queue) = lock(&self.queues).get_mut(&nexus) {
            self.remove(queue, |pending| pending == condition);
        }
    }

    fn enqueue(&self, queue: &mut VecDeque<AdditionalSense>, condition: AdditionalSense) {
        if condition.code == RESET_OCCURRED {
            if queue
                .iter()
                .any(|pending| pending.code == RESET_OCCURRED && *pending <= condition)
            {
                return;
            }
            self.remove(queue, |pending| pending.code == RESET_OCCURRED);
            queue.push_front(condition);
        } else if queue.len() < MAXIMUM_PENDING && !queue.contains(&condition) {
            queue.push_back(condition);
        } else {
            return;
        }
        self.pending.fetch_add(1, Ordering::Release);
    }

    fn remove(
        &self,
        queue: &mut VecDeque<AdditionalSense>,
        which: impl Fn(AdditionalSense) -> bool,
    ) {
        let before = queue.len();
        queue.retain(|&pending| !which(pending));
        self.pending
            .fetch_sub(before - queue.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POWER_ON: AdditionalSense = AdditionalSense::POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED;
    const RESET: AdditionalSense = AdditionalSense::BUS_DEVICE_RESET_FUNCTION_OCCURRED;
    const CAPACITY: AdditionalSense = AdditionalSense::CAPACITY_DATA_HAS_CHANGED;
    const LUNS: AdditionalSense = AdditionalSense::REPORTED_LUNS_DATA_HAS_CHANGED;

    fn drain(attentions: &UnitAttentions, nexus: u64) -> Vec<AdditionalSense> {
        std::iter::from_fn(|| attentions.take(nexus)).collect()
    }

    #[test]
    fn each_nexus_has_its_own_queue() {
        let attentions = UnitAttentions::default();
        attentions.add_nexus(1, &[POWER_ON]);
        attentions.add_nexus(2, &[]);
        attentions.establish(CAPACITY, Some(2));
        attentions.establish_for(2, LUNS);
        attentions.establish_for(3, LUNS);
        assert_eq!(drain(&attentions, 1), [POWER_ON, CAPACITY]);
        assert_eq!(drain(&attentions, 2), [LUNS]);
        assert_eq!(drain(&attentions, 3), []);
        assert_eq!(attentions.pending.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_condition_is_pending_once() {
        let attentions = UnitAttentions::default();
        attentions.add_nexus(1, &[]);
        for _ in 0..100 {
            attentions.establish(CAPACITY, None);
            attentions.establish(LUNS, None);
        }
        assert_eq!(drain(&attentions, 1), [CAPACITY, LUNS]);
    }

    #[test]
    fn a_reset_comes_first_and_the_highest_of_them_stays() {
        let attentions = UnitAttentions::default();
        attentions.add_nexus(1, &[]);
        attentions.establish(CAPACITY, None);
        attentions.establish(RESET, None);
        attentions.establish(POWER_ON, None);
        attentions.establish(RESET, None);
        assert_eq!(attentions.take_reset(1), Some(POWER_ON));
        assert_eq!(attentions.take_reset(1), None);
        assert_eq!(drain(&attentions, 1), [CAPACITY]);
        assert_eq!(attentions.pending.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn clearing_and_removing_keep_the_count() {
        let attentions = UnitAttentions::default();
        attentions.add_nexus(1, &[POWER_ON, LUNS]);
        attentions.add_nexus(2, &[POWER_ON]);
        attentions.clear(1, LUNS);
        attentions.clear(1, CAPACITY);
        attentions.remove_nexus(2);
        assert_eq!(attentions.pending.load(Ordering::Relaxed), 1);
        assert_eq!(drain(&attentions, 1), [POWER_ON]);
    }
}
