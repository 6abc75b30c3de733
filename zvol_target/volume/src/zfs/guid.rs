// SPDX-License-Identifier: Apache-2.0
//! GUIDs of datasets. Requests are batched: the start of a target with a thousand volumes runs `zfs` a few times for each pool.

use std::collections::BTreeMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::pool_of;
use super::program::{ProgramError, refused, run};

/// Most names per run. Even with the longest names, this is far below the limit of execve(2).
const MOST_NAMES: usize = 1000;

/// Why the GUID of a dataset is not known.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuidError {
    /// `zfs` failed.
    #[error(transparent)]
    Program(Arc<ProgramError>),
    /// The dataset does not exist.
    #[error("there is no dataset {0}")]
    Absent(String),
    /// The thread that ran a batch of requests panicked.
    #[error("no answer for the GUID of {0}: the request panicked")]
    NoAnswer(String),
}

type Answer = Result<u64, GuidError>;

/// Runs `zfs` for some datasets of one pool: one line with name and GUID for each dataset that exists.
type List = fn(&[&str]) -> Result<String, ProgramError>;

struct Question {
    dataset: String,
    sender: Sender<Answer>,
}

/// Waiting requests by pool; an earlier batch of the pool is running. Pools do not wait for each other.
static REQUESTS: Mutex<BTreeMap<String, Vec<Question>>> = Mutex::new(BTreeMap::new());

fn requests() -> MutexGuard<'static, BTreeMap<String, Vec<Question>>> {
    REQUESTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `guid` (zfsprops(7)) of a dataset. Each copy has a different one; a renamed dataset has the same.
///
/// # Errors
/// [`GuidError`].
pub fn guid(dataset: &str) -> Result<u64, GuidError> {
    guid_by(dataset, list)
}

fn guid_by(dataset: &str, list: List) -> Answer {
    let pool = pool_of(dataset);
    let (sender, receiver) = channel();
    let question = Question {
        dataset: dataset.to_owned(),
        sender,
    };
    let leads = {
        let mut requests = requests();
        let leads = !requests.contains_key(pool);
        requests.entry(pool.to_owned()).or_default().push(question);
        leads
    };
    if leads {
        ask(pool, list);
    }
    receiver
        .recv()
        .unwrap_or_else(|_| Err(GuidError::NoAnswer(dataset.to_owned())))
}

/// The right to run `zfs` for a pool. After a panic, waiting requests fail, and the next request starts a new batch.
struct Turn<'a> {
    pool: &'a str,
    over: bool,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.over {
            requests().remove(self.pool);
        }
    }
}

/// Answers all requests for a pool, until none waits.
fn ask(pool: &str, list: List) {
    let mut turn = Turn { pool, over: false };
    loop {
        let questions = {
            let mut requests = requests();
            let Some(waiting) = requests.get_mut(pool) else {
                return;
            };
            if waiting.is_empty() {
                requests.remove(pool);
                turn.over = true; // under the lock: from here on another thread's turn can begin
                return;
            }
            waiting.split_off(waiting.len().saturating_sub(MOST_NAMES))
        };
        let names: Vec<_> = questions
            .iter()
            .map(|question| question.dataset.as_str())
            .collect();
        let listed = list(&names).map_err(Arc::new);
        for Question { dataset, sender } in &questions {
            let answer = match &listed {
                Ok(lines) => guid_of(lines, dataset),
                Err(error) => Err(GuidError::Program(Arc::clone(error))),
            };
            // The requester may be gone.
            let _ = sender.send(answer);
        }
    }
}

fn guid_of(lines: &str, dataset: &str) -> Answer {
    let mut lines = lines.lines().filter_map(|line| line.split_once('\t'));
    let guid = lines
        .find(|(name, _)| *name == dataset)
        .and_then(|(_, guid)| guid.parse().ok());
    guid.ok_or_else(|| GuidError::Absent(dataset.to_owned()))
}

fn list(names: &[&str]) -> Result<String, ProgramError> {
    let mut arguments = vec!["list", "-Hp", "-o", "name,guid"];
    arguments.extend(names);
    let (status, output, message) = run("zfs", &arguments)?;
    if output.is_empty() && !status.success() && !message.contains("does not exist") {
        return Err(refused("zfs", "list", message));
    }
    Ok(output)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn a_guid_belongs_to_the_exact_name() {
        let lines = "tank/a\t18446744073709551615\ntank/ab\t7\n";
        assert_eq!(guid_of(lines, "tank/a").unwrap(), u64::MAX);
        assert_eq!(guid_of(lines, "tank/ab").unwrap(), 7);
        assert!(matches!(guid_of(lines, "tank"), Err(GuidError::Absent(_))));
        assert!(matches!(
            guid_of("tank/a\t-\n", "tank/a"),
            Err(GuidError::Absent(_))
        ));
    }

    #[test]
    fn requests_are_batched_and_each_gets_its_own_answer() {
        const MANY: usize = 64;
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        static ALL_WAIT: Barrier = Barrier::new(2);
        let list: List = |names| {
            if RUNS.fetch_add(1, Ordering::SeqCst) == 0 {
                ALL_WAIT.wait();
            }
            let line = |name: &&str| format!("{name}\t1{}\n", name.trim_start_matches("many/"));
            Ok(names.iter().map(line).collect())
        };
        let ask = |number| thread::spawn(move || guid_by(&format!("many/{number}"), list));
        let mut askers = vec![ask(0)];
        while RUNS.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        askers.extend((1..MANY).map(ask));
        while requests()
            .get("many")
            .is_none_or(|all| all.len() < MANY - 1)
        {
            thread::yield_now();
        }
        // A request for another pool does not wait.
        let other = guid_by("other/1", |_| Ok("other/1\t5\n".to_owned()));
        assert_eq!(other.unwrap(), 5);
        ALL_WAIT.wait();
        for (number, asker) in askers.into_iter().enumerate() {
            let answer = asker.join().unwrap().unwrap();
            assert_eq!(answer, format!("1{number}").parse::<u64>().unwrap());
        }
        assert_eq!(RUNS.load(Ordering::SeqCst), 2);
        assert!(!requests().contains_key("many"));
    }

    #[test]
    fn requests_work_after_a_panic() {
        static WAITS: Barrier = Barrier::new(2);
        let panics: List = |_| {
            WAITS.wait();
            panic!("cannot start a thread");
        };
        let leads = thread::spawn(move || guid_by("panic/a", panics));
        let waiting = || requests().get("panic").map(Vec::len);
        while waiting() != Some(0) {
            thread::yield_now();
        }
        let waits = thread::spawn(move || guid_by("panic/b", panics));
        while waiting() != Some(1) {
            thread::yield_now();
        }
        WAITS.wait();
        assert!(leads.join().is_err());
        let answer = waits.join().unwrap();
        assert!(matches!(answer, Err(GuidError::NoAnswer(_))), "{answer:?}");
        let again = guid_by("panic/b", |_| Ok("panic/b\t6\n".to_owned()));
        assert_eq!(again.unwrap(), 6);
    }

    #[test]
    fn missing_output_is_not_a_guid() {
        let hangs: List = |_| Err(refused("zfs", "list", "no answer"));
        let answer = guid_by("silent/a", hangs);
        assert!(matches!(answer, Err(GuidError::Program(_))), "{answer:?}");
    }
}
