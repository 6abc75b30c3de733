// SPDX-License-Identifier: Apache-2.0
//! Copies of thick volumes: they share nothing, even if a volume becomes thick during a copy. Copies whose clones fail.

use std::any::Any;
use std::cell::RefCell;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::common::{on_each_engine, open, pattern, sparse_file};
use volume::copy::{
    Cancelled, CloneEnd, CloneRefusal, CloneStep, CopyError, CopyRange, CopyReport, FallbackReason,
    Step, Steps, copy,
};
use volume::{
    Allocation, Buffer, Extent, Geometry, LocalBoxFuture, OpenOptions, RunningClones, SharePermit,
    Stability, Volume, VolumeError,
};

const MIB: u64 = 1 << 20;
const SIZE: u64 = 32 * MIB;
const STEP: u64 = 4 * MIB;

/// A volume that simulates a clone: it writes the pattern of its source. It holds the permits of the last clone.
struct Cloning {
    below: Arc<dyn Volume>,
    file: std::fs::File,
    permits: Mutex<Option<[SharePermit; 2]>>,
    /// Clones fail with this error.
    clone_error: Option<fn() -> VolumeError>,
    /// Reads fail.
    is_gone: bool,
}

fn gone() -> VolumeError {
    VolumeError::Gone(std::io::ErrorKind::NotFound.into())
}

impl Volume for Cloning {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn read(&self, offset: u64, buffer: Buffer) -> LocalBoxFuture<'_, Result<Buffer, VolumeError>> {
        if self.is_gone {
            return Box::pin(async { Err(gone()) });
        }
        self.below.read(offset, buffer)
    }

    fn write(
        &self,
        offset: u64,
        buffer: Buffer,
        stability: Stability,
    ) -> LocalBoxFuture<'_, Result<(), VolumeError>> {
        self.below.write(offset, buffer, stability)
    }

    fn flush(&self) -> LocalBoxFuture<'_, Result<(), VolumeError>> {
        self.below.flush()
    }

    fn allocation(
        &self,
        offset: u64,
        length: u64,
        _: usize,
    ) -> LocalBoxFuture<'_, Result<Vec<Extent>, VolumeError>> {
        Box::pin(async move {
            let allocation = Allocation::Allocated;
            Ok(vec![Extent {
                offset,
                length,
                allocation,
            }])
        })
    }

    fn set_thick(&self, thick: bool) -> RunningClones {
        self.below.set_thick(thick)
    }

    fn share(&self) -> Option<SharePermit> {
        self.below.share()
    }

    fn clone_end(&self) -> Option<CloneEnd<'_>> {
        Some(CloneEnd::File(std::os::fd::AsFd::as_fd(&self.file)))
    }

    fn clone_range<'a>(
        &'a self,
        offset: u64,
        _: CloneEnd<'a>,
        _: u64,
        length: u64,
        permits: [SharePermit; 2],
    ) -> LocalBoxFuture<'a, Result<CloneStep, CloneRefusal>> {
        Box::pin(async move {
            if let Some(error) = self.clone_error {
                return Err(CloneRefusal {
                    reason: FallbackReason::Failed,
                    done: CloneStep::default(),
                    length_bytes: 0,
                    error: Some(error()),
                });
            }
            *self.permits.lock().unwrap() = Some(permits);
            let data = pattern(length as usize, 1);
            let written = self.below.write(offset, data, Stability::Cached).await;
            written.unwrap();
            Ok(CloneStep {
                done_bytes: length,
                hole_bytes: 0,
            })
        })
    }
}

/// Makes a volume thick before one of its steps.
struct Thickening {
    volume: Arc<Cloning>,
    steps_left: RefCell<usize>,
    running: RefCell<Option<RunningClones>>,
}

impl Steps for Thickening {
    fn lock(&self, _: Step) -> LocalBoxFuture<'_, Result<Box<dyn Any>, Cancelled>> {
        Box::pin(async move {
            let mut left = self.steps_left.borrow_mut();
            if *left == 0 && self.running.borrow().is_none() {
                *self.running.borrow_mut() = Some(self.volume.set_thick(true));
            }
            *left = left.saturating_sub(1);
            Ok(Box::new(()) as Box<dyn Any>)
        })
    }
}

fn volume(directory: &Path) -> Arc<Cloning> {
    let folder = tempfile::tempdir_in(directory).unwrap().keep();
    let path = sparse_file(&folder, SIZE);
    Arc::new(Cloning {
        below: open(&path, OpenOptions::default()),
        file: std::fs::File::open(&path).unwrap(),
        permits: Mutex::default(),
        clone_error: None,
        is_gone: false,
    })
}

fn whole(source: &Arc<Cloning>, destination: &Arc<Cloning>) -> CopyRange {
    CopyRange {
        source: Arc::clone(source) as _,
        source_offset: 0,
        destination: Arc::clone(destination) as _,
        destination_offset: 0,
        length: SIZE,
    }
}

/// Copies a whole volume to another. After `steps` steps, one of them becomes thick. Returns the cloned bytes.
async fn cloned(directory: &Path, source_is_thick: bool, steps: usize) -> u64 {
    let (source, destination) = (volume(directory), volume(directory));
    let data = pattern(SIZE as usize, 1);
    source.write(0, data, Stability::Cached).await.unwrap();
    let range = whole(&source, &destination);
    let steps = Thickening {
        volume: Arc::clone(if source_is_thick {
            &source
        } else {
            &destination
        }),
        steps_left: RefCell::new(steps),
        running: RefCell::default(),
    };
    let mut report = CopyReport::default();
    let copied = copy(&range, Stability::Cached, &steps, &mut report).await;
    copied.unwrap();
    let thick = report.fallback_bytes[FallbackReason::Thick as usize];
    assert_eq!(report.cloned_bytes + thick, SIZE, "{report:?}");
    assert_eq!(thick, report.copied_bytes);
    if let Some(running) = steps.running.take() {
        // The last clone holds its permits until it is known to have ended.
        let permits = destination.permits.lock().unwrap().take();
        assert_eq!(running.is_over(), permits.is_none());
        drop(permits);
        assert!(running.is_over());
    }
    report.cloned_bytes
}

#[test]
fn blocks_of_a_thick_volume_are_copied() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    on_each_engine(async || {
        for source_is_thick in [true, false] {
            let thin = cloned(directory.path(), source_is_thick, usize::MAX).await;
            assert_eq!(thin, SIZE);
            let becomes_thick = cloned(directory.path(), source_is_thick, 3).await;
            assert_eq!(becomes_thick, 3 * STEP);
            assert_eq!(cloned(directory.path(), source_is_thick, 0).await, 0);
        }
    });
}

#[test]
fn a_thin_volume_shares_again() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let volume = volume(directory.path());
    assert!(volume.set_thick(true).is_over() && volume.share().is_none());
    assert!(volume.set_thick(false).is_over() && volume.share().is_some());
}

#[test]
fn after_a_failed_clone_reading_or_writing_decides() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    on_each_engine(async || {
        for (error, source_is_gone) in [
            ((|| VolumeError::OutOfSpace) as fn() -> _, false),
            (gone, false),
            (gone, true),
        ] {
            let (mut source, mut destination) =
                (volume(directory.path()), volume(directory.path()));
            let data = pattern(SIZE as usize, 1);
            source.write(0, data, Stability::Cached).await.unwrap();
            Arc::get_mut(&mut source).unwrap().is_gone = source_is_gone;
            Arc::get_mut(&mut destination).unwrap().clone_error = Some(error);
            let range = whole(&source, &destination);
            let steps = Thickening {
                volume: destination,
                steps_left: RefCell::new(usize::MAX),
                running: RefCell::default(),
            };
            let mut report = CopyReport::default();
            let copied = copy(&range, Stability::Cached, &steps, &mut report).await;
            if source_is_gone {
                let at_source = matches!(copied, Err(CopyError::Source(VolumeError::Gone(_))));
                assert!(at_source, "{copied:?}");
            } else {
                copied.unwrap();
                assert_eq!(report.fallback_bytes[FallbackReason::Failed as usize], SIZE);
            }
        }
    });
}
