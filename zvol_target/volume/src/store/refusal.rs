// SPDX-License-Identifier: Apache-2.0
//! Changes that the kernel refuses because a zvol's disk is read-only.
//!
//! `zfs rename` makes the disk of a served zvol read-only for a moment, so that udev sees the new name (`zvol_os_rename_minor`).
//! Until then the kernel refuses each write and discard with EPERM.

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use tokio::time::sleep;

use crate::patience::wait;

const PAUSE: Duration = Duration::from_millis(10);
/// About a second. The disk of a zvol with `readonly=on` stays read-only.
const MOST: u32 = 100;

/// The refusals of one change.
#[derive(Default)]
pub(super) struct Refusals(u32);

impl Refusals {
    /// Whether to try again, after a pause. False for other errors.
    pub(super) async fn may_end(&mut self, error: &io::Error) -> bool {
        self.0 += 1;
        let refused = Errno::from_io_error(error) == Some(Errno::PERM);
        refused && self.0 <= MOST && wait(sleep(PAUSE)).await.is_some()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_tried_again_for_a_second_and_other_errors_are_not() {
        let began = Instant::now();
        let mut refusals = Refusals::default();
        while refusals.may_end(&Errno::PERM.into()).await {}
        assert!((1.0..2.0).contains(&began.elapsed().as_secs_f64()));
        assert!(!Refusals::default().may_end(&Errno::IO.into()).await);
    }
}
