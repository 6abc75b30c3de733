// SPDX-License-Identifier: Apache-2.0
//! Runs `zfs` and `zpool` with a time limit. For a pool that hangs, it runs few at a time.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::pool_of;

/// Time limit of a program.
const PATIENCE: Duration = Duration::from_secs(20);

/// Upper limit of a program's output, bytes.
const MOST_OUTPUT: usize = 4 << 20;

/// Interval of the checks whether a program that has closed its output has ended.
const ENDING_POLL: Duration = Duration::from_millis(2);

/// After a program of a pool was given up and still hangs, run none for that pool for this long. Doubled with each hanging
/// program.
const HANGING_PAUSE: Duration = Duration::from_secs(20);

/// Most programs of a pool that may hang.
const MOST_HANGING: u32 = 5;

/// Why a program failed.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It could not be started, or its output not be read.
    #[error("{program}: {error}")]
    NotRun {
        /// Name of the program.
        program: &'static str,
        #[source]
        /// Error of the system.
        error: io::Error,
    },
    /// It exceeded its time limit and was killed.
    #[error("{program} {what} has not ended for {} s; is the pool suspended?", PATIENCE.as_secs())]
    Slow {
        /// Name of the program.
        program: &'static str,
        /// Its first argument.
        what: String,
    },
    /// It was not started: too many programs hang for the same pool, or one began to hang a moment ago.
    #[error("{program}: {hanging} programs for the pool {pool} hang; is it suspended?")]
    Hanging {
        /// Name of the program.
        program: &'static str,
        /// The pool.
        pool: String,
        /// How many programs hang.
        hanging: u32,
    },
    /// It failed; with the program's error text.
    #[error("{program} {what}: {message}")]
    Refused {
        /// Name of the program.
        program: &'static str,
        /// Its first argument.
        what: String,
        /// Its error text.
        message: String,
    },
}

/// Error text of `zfs set` for a reservation without enough space.
const NO_SPACE: &str = "greater than available space";

/// Error text of `zfs set` for a dataset that does not exist.
const ABSENT: &str = "does not exist";

impl ProgramError {
    /// Whether the space for a reservation was missing.
    pub fn is_no_space(&self) -> bool {
        matches!(self, Self::Refused { message, .. } if message.contains(NO_SPACE))
    }

    /// Whether the dataset does not exist.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Refused { message, .. } if message.contains(ABSENT))
    }
}

/// Programs that were given up and have not ended, by pool.
static HANGING: Mutex<BTreeMap<String, Hanging>> = Mutex::new(BTreeMap::new());

struct Hanging {
    programs: u32,
    started_at: Instant,
}

impl Hanging {
    fn keeps_others_off(&self, now: Instant) -> bool {
        let pause = HANGING_PAUSE * 2_u32.pow(self.programs.saturating_sub(1).min(8));
        self.programs >= MOST_HANGING || now.saturating_duration_since(self.started_at) < pause
    }
}

fn hanging() -> MutexGuard<'static, BTreeMap<String, Hanging>> {
    HANGING.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn refused(
    program: &'static str,
    what: &str,
    message: impl Into<String>,
) -> ProgramError {
    ProgramError::Refused {
        program,
        what: what.to_owned(),
        message: message.into().trim().to_owned(),
    }
}

/// Runs a program. Returns its output if it succeeds.
pub(super) fn output_of(program: &'static str, arguments: &[&str]) -> Result<String, ProgramError> {
    let (status, output, message) = run(program, arguments)?;
    if status.success() {
        return Ok(output);
    }
    Err(refused(
        program,
        arguments.first().unwrap_or(&""),
        format!("{message} ({status})"),
    ))
}

/// Runs a program to its end. Returns its status, its output and its error text.
pub(super) fn run(
    program: &'static str,
    arguments: &[&str],
) -> Result<(ExitStatus, String, String), ProgramError> {
    // Each concerns one pool or its datasets; the last argument names it.
    let pool = pool_of(arguments.last().unwrap_or(&""));
    if let Some(known) = hanging().get(pool) {
        if known.keeps_others_off(Instant::now()) {
            return Err(ProgramError::Hanging {
                program,
                pool: pool.to_owned(),
                hanging: known.programs,
            });
        }
    }
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
        Ok(Some((status, [output, message]))) => Ok((status, output, message)),
        Ok(None) => {
            end(child, pool);
            let what = arguments.first().copied().unwrap_or_default().to_owned();
            Err(ProgramError::Slow { program, what })
        }
        Err(error) => {
            end(child, pool);
            Err(failed(error))
        }
    }
}

/// Kills a program. If it hangs in the kernel, another thread waits for its end.
fn end(mut child: Child, pool: &str) {
    let _ = child.kill();
    let pool = pool.to_owned();
    {
        let mut hanging = hanging();
        let known = hanging.entry(pool.clone()).or_insert(Hanging {
            programs: 0,
            started_at: Instant::now(),
        });
        known.programs += 1;
        known.started_at = Instant::now();
    }
    let ended = pool.clone();
    let waits = thread::Builder::new().spawn(move || {
        let _ = child.wait();
        forget(&ended);
    });
    if waits.is_err() {
        // Without a thread, its end would go unnoticed: it does not count.
        forget(&pool);
    }
}

/// Decreases the number of hanging programs.
fn forget(pool: &str) {
    let mut hanging = hanging();
    if let Some(known) = hanging.get_mut(pool) {
        known.programs -= 1;
        if known.programs == 0 {
            hanging.remove(pool);
        }
    }
}

/// Reads a program's standard output and error, until both are closed or the time limit passes.
fn read_all(child: &mut Child, until: Instant) -> io::Result<[String; 2]> {
    let mut texts = [Vec::new(), Vec::new()];
    let (Some(mut output), Some(mut message)) = (child.stdout.take(), child.stderr.take()) else {
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
                PollFd::new(&message, flags(open[1])),
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
                    message.read(&mut some)?
                };
                open[at] = read > 0;
                if texts[at].len() + read > MOST_OUTPUT {
                    return Err(io::Error::other("its output is too long"));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_heard_to_its_end() {
        let (status, output, message) =
            run("sh", &["-c", "seq 1 20000; echo no >&2; exit 3"]).unwrap();
        assert_eq!(status.code(), Some(3));
        assert!(output.ends_with("19999\n20000\n"));
        assert_eq!(message, "no\n");
        let absent = run("no such program", &[]);
        assert!(matches!(absent, Err(ProgramError::NotRun { .. })));
    }

    #[test]
    fn hanging_programs_lengthen_the_pause() {
        let started_at = Instant::now();
        let keeps_off = |programs, after: u64| {
            Hanging {
                programs,
                started_at,
            }
            .keeps_others_off(started_at + Duration::from_secs(after))
        };
        assert!(keeps_off(1, 19) && !keeps_off(1, 20));
        assert!(keeps_off(2, 39) && !keeps_off(2, 40));
        assert!(keeps_off(MOST_HANGING, 1 << 20));
    }
}
