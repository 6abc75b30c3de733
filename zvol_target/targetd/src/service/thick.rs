//! A logical unit that is, or becomes, thick.

use std::rc::Rc;
use std::sync::Arc;

use uuid::Uuid;
use volume::{CloneLedger, Volume};

use super::running::Opened;
use super::{Shared, Unusable};
use crate::configuration::{Lun, ProvisioningChoice};
use crate::space::{closed_ledger, make_thick};

/// Reserves the space of a LUN that is to be thick.
pub(super) async fn require_reserved(opened: &Opened, lun: &Lun) -> Result<(), Unusable> {
    if lun.provisioning != ProvisioningChoice::Thick {
        return Ok(());
    }
    let volume = Arc::clone(opened.unit.volume());
    let slack_bytes = lun.slack_bytes;
    let reserved = tokio::task::spawn_blocking(move || make_thick(&*volume, slack_bytes)).await;
    let reserved = reserved.map_err(|error| Unusable::Description(error.to_string()))?;
    reserved.map_err(|error| Unusable::Thick {
        path: lun.path.display().to_string(),
        error,
    })
}

/// A LUN that is being made thick. Its ledger is closed, so that all that it shares is counted; it is the keeper's again at the end.
pub(super) struct BecomingThick {
    service: Shared,
    uuid: Uuid,
    volume: Arc<dyn Volume>,
    before: Option<Arc<dyn CloneLedger>>,
}

impl BecomingThick {
    pub(super) fn new(service: &Shared, lun: &Lun, volume: Arc<dyn Volume>) -> Self {
        service.borrow_mut().space.becoming_thick.insert(lun.uuid);
        let before = volume.clone_ledger();
        volume.set_clone_ledger(Some(closed_ledger()));
        Self {
            service: Rc::clone(service),
            uuid: lun.uuid,
            volume,
            before,
        }
    }
}

impl Drop for BecomingThick {
    fn drop(&mut self) {
        let Ok(mut service) = self.service.try_borrow_mut() else {
            tracing::error!("a LUN that became thick is not cloned into before it is served anew");
            return;
        };
        service.space.becoming_thick.remove(&self.uuid);
        let mut luns = service.configuration.targets.iter();
        let is_thick = luns.any(|target| {
            let is_it =
                |lun: &Lun| lun.uuid == self.uuid && lun.provisioning == ProvisioningChoice::Thick;
            target.luns.iter().any(is_it)
        });
        if !is_thick {
            // It was refused.
            self.volume.set_clone_ledger(self.before.take());
        }
    }
}
