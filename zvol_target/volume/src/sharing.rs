// SPDX-License-Identifier: Apache-2.0
//! Whether blocks of a volume may be shared with others: those of a thick volume never are.

use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Permission to share blocks of one volume. The clone that uses it keeps it until the kernel is done.
#[derive(Clone, Debug, Default)]
pub struct SharePermit {
    volume: Arc<()>,
}

/// Clones that began while a volume was thin. They may go on after their caller is gone.
#[derive(Clone, Debug, Default)]
pub struct ClonesUnderWay(Weak<()>);

impl ClonesUnderWay {
    /// Whether all of them have ended.
    pub fn is_over(&self) -> bool {
        self.0.strong_count() == 0
    }
}

/// Gives permits while the volume is thin.
#[derive(Debug)]
pub(crate) struct Sharing(Mutex<Option<SharePermit>>);

impl Default for Sharing {
    fn default() -> Self {
        Self(Mutex::new(Some(SharePermit::default())))
    }
}

impl Sharing {
    /// A permit; `None` when the volume is thick.
    pub(crate) fn permit(&self) -> Option<SharePermit> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Makes the volume thick or thin. When it becomes thick, returns the clones that have permits still.
    pub(crate) fn set_thick(&self, thick: bool) -> ClonesUnderWay {
        let mut permit = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if thick {
            let permit = permit.take();
            ClonesUnderWay(permit.map_or_else(Weak::new, |permit| Arc::downgrade(&permit.volume)))
        } else {
            permit.get_or_insert_default();
            ClonesUnderWay::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thick_volume_gives_no_permits_and_waits_for_those_it_gave() {
        let sharing = Sharing::default();
        let (one, other) = (sharing.permit().unwrap(), sharing.permit().unwrap());
        let under_way = sharing.set_thick(true);
        assert!(sharing.permit().is_none() && !under_way.is_over());
        drop(one);
        assert!(!under_way.is_over());
        drop(other);
        assert!(under_way.is_over());
        assert!(sharing.set_thick(true).is_over());
        sharing.set_thick(false);
        assert!(sharing.permit().is_some());
    }
}
