// SPDX-License-Identifier: Apache-2.0
//! Reads the figures of a pool or a file system. Every function blocks.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::statvfs;
use volume::Volume;
use volume::zfs::{self, Dataset, Pool, ProgramError};

use super::policy::{self, PoolFigures};

/// The pool or file system of a volume.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Store {
    /// A pool, by name.
    Pool(String),
    /// A file system, by its mount point.
    FileSystem(PathBuf),
}

impl Store {
    /// The store of the volume at `path`; `None` if it is unknown, as for a zvol that was destroyed.
    pub fn of(volume: &dyn Volume, path: &Path) -> Option<Self> {
        if let Some(dataset) = volume.dataset() {
            return Some(Self::Pool(zfs::pool_of(&dataset).to_owned()));
        }
        let path = std::fs::canonicalize(path).ok()?;
        let file = std::fs::metadata(&path).ok()?;
        file.is_file()
            .then(|| Self::FileSystem(mount_point(&path, file.dev())))
    }

    /// Name in configuration and reports.
    pub fn name(&self) -> String {
        match self {
            Self::Pool(name) => name.clone(),
            Self::FileSystem(path) => path.display().to_string(),
        }
    }
}

/// The outermost directory of `path` on the file system `device`.
fn mount_point(path: &Path, device: u64) -> PathBuf {
    let folders = path.ancestors().skip(1);
    let of_it =
        |folder: &&Path| std::fs::metadata(folder).is_ok_and(|folder| folder.dev() == device);
    let outermost = folders.take_while(of_it).last();
    outermost.unwrap_or(path).to_owned()
}

/// Why the figures are unknown.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("its space cannot be read: {0}")]
    System(#[from] io::Error),
    #[error("the pool {0} is not imported")]
    Gone(String),
}

impl StoreError {
    /// Whether the store no longer exists.
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Program(error) => error.is_absent(),
            Self::System(_) => false,
            Self::Gone(_) => true,
        }
    }
}

/// Figures of a store and its volumes.
#[derive(Debug)]
pub(super) struct Reading {
    pub pool: PoolFigures,
    /// For each volume, in the given order.
    pub datasets: Vec<Option<Dataset>>,
}

/// Output of `zfs` and `zpool` for a pool. It is the same until a transaction group writes to the pool.
#[derive(Debug)]
pub(super) struct Figures {
    written: Option<u64>,
    names: Vec<String>,
    datasets: Vec<Dataset>,
    pool: Pool,
}

impl Figures {
    /// Figures of a pool and some of its datasets.
    fn read(pool: &str, names: Vec<String>) -> Result<Self, ProgramError> {
        Ok(Self {
            written: zfs::last_write(pool),
            datasets: zfs::datasets(&names)?,
            pool: zfs::pool(pool)?,
            names,
        })
    }

    fn are_still_of(&self, pool: &str, names: &[String]) -> bool {
        self.written.is_some() && self.names == names && self.written == zfs::last_write(pool)
    }
}

/// Reads the figures of a store and of its volumes. Drops the volumes before anything blocks. With `sync`, syncs a transaction
/// group of a nearly full pool first, as the figures do not include dirty data. Runs no program while the figures `before` are
/// still valid; replaces them otherwise.
pub(super) fn read(
    store: &Store,
    volumes: Vec<Option<Arc<dyn Volume>>>,
    sync: bool,
    before: &mut Option<Arc<Figures>>,
) -> Result<Reading, StoreError> {
    let names: Vec<_> = volumes
        .into_iter()
        .map(|volume| volume.and_then(|volume| volume.dataset()))
        .collect();
    match store {
        Store::FileSystem(mount) => {
            let status = statvfs(mount).map_err(io::Error::from)?;
            let bytes = |blocks: u64| blocks.saturating_mul(status.f_frsize);
            Ok(Reading {
                pool: PoolFigures::of_file_system(bytes(status.f_blocks), bytes(status.f_bavail)),
                datasets: names.iter().map(|_| None).collect(),
            })
        }
        Store::Pool(pool) => {
            let mut all = vec![pool.clone()];
            all.extend(names.iter().flatten().cloned());
            let mut figures = match before.take() {
                Some(figures) if figures.are_still_of(pool, &all) => figures,
                _ => Arc::new(Figures::read(pool, all)?),
            };
            let is_near = |datasets: &[Dataset]| {
                let mut roots = datasets.iter().filter(|dataset| dataset.name == *pool);
                roots.any(|root| {
                    let total = root.used.saturating_add(root.available);
                    policy::is_near(total, root.available, policy::headroom(total))
                })
            };
            if sync && is_near(&figures.datasets) {
                zfs::sync(pool)?;
                figures = Arc::new(Figures::read(pool, figures.names.clone())?);
            }
            let of = |name: &str| figures.datasets.iter().find(|dataset| dataset.name == name);
            let root = of(pool).ok_or_else(|| StoreError::Gone(pool.clone()))?;
            let datasets = names.iter().map(|name| of(name.as_ref()?).cloned());
            let reading = Reading {
                pool: PoolFigures::of_pool(root, &figures.pool),
                datasets: datasets.collect(),
            };
            *before = Some(figures);
            Ok(reading)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_in_the_file_system_that_is_mounted_above_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("volume");
        std::fs::write(&path, [0; 4096]).unwrap();
        let volume = volume::open(&path, volume::OpenOptions::default()).unwrap();
        let store = Store::of(&*volume.volume, &path).unwrap();
        let Store::FileSystem(mount) = &store else {
            panic!("{store:?}");
        };
        assert!(path.starts_with(mount));
        let reading = read(&store, vec![Some(volume.volume)], true, &mut None).unwrap();
        assert!(reading.pool.total >= reading.pool.available);
        assert_eq!(reading.datasets, [None]);
        let above = mount.parent();
        let device = std::fs::metadata(&path).unwrap().dev();
        assert!(above.is_none_or(|above| std::fs::metadata(above).unwrap().dev() != device));
    }
}
