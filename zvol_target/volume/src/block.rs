//! A volume on a block device.

use std::fs::{File, Metadata};
use std::io::{self, Seek, SeekFrom};
use std::path::Path;

use rustix::fs::{OFlags, ioctl_blkpbszget, ioctl_blksszget};

use crate::open::{Caching, OpenOptions, Problem, open_descriptor};
use crate::store::{Facts, Store, classify, volume_on_store};
use crate::{Geometry, VolumeError};

/// A volume on a block device, opened with `O_EXCL`: a device that is mounted, or has another exclusive user, is refused.
///
/// Block sizes are the device's own. `O_DIRECT` unless the page cache is asked for.
pub struct BlockVolume {
    store: Store,
}

impl BlockVolume {
    pub(crate) fn open(
        path: &Path,
        metadata: &Metadata,
        options: OpenOptions,
    ) -> Result<Self, Problem> {
        let store = open_device(path, metadata, options, classify)?;
        Ok(Self { store })
    }

    fn present_size(&self) -> Result<u64, VolumeError> {
        Ok(device_size(self.store.file())?)
    }
}

volume_on_store!(BlockVolume);

/// Opens a device; `classify` is what its driver means by an error number.
pub(crate) fn open_device(
    path: &Path,
    metadata: &Metadata,
    options: OpenOptions,
    classify: fn(io::Error) -> VolumeError,
) -> Result<Store, Problem> {
    let flags = match options.caching {
        Caching::Automatic | Caching::Direct => OFlags::EXCL | OFlags::DIRECT,
        Caching::PageCache => OFlags::EXCL,
    };
    let file = open_descriptor(path, metadata, options, flags)?;
    let facts = Facts {
        geometry: device_geometry(&file)?,
        read_only: options.read_only,
        in_memory: false,
        prompt: false,
        classify,
    };
    Ok(Store::new(file, &facts))
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

/// The end of the device is what BLKGETSIZE64 gives. The descriptor's position is nowhere used.
pub(crate) fn device_size(mut file: &File) -> std::io::Result<u64> {
    file.seek(SeekFrom::End(0))
}
