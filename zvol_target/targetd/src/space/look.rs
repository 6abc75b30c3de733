//! One look at a pool or a file system. All of it blocks.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rustix::fs::statvfs;
use volume::Volume;
use volume::zfs::{self, Dataset, ProgramError};

use super::policy::{self, PoolFigures};

/// What volumes are in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Store {
    /// A pool, by its name.
    Pool(String),
    /// A file system, by its mount point.
    FileSystem(PathBuf),
}

impl Store {
    /// What the volume at `path` is in; `None` when that is not known, as for block devices.
    pub fn of(volume: &dyn Volume, path: &Path) -> Option<Self> {
        if let Some(dataset) = volume.dataset() {
            return Some(Self::Pool(zfs::pool_of(&dataset).to_owned()));
        }
        let path = std::fs::canonicalize(path).ok()?;
        let file = std::fs::metadata(&path).ok()?;
        file.is_file()
            .then(|| Self::FileSystem(mount_point(&path, file.dev())))
    }

    /// By which it is configured and shown.
    pub fn name(&self) -> String {
        match self {
            Self::Pool(name) => name.clone(),
            Self::FileSystem(path) => path.display().to_string(),
        }
    }
}

/// The outermost folder of `path` that is of the file system `device`.
fn mount_point(path: &Path, device: u64) -> PathBuf {
    let folders = path.ancestors().skip(1);
    let of_it =
        |folder: &&Path| std::fs::metadata(folder).is_ok_and(|folder| folder.dev() == device);
    let outermost = folders.take_while(of_it).last();
    outermost.unwrap_or(path).to_owned()
}

/// Why a look failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum LookError {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("its space can't be read: {0}")]
    System(#[from] io::Error),
    #[error("the pool {0} is not there")]
    Gone(String),
}

impl LookError {
    /// Whether the store is not there any more.
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Program(error) => error.is_absent(),
            Self::System(_) => false,
            Self::Gone(_) => true,
        }
    }
}

/// What a look found.
#[derive(Debug)]
pub(super) struct Found {
    pub pool: PoolFigures,
    /// For each volume in the order asked for.
    pub datasets: Vec<Option<Dataset>>,
    /// When the end of a transaction group was asked for before.
    pub synced: Option<Instant>,
}

/// What a look does before it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sync {
    /// Ends the transaction group: what is not in the pool is not in its figures.
    Always,
    /// Does so where the pool is near its end.
    NearTheEnd,
    Never,
}

/// Looks at a store and the volumes in it. They are let go before anything is waited for.
pub(super) fn look(
    store: &Store,
    volumes: Vec<Option<Arc<dyn Volume>>>,
    sync: Sync,
) -> Result<Found, LookError> {
    let names: Vec<_> = volumes
        .into_iter()
        .map(|volume| volume.and_then(|volume| volume.dataset()))
        .collect();
    match store {
        Store::FileSystem(mount) => {
            let found = statvfs(mount).map_err(io::Error::from)?;
            let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
            Ok(Found {
                pool: PoolFigures::of_file_system(bytes(found.f_blocks), bytes(found.f_bavail)),
                datasets: names.iter().map(|_| None).collect(),
                synced: None,
            })
        }
        Store::Pool(pool) => {
            let mut asked = vec![pool.clone()];
            asked.extend(names.iter().flatten().cloned());
            let mut synced = None;
            let mut end_group = || {
                synced = Some(Instant::now());
                zfs::sync(pool)
            };
            if sync == Sync::Always {
                end_group()?;
            }
            let mut found = zfs::datasets(&asked)?;
            let is_near = |found: &[Dataset]| {
                let mut roots = found.iter().filter(|dataset| dataset.name == *pool);
                roots.any(|root| {
                    let total = root.used.saturating_add(root.available);
                    policy::is_near(total, root.available, policy::headroom(total))
                })
            };
            if sync == Sync::NearTheEnd && is_near(&found) {
                end_group()?;
                found = zfs::datasets(&asked)?;
            }
            let of = |name: &str| found.iter().find(|dataset| dataset.name == name);
            let root = of(pool).ok_or_else(|| LookError::Gone(pool.clone()))?;
            let figures = PoolFigures::of_pool(root, &zfs::pool(pool)?);
            let datasets = names.iter().map(|name| of(name.as_ref()?).cloned());
            Ok(Found {
                pool: figures,
                datasets: datasets.collect(),
                synced,
            })
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
        let found = look(&store, vec![Some(volume.volume)], Sync::Always).unwrap();
        assert!(found.pool.total >= found.pool.available);
        assert_eq!(found.datasets, [None]);
        let above = mount.parent();
        let device = std::fs::metadata(&path).unwrap().dev();
        assert!(above.is_none_or(|above| std::fs::metadata(above).unwrap().dev() != device));
    }
}
