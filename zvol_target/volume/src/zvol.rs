//! A volume on a zvol of the OpenZFS kernel module.

use std::fs::Metadata;
use std::io;
use std::path::Path;

use crate::block::{device_size, open_device};
use crate::growth::Gate;
use crate::open::{OpenOptions, Problem};
use crate::store::{self, Clearing, Store, Way, volume_on_store};
use crate::{LocalBoxFuture, Space, VolumeError, zfs};

/// A volume on a zvol (/dev/zvol/POOL/NAME), opened like any block device.
///
/// The physical block is the volblocksize. `O_DIRECT` is what keeps errors with the writes that caused them: through the
/// page cache a zvol's ENOSPC is lost at writeback (openzfs#2889).
pub struct ZvolVolume {
    store: Store,
}

impl ZvolVolume {
    pub(crate) fn open(
        path: &Path,
        metadata: &Metadata,
        options: OpenOptions,
    ) -> Result<Self, Problem> {
        // A zvol reads zeroes where it was discarded, and frees whole volblocks: it rounds a discard inward, and says success
        // for the edges it left (zvol_discard() of OpenZFS 2.3). So it is never asked for more than whole ones.
        let mut store = open_device(path, metadata, options, classify, |device| {
            Clearing::new(&[Way::Discard], Some(device.geometry.physical_block_bytes))
        })?;
        store.gate = Gate::of_zvol();
        Ok(Self { store })
    }

    fn present_size(&self) -> Result<u64, VolumeError> {
        Ok(device_size(self.store.file())?)
    }
}

volume_on_store!(
    ZvolVolume,
    /// A synchronous write of at most `zil_maxcopied` bytes (7680) is one record of the ZIL, in one log block. A longer one can be split
    /// into records of several log blocks (`zil_lwb_assign()` of OpenZFS 2.3), of which only the first may survive: a whole volblock
    /// is not atomic.
    fn atomic_write_bytes(&self) -> Option<u32> {
        Some(ATOMIC_WRITE_BYTES)
    },
    fn space(&self) -> LocalBoxFuture<'_, Result<Option<Space>, VolumeError>> {
        Box::pin(async {
            let Some(dataset) = self.dataset() else {
                return Ok(None);
            };
            let found = tokio::task::spawn_blocking(move || zfs::datasets(&[dataset])).await;
            Ok(match found.map_err(io::Error::other)? {
                Ok(found) => found.first().map(|dataset| Space {
                    used_bytes: dataset.used_by_dataset,
                    available_bytes: dataset.available,
                    reserved_bytes: dataset.reserved_bytes(),
                }),
                Err(error) => {
                    tracing::debug!(%error, "the space of a zvol is not known");
                    None
                }
            })
        })
    },
    fn dataset(&self) -> Option<String> {
        zfs::dataset_of(self.store.file()).ok()
    },
);

/// A power of two that fits one record of the ZIL, and the least volblocksize there is use for.
const ATOMIC_WRITE_BYTES: u32 = 4096;

/// What an error number of a zvol means.
///
/// A zvol can say EIO where no space is left: the kernel makes EIO of EDQUOT, and with `zvol_use_blk_mq=1` of ENOSPC too.
/// An EIO alone does not tell; [`crate::growth`] looks at the space left.
fn classify(error: io::Error) -> VolumeError {
    store::classify(error)
}
