// SPDX-License-Identifier: Apache-2.0
//! Permission to share blocks of a volume with others. A thick volume never shares blocks.

use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Permission to share blocks of one volume. A clone holds it until the kernel is done.
#[derive(Clone, Debug, Default)]
pub struct SharePermit {
    volume: Arc<()>,
}

/// Clones that began while a volume was thin. They can outlive their caller.
#[derive(Clone, Debug, Default)]
pub struct RunningClones(Weak<()>);

impl RunningClones {
    /// Whether all of these clones have ended.
    pub fn is_over(&self) -> bool {
        self.0.strong_count() == 0
    }
}

/// Grants permits while the volume is thin.
#[derive(Debug)]
pub(crate) struct Sharing(Mutex<Option<SharePermit>>);

impl Default for Sharing {
    fn default() -> Self {
        Self(Mutex::new(Some(SharePermit::default())))
    }
}

impl Sharing {
    /// A permit; `None` if the volume is thick.
    pub(crate) fn permit(&self) -> Option<SharePermit> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Makes the volume thick or thin. When it becomes thick, returns the clones that still hold permits.
    pub(crate) fn set_thick(&self, thick: bool) -> RunningClones {
        let mut permit = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if thick {
            let permit = permit.take();
            RunningClones(permit.map_or_else(Weak::new, |permit| Arc::downgrade(&permit.volume)))
        } else {
            permit.get_or_insert_default();
            RunningClones::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thick_volume_gives_no_permits_and_waits_for_those_it_gave() {
        let sharing = Sharing::default();
        let (first, other) = (sharing.permit().unwrap(), sharing.permit().unwrap());
        let running = sharing.set_thick(true);
        assert!(sharing.permit().is_none() && !running.is_over());
        drop(first);
        assert!(!running.is_over());
        drop(other);
        assert!(running.is_over());
        assert!(sharing.set_thick(true).is_over());
        sharing.set_thick(false);
        assert!(sharing.permit().is_some());
    }
}
