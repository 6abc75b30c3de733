// SPDX-License-Identifier: Apache-2.0
//! The task sets of one logical unit, one for each nexus (SAM-5 8; TST = 001b).
//!
//! With one set for all nexuses, an ORDERED or HEAD OF QUEUE task of one host would block the tasks of all others. With a WRITE
//! whose data never arrives, it could do so forever.
//!
//! A task is in the set from [`TaskSet::enter`] until its [`EnteredTask`] is finished or dropped. Tasks belong to the reactor
//! thread of their nexus; other threads abort and enable them through [`Task`].

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use tokio::sync::Notify;

use crate::lock;
use crate::sam::TaskAttribute;

/// Most tasks of one nexus in one logical unit; more get TASK SET FULL.
///
/// Their sum has no limit: one host with many nexuses, whose data never arrives, would exclude all others. The transport limits
/// the number of nexuses.
pub(crate) const MAXIMUM_TASKS: usize = 512;

/// The task was aborted, and must end as soon as possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Aborted;

/// How a task is aborted (SAM-5 5.6, TAS = 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abort {
    /// By its nexus, or because the nexus was lost: without a status.
    Silent,
    /// By another nexus: with TASK ABORTED status, so that its host does not wait for a timeout.
    WithStatus,
}

/// Not enabled yet, because of the attributes of older tasks (SAM-5 8).
const DORMANT: u8 = 0;
const ENABLED: u8 = 1;
const ABORTED: u8 = 2;
const ABORTED_WITH_STATUS: u8 = 3;
/// Can no longer be aborted: it ends with its status.
const COMMITTED: u8 = 4;

/// One task, for access by other threads.
#[derive(Debug)]
pub(crate) struct Task {
    /// Order of entry into the set.
    sequence: u64,
    nexus: u64,
    identifier: u64,
    attribute: TaskAttribute,
    /// Changed only under the lock of the set.
    state: AtomicU8,
    /// Notified at each change of the state. All futures of this task that wait get it.
    changed: Notify,
    /// It can overwrite nothing later: it does not write, or it is a third-party copy. A copy's ranges stay locked until its last
    /// step has ended, also in other units.
    fences_nothing: AtomicBool,
    ended: AtomicBool,
}

impl Task {
    pub(crate) fn is_aborted(&self) -> bool {
        self.abort().is_some()
    }

    /// From here on it can overwrite nothing later.
    pub(crate) fn fences_nothing(&self) {
        self.fences_nothing.store(true, Ordering::Release);
    }

    fn is_committed(&self) -> bool {
        self.state.load(Ordering::Acquire) == COMMITTED
    }

    fn abort(&self) -> Option<Abort> {
        match self.state.load(Ordering::Acquire) {
            ABORTED => Some(Abort::Silent),
            ABORTED_WITH_STATUS => Some(Abort::WithStatus),
            _ => None,
        }
    }

    /// Ready when the task may run.
    pub(crate) async fn enabled(&self) -> Result<(), Aborted> {
        loop {
            let changed = self.changed.notified();
            match self.state.load(Ordering::Acquire) {
                ENABLED | COMMITTED => return Ok(()),
                ABORTED | ABORTED_WITH_STATUS => return Err(Aborted),
                _ => changed.await,
            }
        }
    }

    /// The output of `future`. If the task is aborted while it is pending, `future` is dropped.
    pub(crate) async fn unless_aborted<F: Future>(&self, future: F) -> Result<F::Output, Aborted> {
        let mut future = pin!(future);
        let mut aborted = pin!(async {
            loop {
                // Before the state is read: no change in between is missed.
                let changed = self.changed.notified();
                if self.is_aborted() {
                    break;
                }
                changed.await;
            }
        });
        poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => aborted.as_mut().poll(context).map(|()| Err(Aborted)),
        })
        .await
    }

    fn change(&self, state: u8) {
        self.state.store(state, Ordering::Release);
        self.changed.notify_waiters();
    }
}

/// Membership of a task in its set, owned by the future that runs it.
pub(crate) struct EnteredTask<S: AsRef<TaskSet>> {
    set: S,
    task: Arc<Task>,
    left: bool,
}

impl<S: AsRef<TaskSet>> EnteredTask<S> {
    pub(crate) fn task(&self) -> &Task {
        &self.task
    }

    /// Removes the task from the set. Returns how it was aborted before, if it was.
    ///
    /// From here on, no task management function finds it, so a status may be reported.
    pub(crate) fn finish(mut self) -> Option<Abort> {
        self.left = true;
        self.set.as_ref().leave(&self.task)
    }
}

impl<S: AsRef<TaskSet>> Drop for EnteredTask<S> {
    fn drop(&mut self) {
        if !self.left {
            self.set.as_ref().leave(&self.task);
        }
    }
}

/// The task set of one nexus.
#[derive(Debug, Default)]
struct Members {
    tasks: BTreeMap<u64, Arc<Task>>,
    dormant: BTreeSet<u64>,
    ordered: BTreeSet<u64>,
    head_of_queue: usize,
}

impl Members {
    /// SAM-5 8: HEAD OF QUEUE at once; ORDERED after all older tasks; SIMPLE after older ORDERED tasks; both after all HEAD OF
    /// QUEUE tasks.
    fn may_run(&self, sequence: u64, attribute: TaskAttribute) -> bool {
        let oldest = |first: Option<&u64>| first.is_none_or(|&first| first >= sequence);
        match attribute {
            TaskAttribute::HeadOfQueue => true,
            TaskAttribute::Ordered => self.head_of_queue == 0 && oldest(self.tasks.keys().next()),
            TaskAttribute::Simple | TaskAttribute::AutoContingentAllegiance => {
                self.head_of_queue == 0 && oldest(self.ordered.first())
            }
        }
    }

    fn enter(&mut self, task: &Arc<Task>) {
        let Task {
            sequence,
            attribute,
            ..
        } = **task;
        self.tasks.insert(sequence, Arc::clone(task));
        match attribute {
            TaskAttribute::Ordered => {
                self.ordered.insert(sequence);
            }
            TaskAttribute::HeadOfQueue => self.head_of_queue += 1,
            TaskAttribute::Simple | TaskAttribute::AutoContingentAllegiance => {}
        }
    }

    fn leave(&mut self, task: &Task) {
        self.tasks.remove(&task.sequence);
        match task.attribute {
            TaskAttribute::Ordered => {
                self.ordered.remove(&task.sequence);
            }
            TaskAttribute::HeadOfQueue => self.head_of_queue -= 1,
            TaskAttribute::Simple | TaskAttribute::AutoContingentAllegiance => {}
        }
        if !self.dormant.is_empty() {
            self.dormant.remove(&task.sequence);
            self.enable_dormant();
        }
    }

    /// Enables tasks that no longer wait, in the order of entry.
    fn enable_dormant(&mut self) {
        while let Some(&sequence) = self.dormant.first() {
            if let Some(task) = self.tasks.get(&sequence) {
                if !self.may_run(sequence, task.attribute) {
                    return;
                }
                if !task.is_aborted() {
                    task.change(ENABLED);
                }
            }
            self.dormant.remove(&sequence);
        }
    }
}

/// Aborted tasks that have not ended, and that no function waits for: an operation of the volume cannot be cancelled.
#[derive(Debug)]
struct Fence {
    /// By [`Task::sequence`].
    tasks: BTreeSet<u64>,
    /// Fenced initiator device; `None`: all. Not the port alone: a host repeats on another path what it has aborted on one.
    host: Option<String>,
}

#[derive(Debug, Default)]
struct Sets {
    next_sequence: u64,
    by_nexus: BTreeMap<u64, Members>,
    fences: Vec<Fence>,
}

impl Sets {
    /// The set of the nexus. Its empty set remains for the next task; empty sets of others are removed when a new one is created.
    fn of_nexus(&mut self, nexus: u64) -> &mut Members {
        if !self.by_nexus.contains_key(&nexus) {
            self.by_nexus.retain(|_, members| !members.tasks.is_empty());
        }
        self.by_nexus.entry(nexus).or_default()
    }
}

/// The tasks of a logical unit.
#[derive(Debug, Default)]
pub(crate) struct TaskSet {
    sets: Mutex<Sets>,
    /// Whether fences exist. Changed under the lock of the sets; commands read it without the lock.
    fenced: AtomicBool,
    /// Notified whenever an aborted task has ended.
    aborted_task_ended: Notify,
}

impl TaskSet {
    /// Adds a task to the set of its nexus; `None` if the nexus has too many tasks there.
    pub(crate) fn enter<S: AsRef<TaskSet>>(
        set: S,
        nexus: u64,
        identifier: u64,
        attribute: TaskAttribute,
    ) -> Option<EnteredTask<S>> {
        let task = {
            let mut sets = lock(&set.as_ref().sets);
            if sets.of_nexus(nexus).tasks.len() >= MAXIMUM_TASKS {
                return None;
            }
            let sequence = sets.next_sequence;
            sets.next_sequence += 1;
            let members = sets.of_nexus(nexus);
            let runs = members.may_run(sequence, attribute);
            let task = Arc::new(Task {
                sequence,
                nexus,
                identifier,
                attribute,
                state: AtomicU8::new(if runs { ENABLED } else { DORMANT }),
                changed: Notify::new(),
                fences_nothing: AtomicBool::new(false),
                ended: AtomicBool::new(false),
            });
            members.enter(&task);
            if !runs {
                members.dormant.insert(sequence);
            }
            task
        };
        Some(EnteredTask {
            set,
            task,
            left: false,
        })
    }

    /// Aborts the tasks for which `how(nexus, identifier)` returns a value. Waiting tasks end at once, tasks in an operation of
    /// the volume after it. Wait for them with [`TaskSet::wait_until_ended`].
    pub(crate) fn abort(&self, how: impl Fn(u64, u64) -> Option<Abort>) -> AbortedTasks {
        let sets = lock(&self.sets);
        let mut aborted = Vec::new();
        let tasks = sets.by_nexus.values().flat_map(|set| set.tasks.values());
        for task in tasks {
            match (how(task.nexus, task.identifier), task.abort()) {
                (None, _) => continue,
                // Its nexus aborted it: it expects no status.
                (Some(_), Some(Abort::Silent)) => {}
                (Some(_), None) if task.is_committed() => {}
                (Some(Abort::Silent), _) => task.change(ABORTED),
                (Some(Abort::WithStatus), _) => task.change(ABORTED_WITH_STATUS),
            }
            aborted.push(Arc::clone(task));
        }
        AbortedTasks(aborted)
    }

    /// Aborts the tasks of a lost nexus. Until they have ended, the unit is fenced for its initiator device.
    pub(crate) fn lose_nexus(&self, nexus: u64, host: &str) {
        let aborted = self.abort(|of, _| (of == nexus).then_some(Abort::Silent));
        self.fence(&aborted, Some(host));
    }

    /// Fences the unit for an initiator device, or for all, until all of `tasks` have ended.
    pub(crate) fn fence(&self, tasks: &AbortedTasks, host: Option<&str>) {
        let mut sets = lock(&self.sets);
        let is_pending = |task: &&Arc<Task>| {
            let members = sets.by_nexus.get(&task.nexus);
            !task.fences_nothing.load(Ordering::Acquire)
                && members.is_some_and(|members| members.tasks.contains_key(&task.sequence))
        };
        let pending = tasks.0.iter().filter(is_pending);
        let tasks: BTreeSet<u64> = pending.map(|task| task.sequence).collect();
        if !tasks.is_empty() {
            sets.fences.push(Fence {
                tasks,
                host: host.map(str::to_owned),
            });
            self.fenced.store(true, Ordering::Release);
        }
    }

    /// Whether aborted tasks that the initiator device considers ended still run here. New commands must wait for them: a late
    /// write of theirs would overwrite newer data.
    pub(crate) fn is_fenced(&self, host: &str) -> bool {
        let is_for = |fence: &Fence| {
            let fenced = fence.host.as_deref();
            fenced.is_none_or(|fenced| fenced == host)
        };
        self.fenced.load(Ordering::Acquire) && lock(&self.sets).fences.iter().any(is_for)
    }

    /// Ready when all of `tasks`, aborted in this set, have ended.
    pub(crate) async fn wait_until_ended(&self, tasks: &AbortedTasks) {
        loop {
            let mut ended = pin!(self.aborted_task_ended.notified());
            ended.as_mut().enable();
            if tasks
                .0
                .iter()
                .all(|task| task.ended.load(Ordering::Acquire))
            {
                return;
            }
            ended.await;
        }
    }

    /// From here on the task cannot be aborted; an abort waits for its end. Call it before a change that cannot be undone.
    ///
    /// # Errors
    /// [`Aborted`] if it was aborted before.
    pub(crate) fn commit(&self, task: &Task) -> Result<(), Aborted> {
        let _sets = lock(&self.sets);
        if task.is_aborted() {
            return Err(Aborted);
        }
        task.state.store(COMMITTED, Ordering::Release);
        Ok(())
    }

    /// Removes the task, enables tasks that waited for it, and returns how it was aborted, if it was. Called once for each task.
    fn leave(&self, task: &Task) -> Option<Abort> {
        let mut sets = lock(&self.sets);
        if let Some(members) = sets.by_nexus.get_mut(&task.nexus) {
            members.leave(task);
        }
        if !sets.fences.is_empty() {
            sets.fences.retain_mut(|fence| {
                fence.tasks.remove(&task.sequence);
                !fence.tasks.is_empty()
            });
            self.fenced
                .store(!sets.fences.is_empty(), Ordering::Release);
        }
        let aborted = task.abort();
        drop(sets);
        task.ended.store(true, Ordering::Release);
        if aborted.is_some() || task.is_committed() {
            self.aborted_task_ended.notify_waiters();
        }
        aborted
    }
}

/// Tasks that were aborted and may not have ended yet.
#[derive(Debug)]
pub(crate) struct AbortedTasks(Vec<Arc<Task>>);

impl AbortedTasks {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Wake, Waker};

    use super::*;

    fn enter(set: &Arc<TaskSet>, nexus: u64) -> EnteredTask<Arc<TaskSet>> {
        TaskSet::enter(Arc::clone(set), nexus, 1, TaskAttribute::Simple).unwrap()
    }

    impl AsRef<TaskSet> for TaskSet {
        fn as_ref(&self) -> &TaskSet {
            self
        }
    }

    #[derive(Default)]
    struct Flag(AtomicBool);

    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn an_abort_wakes_every_future_of_the_task() {
        let set = Arc::new(TaskSet::default());
        let entered = enter(&set, 0);
        let mut waiting: Vec<_> = (0..3)
            .map(|_| {
                let never = entered.task().unless_aborted(std::future::pending::<()>());
                (Box::pin(never), Arc::new(Flag::default()))
            })
            .collect();
        let mut poll = || -> Vec<_> {
            waiting
                .iter_mut()
                .map(|(future, flag)| {
                    let waker = Waker::from(Arc::clone(flag));
                    let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
                    (polled, flag.0.load(Ordering::Relaxed))
                })
                .collect()
        };
        assert_eq!(poll(), [(Poll::Pending, false); 3]);
        set.abort(|_, _| Some(Abort::Silent));
        assert_eq!(poll(), [(Poll::Ready(Err(Aborted)), true); 3]);
    }

    #[test]
    fn sets_of_lost_nexuses_are_removed() {
        let set = Arc::new(TaskSet::default());
        let staying = enter(&set, 0);
        for nexus in 1..100 {
            assert_eq!(enter(&set, nexus).finish(), None);
        }
        assert_eq!(lock(&set.sets).by_nexus.len(), 2);
        drop(staying);
    }
}
