// SPDX-License-Identifier: Apache-2.0
//! Operations of a volume from a command line, for tests and measurements on real devices:
//!
//!     volume clear PATH OFFSET LENGTH stable|cached
//!     volume map PATH OFFSET LENGTH
//!     volume copy SOURCE OFFSET DESTINATION OFFSET LENGTH stable|cached
//!
//! Prints one `name value` a line: the results, and the duration in seconds. SOURCE and DESTINATION may be the same.

use std::any::Any;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use volume::copy::{Cancelled, CopyRange, CopyReport, FallbackReason, Step, Steps, copy};
use volume::{Extent, LocalBoxFuture, OpenOptions, Stability, Volume, engine};

/// Locks for a copy without other users.
struct Alone;

impl Steps for Alone {
    fn lock(&self, _: Step) -> LocalBoxFuture<'_, Result<Box<dyn Any>, Cancelled>> {
        Box::pin(async { Ok(Box::new(()) as Box<dyn Any>) })
    }
}

fn open(path: &str) -> Result<Arc<dyn Volume>, Box<dyn Error>> {
    Ok(volume::open(Path::new(path), OpenOptions::default())?.volume)
}

fn stability(word: &str) -> Result<Stability, Box<dyn Error>> {
    match word {
        "stable" => Ok(Stability::Stable),
        "cached" => Ok(Stability::Cached),
        _ => Err("stable or cached".into()),
    }
}

async fn map(volume: &dyn Volume, offset: u64, length: u64) -> Result<(), Box<dyn Error>> {
    let mut at = offset;
    while at < offset + length {
        let extents = volume.allocation(at, offset + length - at, 64).await?;
        for Extent {
            offset,
            length,
            allocation,
        } in extents
        {
            println!("{allocation:?} {offset} {length}");
            at = offset + length;
        }
    }
    Ok(())
}

async fn copy_range(range: &CopyRange, stability: Stability) -> Result<(), Box<dyn Error>> {
    let mut report = CopyReport::default();
    let result = copy(range, stability, &Alone, &mut report).await;
    println!("cloned {}", report.cloned_bytes);
    println!("copied {}", report.copied_bytes);
    println!("zeroed {}", report.zeroed_bytes);
    for reason in FallbackReason::ALL {
        let bytes = report.fallback_bytes[reason as usize];
        if bytes > 0 {
            println!("{reason:?} {bytes}");
        }
    }
    Ok(result?)
}

async fn run(words: &[&str]) -> Result<(), Box<dyn Error>> {
    match words {
        ["clear", path, offset, length, word] => {
            let volume = open(path)?;
            let (offset, length, stability) = (offset.parse()?, length.parse()?, stability(word)?);
            println!("granularity {}", volume.unmap_granularity().unwrap_or(0));
            let began = Instant::now();
            volume.clear(offset, length, stability).await?;
            println!("seconds {:.4}", began.elapsed().as_secs_f64());
        }
        ["map", path, offset, length] => {
            let volume = open(path)?;
            let began = Instant::now();
            map(&*volume, offset.parse()?, length.parse()?).await?;
            println!("seconds {:.4}", began.elapsed().as_secs_f64());
        }
        [
            "copy",
            source_path,
            source_offset,
            path,
            offset,
            length,
            word,
        ] => {
            let source = open(source_path)?;
            let destination = if path == source_path {
                Arc::clone(&source)
            } else {
                open(path)?
            };
            let range = CopyRange {
                source,
                source_offset: source_offset.parse()?,
                destination,
                destination_offset: offset.parse()?,
                length: length.parse()?,
            };
            let began = Instant::now();
            let copied = copy_range(&range, stability(word)?).await;
            println!("seconds {:.4}", began.elapsed().as_secs_f64());
            copied?;
        }
        _ => return Err("see the head of examples/volume.rs".into()),
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default())?;
    runtime.block_on(async {
        engine::start(engine::EngineChoice::Automatic)?;
        run(&words).await
    })
}
