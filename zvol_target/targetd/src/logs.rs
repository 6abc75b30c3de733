// SPDX-License-Identifier: Apache-2.0
//! Logs: structured, to standard error.

use std::fmt;
use std::os::linux::fs::MetadataExt;

use clap::ValueEnum;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{self, Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Journal where standard error is one (`JOURNAL_STREAM`, systemd.exec(5)), else text.
    Auto,
    /// A line: time, level, module, message, key=value.
    Text,
    /// A line with its priority before it as the journal reads it (sd-daemon(3)), and without the time, which the journal has.
    Journal,
    /// A JSON object a line.
    Json,
}

/// Starts logging. `filter` is a level, or directives such as `info,iscsi=debug`.
///
/// # Errors
/// When `filter` is neither.
pub fn start(format: LogFormat, filter: &str) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter).map_err(|error| format!("--log {filter}: {error}"))?;
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false);
    match format {
        LogFormat::Json => logs.json().init(),
        LogFormat::Journal => logs.event_format(Journal::default()).init(),
        LogFormat::Auto if stderr_is_journal() => logs.event_format(Journal::default()).init(),
        LogFormat::Auto | LogFormat::Text => logs.init(),
    }
    Ok(())
}

/// Whether standard error is the stream that the service manager says leads to the journal.
fn stderr_is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else {
        return false;
    };
    // Looked at through /proc, as the standard library does not tell of a descriptor it did not open.
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

/// Priority of syslog(3) of a level, as the journal reads it before a line.
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
