//! What the programs `zfs` and `zpool` tell of a dataset's space, and do for it.
//!
//! As child processes: libzfs has no stable interface. Each is given up after a time, as a suspended pool answers nobody. All of
//! this blocks its thread but [`TransactionGroups`].

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::ioctl;

/// How long a program may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Most that is read of what it says, bytes.
const MOST_OUTPUT: usize = 4 << 20;

/// Between two looks at whether a program that has said all has ended.
const ENDING_POLL: Duration = Duration::from_millis(2);

/// What is waited instead where a transaction group can't be asked for: one ends by itself every 5 s (`zfs_txg_timeout`).
const WITHOUT_SYNC: Duration = Duration::from_secs(1);

/// Why a program did not do what it was to.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It could not be run, or not be read.
    #[error("{program}: {error}")]
    NotRun {
        /// Its name.
        program: &'static str,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// It did not end in time, and was killed.
    #[error("{program} {what} has not ended for {} s; is the pool suspended?", PATIENCE.as_secs())]
    Slow {
        /// Its name.
        program: &'static str,
        /// Its first argument.
        what: String,
    },
    /// It refused; in its own words.
    #[error("{program} {what}: {words}")]
    Refused {
        /// Its name.
        program: &'static str,
        /// Its first argument.
        what: String,
        /// What it said.
        words: String,
    },
}

/// Space of a dataset, bytes, each by the property of its name (zfsprops(7)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dataset {
    /// Name, with the pool's.
    pub name: String,
    /// `used`: all that is charged to it, `refreservation` included.
    pub used: u64,
    /// `available`: what it can take more, what is reserved for it included.
    pub available: u64,
    /// `usedbydataset`.
    pub used_by_dataset: u64,
    /// `usedbysnapshots`.
    pub used_by_snapshots: u64,
    /// `usedbyrefreservation`.
    pub used_by_refreservation: u64,
    /// `reservation`; 0: none.
    pub reservation: u64,
    /// `refreservation`; 0: none.
    pub refreservation: u64,
}

impl Dataset {
    /// What is reserved for it and not taken.
    pub fn reserved_bytes(&self) -> u64 {
        let by_reservation = self.reservation.saturating_sub(self.used);
        self.used_by_refreservation + by_reservation
    }

    /// What it can take before it lives on what is reserved for it: what others can take too, quotas apart.
    pub fn unreserved_bytes(&self) -> u64 {
        self.available.saturating_sub(self.reserved_bytes())
    }
}

/// Space of a pool, bytes, each by the property of its name (zpoolprops(7)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// `size`, parity included.
    pub size: u64,
    /// `free`, parity included.
    pub free: u64,
    /// `bclonesaved`: what sharing blocks saves; as much would be needed if all were overwritten.
    pub clone_saved: u64,
}

/// The dataset that a zvol is, by its present name (`BLKZNAME`).
///
/// # Errors
/// ENOTTY: it is no zvol.
pub fn dataset_of(zvol: &File) -> io::Result<String> {
    ioctl::zvol_name(zvol)
}

/// The pool that a dataset is in.
pub fn pool_of(dataset: &str) -> &str {
    dataset.split(['/', '@']).next().unwrap_or(dataset)
}

const DATASET_PROPERTIES: &str = "name,used,available,usedbydataset,usedbysnapshots,usedbyrefreservation,reservation,refreservation";

/// Space of datasets. One that is not there is not in the answer.
///
/// # Errors
/// [`ProgramError`] when none is.
pub fn datasets(names: &[String]) -> Result<Vec<Dataset>, ProgramError> {
    let mut arguments = vec!["list", "-Hp", "-o", DATASET_PROPERTIES];
    arguments.extend(names.iter().map(String::as_str));
    let (status, output, words) = run("zfs", &arguments)?;
    let found: Vec<_> = output.lines().filter_map(parse_dataset).collect();
    if found.is_empty() && !status.success() {
        return Err(refused("zfs", "list", words));
    }
    Ok(found)
}

fn parse_dataset(line: &str) -> Option<Dataset> {
    let mut words = line.split('\t');
    let name = words.next()?.to_owned();
    let mut next = || match words.next()? {
        "-" | "none" => Some(0),
        number => number.parse().ok(),
    };
    Some(Dataset {
        name,
        used: next()?,
        available: next()?,
        used_by_dataset: next()?,
        used_by_snapshots: next()?,
        used_by_refreservation: next()?,
        reservation: next()?,
        refreservation: next()?,
    })
}

/// Space of a pool.
///
/// # Errors
/// [`ProgramError`].
pub fn pool(name: &str) -> Result<Pool, ProgramError> {
    let output = told(
        "zpool",
        &["list", "-Hp", "-o", "size,free,bclonesaved", name],
    )?;
    let mut words = output.split_whitespace().map(|word| word.parse().ok());
    let mut next = || words.next().flatten();
    // Without the feature block_cloning there is nothing to be saved.
    match (next(), next()) {
        (Some(size), Some(free)) => Ok(Pool {
            size,
            free,
            clone_saved: next().unwrap_or(0),
        }),
        _ => Err(refused("zpool", "list", format!("said {output:?}"))),
    }
}

/// Ends the present transaction group of a pool, and waits for that.
///
/// # Errors
/// [`ProgramError`].
pub fn sync(pool: &str) -> Result<(), ProgramError> {
    told("zpool", &["sync", pool]).map(drop)
}

/// What a zvol needs to be written full, as `zfs create` would reserve it: its metadata, and what raidz adds.
///
/// # Errors
/// [`ProgramError`].
pub fn thick_bytes(dataset: &str, size: u64) -> Result<u64, ProgramError> {
    let told_properties = told(
        "zfs",
        &[
            "get",
            "-Hpo",
            "property,value",
            "volblocksize,copies",
            dataset,
        ],
    )?;
    let mut options = Vec::new();
    for line in told_properties.lines() {
        if let Some((name, value)) = line.split_once('\t') {
            options.extend(["-o".to_owned(), format!("{name}={value}")]);
        }
    }
    let size = size.to_string();
    // Nothing is made (-n); the name is one that nobody has.
    let name = format!("{}/zvaai-{}", pool_of(dataset), std::process::id());
    let mut arguments = vec!["create", "-nP", "-V", &size];
    arguments.extend(options.iter().map(String::as_str));
    arguments.push(&name);
    let output = told("zfs", &arguments)?;
    let reserved = output.lines().find_map(|line| {
        let value = line.strip_prefix("property\trefreservation\t")?;
        value.parse().ok()
    });
    reserved.ok_or_else(|| refused("zfs", "create -n", format!("said {output:?}")))
}

/// Sets a property that is a number of bytes; 0: none.
///
/// # Errors
/// [`ProgramError::Refused`] without the space or the permission, among others.
pub fn set(dataset: &str, property: &str, bytes: u64) -> Result<(), ProgramError> {
    let value = if bytes == 0 {
        format!("{property}=none")
    } else {
        format!("{property}={bytes}")
    };
    told("zfs", &["set", &value, dataset]).map(drop)
}

fn refused(program: &'static str, what: &str, words: impl Into<String>) -> ProgramError {
    ProgramError::Refused {
        program,
        what: what.to_owned(),
        words: words.into().trim().to_owned(),
    }
}

/// Runs a program; what it prints, if it succeeds.
fn told(program: &'static str, arguments: &[&str]) -> Result<String, ProgramError> {
    let (status, output, words) = run(program, arguments)?;
    if status.success() {
        return Ok(output);
    }
    Err(refused(
        program,
        arguments.first().unwrap_or(&""),
        format!("{words} ({status})"),
    ))
}

/// Runs a program to its end: its status, what it prints, and what it says of errors.
fn run(
    program: &'static str,
    arguments: &[&str],
) -> Result<(ExitStatus, String, String), ProgramError> {
    let failed = |error| ProgramError::NotRun { program, error };
    let mut child = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let until = Instant::now() + PATIENCE;
    let ended = read_all(&mut child, until).and_then(|texts| {
        let status = wait(&mut child, until)?;
        Ok(status.map(|status| (status, texts)))
    });
    match ended {
        Ok(Some((status, [output, words]))) => Ok((status, output, words)),
        Ok(None) => {
            end(child);
            let what = arguments.first().copied().unwrap_or_default().to_owned();
            Err(ProgramError::Slow { program, what })
        }
        Err(error) => {
            end(child);
            Err(failed(error))
        }
    }
}

/// Kills a program. One that hangs in the kernel ends when that lets it: another thread waits for it.
fn end(mut child: Child) {
    let _ = child.kill();
    thread::spawn(move || child.wait());
}

/// Reads what a program prints to its standard output and error, until both end or the time is over.
fn read_all(child: &mut Child, until: Instant) -> io::Result<[String; 2]> {
    let mut texts = [Vec::new(), Vec::new()];
    let (Some(mut output), Some(mut words)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(io::Error::other("no pipes"));
    };
    let mut open = [true, true];
    while open.contains(&true) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        let flags = |open| {
            if open {
                PollFlags::IN
            } else {
                PollFlags::empty()
            }
        };
        let mut ready = [false, false];
        {
            let mut polled = [
                PollFd::new(&output, flags(open[0])),
                PollFd::new(&words, flags(open[1])),
            ];
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            rustix::io::retry_on_intr(|| poll(&mut polled, Some(&left)))?;
            for (ready, polled) in ready.iter_mut().zip(&polled) {
                *ready = !polled.revents().is_empty();
            }
        }
        let mut some = [0; 4096];
        for at in [0, 1] {
            if open[at] && ready[at] {
                let read = if at == 0 {
                    output.read(&mut some)?
                } else {
                    words.read(&mut some)?
                };
                open[at] = read > 0;
                if texts[at].len() + read > MOST_OUTPUT {
                    return Err(io::Error::other("it says too much"));
                }
                texts[at].extend_from_slice(&some[..read]);
            }
        }
    }
    Ok(texts.map(|text| String::from_utf8_lossy(&text).into_owned()))
}

fn wait(child: &mut Child, until: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            return Ok(None);
        }
        thread::sleep(ENDING_POLL);
    }
}

/// Ends of transaction groups of a pool, for writes that wait for one.
#[derive(Debug)]
pub(crate) struct TransactionGroups {
    pool: String,
    /// How many were asked for.
    asked: AtomicU64,
    asking: tokio::sync::Mutex<()>,
    turn: tokio::sync::Mutex<()>,
}

static POOLS: Mutex<BTreeMap<String, Arc<TransactionGroups>>> = Mutex::new(BTreeMap::new());

impl TransactionGroups {
    /// Those of a pool.
    pub(crate) fn of(pool: &str) -> Arc<Self> {
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        let known = pools.entry(pool.to_owned()).or_insert_with(|| {
            Arc::new(Self {
                pool: pool.to_owned(),
                asked: AtomicU64::new(0),
                asking: tokio::sync::Mutex::default(),
                turn: tokio::sync::Mutex::default(),
            })
        });
        Arc::clone(known)
    }

    /// For those that go one after the other.
    pub(crate) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Waits until a transaction group has ended that began to end after this call. All that wait share one.
    pub(crate) async fn next(&self) {
        let before = self.asked.load(Ordering::Acquire);
        let _asking = self.asking.lock().await;
        if self.asked.load(Ordering::Acquire) > before {
            // Asked for after this one came, and over: else the lock would be taken.
            return;
        }
        self.asked.fetch_add(1, Ordering::AcqRel);
        let pool = self.pool.clone();
        let synced = tokio::task::spawn_blocking(move || sync(&pool)).await;
        match synced {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(pool = self.pool, %error, "a transaction group is waited for in vain");
                tokio::time::sleep(WITHOUT_SYNC).await;
            }
            Err(_) => tokio::time::sleep(WITHOUT_SYNC).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_as_zfs_prints_them() {
        let line = "tank/a\t872415232\t41943040\t268435456\t0\t41943040\t0\t310378496";
        let dataset = parse_dataset(line).unwrap();
        assert_eq!(dataset.name, "tank/a");
        assert_eq!(dataset.reserved_bytes(), 40 << 20);
        assert_eq!(dataset.unreserved_bytes(), 0);
        let line = "tank/b\t100\t80\t100\t0\t0\t150\t-";
        let dataset = parse_dataset(line).unwrap();
        assert_eq!(
            (dataset.reserved_bytes(), dataset.unreserved_bytes()),
            (50, 30)
        );
        assert_eq!(parse_dataset("tank\t1\t2"), None);
    }

    #[test]
    fn a_program_is_heard_to_its_end() {
        let (status, output, words) =
            run("sh", &["-c", "seq 1 20000; echo no >&2; exit 3"]).unwrap();
        assert_eq!(status.code(), Some(3));
        assert!(output.ends_with("19999\n20000\n"));
        assert_eq!(words, "no\n");
        let absent = run("no such program", &[]);
        assert!(matches!(absent, Err(ProgramError::NotRun { .. })));
    }

    #[test]
    fn the_pool_is_what_a_name_begins_with() {
        for name in ["tank", "tank/a", "tank/a/b", "tank@s"] {
            assert_eq!(pool_of(name), "tank");
        }
    }
}
