// SPDX-License-Identifier: Apache-2.0
//! Structured logs on standard error. Messages that peers can cause have a rate limit.

use std::collections::HashMap;
use std::fmt;
use std::os::linux::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{self, Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Starts logging: for the journal if standard error is its stream (`JOURNAL_STREAM`, systemd.exec(5)), else with the time. `filter` is a level, or directives such as `info,iscsi=debug`.
///
/// # Errors
/// If `filter` is invalid.
pub fn start(filter: &str) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter).map_err(|error| format!("--log {filter}: {error}"))?;
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false);
    if stderr_is_journal() {
        let journal = logs.event_format(Journal::default()).finish();
        journal.with(RateLimit::default()).init();
    } else {
        logs.finish().with(RateLimit::default()).init();
    }
    Ok(())
}

/// Most lines of one place in the code in [`PERIOD`].
const MOST_LINES: u32 = 20;
const PERIOD: Duration = Duration::from_secs(10);

/// Modules whose events peers cause: each failed login, command or clone is a line.
const DRIVEN_BY_PEERS: [&str; 3] = ["iscsi", "scsi", "volume"];

/// Drops events of [`DRIVEN_BY_PEERS`] above [`MOST_LINES`] for each place in the code. The next line of that place reports the
/// number of dropped lines. Levels below INFO are not limited.
#[derive(Default)]
struct RateLimit {
    places: Mutex<HashMap<Identifier, Written>>,
}

/// Lines of one place in the code.
struct Written {
    period_start: Instant,
    lines: u32,
    dropped: u64,
}

impl Written {
    /// Whether the place may write a line now. `Some` has the number of lines dropped before.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        if now.duration_since(self.period_start) >= PERIOD {
            self.period_start = now;
            self.lines = 0;
        }
        if self.lines == MOST_LINES {
            self.dropped += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.dropped))
    }
}

impl RateLimit {
    fn admit(&self, place: Identifier, now: Instant) -> Option<u64> {
        // No code panics while it holds the lock.
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let written = places.entry(place).or_insert(Written {
            period_start: now,
            lines: 0,
            dropped: 0,
        });
        written.admit(now)
    }
}

impl<S: Subscriber> Layer<S> for RateLimit {
    fn event_enabled(&self, event: &Event<'_>, _context: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        let crate_name = metadata.target().split("::").next().unwrap_or_default();
        if *metadata.level() > Level::INFO || !DRIVEN_BY_PEERS.contains(&crate_name) {
            return true;
        }
        let Some(dropped) = self.admit(metadata.callsite(), Instant::now()) else {
            return false;
        };
        if dropped > 0 {
            let place = metadata.target();
            tracing::warn!(place, dropped, "lines like the next one were dropped");
        }
        true
    }
}

/// Whether standard error is the stream to the journal that the service manager announced.
fn stderr_is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else {
        return false;
    };
    // The standard library has no metadata of a descriptor that it did not open.
    std::fs::metadata("/proc/self/fd/2")
        .is_ok_and(|stderr| stream == format!("{}:{}", stderr.st_dev(), stderr.st_ino()))
}

/// Lines for the journal.
struct Journal(Format<format::Full, ()>);

impl Default for Journal {
    fn default() -> Self {
        Self(Format::default().without_time().with_ansi(false))
    }
}

/// The syslog(3) priority of a level, as prefix for the journal.
fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        _ => "<7>",
    }
}

impl<S, N> FormatEvent<S, N> for Journal
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        writer.write_str(priority(*event.metadata().level()))?;
        self.0.format_event(context, writer, event)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn a_place_that_writes_too_much_is_limited_and_reports_it_later() {
        let now = Instant::now();
        let mut place = Written {
            period_start: now,
            lines: 0,
            dropped: 0,
        };
        for _ in 0..MOST_LINES {
            assert_eq!(place.admit(now), Some(0));
        }
        for _ in 0..5 {
            assert_eq!(place.admit(now + PERIOD / 2), None);
        }
        assert_eq!(place.admit(now + PERIOD), Some(5));
        assert_eq!(place.admit(now + PERIOD), Some(0));
    }

    /// Counts events that no layer dropped.
    struct Count(Arc<AtomicU32>);

    impl<S: Subscriber> Layer<S> for Count {
        fn on_event(&self, _event: &Event<'_>, _context: Context<'_, S>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn clones_that_fail_are_limited() {
        let lines = Arc::new(AtomicU32::new(0));
        let subscriber = tracing_subscriber::registry()
            .with(Count(Arc::clone(&lines)))
            .with(RateLimit::default());
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..2 * MOST_LINES {
                tracing::warn!(target: "volume::copy::cloning", "a clone failed");
            }
        });
        assert_eq!(lines.load(Ordering::Relaxed), MOST_LINES);
    }
}
