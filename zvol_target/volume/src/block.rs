// SPDX-License-Identifier: Apache-2.0
//! A volume on a block device.

use std::fs::{self, File, Metadata};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{OFlags, ioctl_blkpbszget, ioctl_blksszget, major, minor};

use crate::open::{OpenOptions, Problem, open_descriptor};
use crate::store::{Clearing, Facts, Store, Way, volume_on_store};
use crate::{Geometry, VolumeError};

/// A volume on a block device, opened with `O_EXCL`: a device that is mounted, or has another exclusive user, is refused.
///
/// Block sizes are those that the device reports. Uses `O_DIRECT`.
pub struct BlockVolume {
    store: Store,
}

impl BlockVolume {
    pub(crate) fn open(
        path: &Path,
        metadata: &Metadata,
        options: OpenOptions,
    ) -> Result<Self, Problem> {
        let store = open_device(path, metadata, options, |device| {
            let clearing = Clearing::new(&[Way::PunchHole, Way::ZeroRange], granularity(device));
            (clearing, None)
        })?;
        Ok(Self { store })
    }

    fn present_size(&self) -> Result<u64, VolumeError> {
        Ok(device_size(self.store.file())?)
    }
}

volume_on_store!(BlockVolume);

/// Facts about a device that its backend needs.
pub(crate) struct Device<'a> {
    pub file: &'a File,
    pub geometry: Geometry,
    /// `st_rdev`.
    pub number: u64,
}

/// Opens a device. `backend` chooses how ranges are cleared, and returns the pool.
pub(crate) fn open_device(
    path: &Path,
    metadata: &Metadata,
    options: OpenOptions,
    backend: impl FnOnce(&Device<'_>) -> (Clearing, Option<String>),
) -> Result<Store, Problem> {
    let file = open_descriptor(path, metadata, options, OFlags::EXCL | OFlags::DIRECT)?;
    let device = Device {
        file: &file,
        geometry: device_geometry(&file)?,
        number: metadata.rdev(),
    };
    let (clearing, pool) = backend(&device);
    let facts = Facts {
        geometry: device.geometry,
        read_only: options.read_only,
        in_memory: false,
        clearing,
        pool,
    };
    Ok(Store::new(file, facts))
}

/// `discard_granularity` of the device's queue, where the device also supports a request to write zeroes. A plain discard is not
/// used: it does not guarantee what later reads return.
fn granularity(device: &Device<'_>) -> Option<u32> {
    let (major, minor) = (major(device.number), minor(device.number));
    let folder = format!("/sys/dev/block/{major}:{minor}");
    let limit = |name: &str| {
        // A partition has the queue of its disk.
        let paths = [
            format!("{folder}/queue/{name}"),
            format!("{folder}/../queue/{name}"),
        ];
        let text = paths
            .iter()
            .find_map(|path| fs::read_to_string(path).ok())?;
        text.trim().parse::<u64>().ok()
    };
    let whole = |bytes: &u32| *bytes > 0 && bytes % device.geometry.logical_block_bytes == 0;
    limit("write_zeroes_max_bytes").filter(|&most| most > 0)?;
    u32::try_from(limit("discard_granularity")?)
        .ok()
        .filter(whole)
}

/// Sizes as the device reports them (BLKSSZGET, BLKPBSZGET).
fn device_geometry(file: &File) -> Result<Geometry, Problem> {
    let size_bytes = device_size(file).map_err(Problem::system("reading the device's size"))?;
    let logical_block_bytes =
        ioctl_blksszget(file).map_err(|error| Problem::system("ioctl BLKSSZGET")(error.into()))?;
    let physical_block_bytes = ioctl_blkpbszget(file)
        .map_err(|error| Problem::system("ioctl BLKPBSZGET")(error.into()))?;
    if ![512, 4096].contains(&logical_block_bytes) {
        return Err(Problem::LogicalBlock(logical_block_bytes));
    }
    if size_bytes == 0 {
        return Err(Problem::Empty);
    }
    if size_bytes % u64::from(logical_block_bytes) != 0 {
        return Err(Problem::PartialBlock {
            size_bytes,
            logical_block_bytes,
        });
    }
    Ok(Geometry {
        size_bytes,
        logical_block_bytes,
        physical_block_bytes: physical_block_bytes.max(logical_block_bytes),
    })
}

/// Size of the device, by a seek to its end (equal to BLKGETSIZE64). No other code uses the descriptor's position.
pub(crate) fn device_size(mut file: &File) -> std::io::Result<u64> {
    file.seek(SeekFrom::End(0))
}
