// SPDX-License-Identifier: Apache-2.0
//! Runs the programs `zfs` and `zpool` for the space and identity of datasets.
//!
//! They are child processes because libzfs has no stable interface. Each has a time limit, as a suspended pool never answers.
//! Everything here blocks its thread, except `TransactionGroups`.

mod guid;
mod program;
mod transaction_groups;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use program::{output_of, refused, run};

pub use guid::{GuidError, guid};
pub use program::ProgramError;
pub(crate) use transaction_groups::TransactionGroups;
pub use transaction_groups::last_write;

use crate::ioctl;

/// Space of a dataset in bytes, each from the property of the same name (zfsprops(7)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dataset {
    /// Full name, with the pool.
    pub name: String,
    /// `used`: everything charged to it, including `refreservation`.
    pub used: u64,
    /// `available`: what it can still take, including its reservations.
    pub available: u64,
    /// `referenced`: all of its data. For a clone, this includes data shared with its origin.
    pub referenced: u64,
    /// `usedbydataset`.
    pub used_by_dataset: u64,
    /// `usedbyrefreservation`.
    pub used_by_refreservation: u64,
    /// `reservation`; 0: none.
    pub reservation: u64,
    /// `refreservation`; 0: none.
    pub refreservation: u64,
}

impl Dataset {
    /// Reserved for it and not taken yet.
    pub fn reserved_bytes(&self) -> u64 {
        let by_reservation = self.reservation.saturating_sub(self.used);
        self.used_by_refreservation + by_reservation
    }

    /// Whether its `refreservation` has room for all its data and metadata. What raidz takes for padding is not checked.
    ///
    /// As libzfs's `zvol_volsize_to_reservation()` without raidz: seven levels of the metadnode, and indirect blocks of 1024
    /// pointers, each twice. On raidz it can be less for blocks above 128K, so their metadata does not count.
    pub fn covers(&self, volsize: u64, volblocksize: u32) -> bool {
        let mut metadata = 0;
        if volblocksize <= 128 << 10 {
            let mut blocks = volsize / u64::from(volblocksize);
            let mut indirect = 7;
            while blocks > 1 {
                blocks = blocks.div_ceil(1024);
                indirect += blocks;
            }
            metadata = indirect * 2 * (128 << 10);
        }
        self.refreservation >= volsize.saturating_add(metadata)
    }

    /// What it can take before it uses its reservation. Other datasets can take the same space. Quotas are ignored.
    pub fn unreserved_bytes(&self) -> u64 {
        self.available.saturating_sub(self.reserved_bytes())
    }
}

/// Space of a pool in bytes, each from the property of the same name (zpoolprops(7)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// `size`, parity included.
    pub size: u64,
    /// `free`, parity included.
    pub free: u64,
    /// `bclonesaved`: what shared blocks save, and what overwriting all of them would need.
    pub clone_saved: u64,
}

/// Current dataset name of a zvol (`BLKZNAME`).
///
/// # Errors
/// ENOTTY: it is not a zvol.
pub fn dataset_of(zvol: &File) -> io::Result<String> {
    ioctl::zvol_name(zvol)
}

/// The link of udev to a zvol. `zvol_id` of OpenZFS puts `+` for each space, as no name has `+`.
pub fn link_of(zvol: &str) -> PathBuf {
    Path::new("/dev/zvol").join(zvol.replace(' ', "+"))
}

/// The pool of a dataset.
pub fn pool_of(dataset: &str) -> &str {
    dataset.split(['/', '@']).next().unwrap_or(dataset)
}

const DATASET_PROPERTIES: &str =
    "name,used,available,referenced,usedbydataset,usedbyrefreservation,reservation,refreservation";

/// Space of datasets. The result omits datasets that do not exist.
///
/// # Errors
/// [`ProgramError`] if none of them exists.
pub fn datasets(names: &[String]) -> Result<Vec<Dataset>, ProgramError> {
    let mut arguments = vec!["list", "-Hp", "-o", DATASET_PROPERTIES];
    arguments.extend(names.iter().map(String::as_str));
    let (status, output, message) = run("zfs", &arguments)?;
    let datasets: Vec<_> = output.lines().filter_map(parse_dataset).collect();
    if datasets.is_empty() && !status.success() {
        return Err(refused("zfs", "list", message));
    }
    Ok(datasets)
}

fn parse_dataset(line: &str) -> Option<Dataset> {
    let mut words = line.split('\t');
    let name = words.next()?.to_owned();
    let mut next = || match words.next()? {
        "-" | "none" => Some(0),
        number => number.parse().ok(),
    };
    Some(Dataset {
        name,
        used: next()?,
        available: next()?,
        referenced: next()?,
        used_by_dataset: next()?,
        used_by_refreservation: next()?,
        reservation: next()?,
        refreservation: next()?,
    })
}

/// Space of a pool.
///
/// # Errors
/// [`ProgramError`].
pub fn pool(name: &str) -> Result<Pool, ProgramError> {
    let output = output_of(
        "zpool",
        &["list", "-Hp", "-o", "size,free,bclonesaved", name],
    )?;
    let mut words = output.split_whitespace().map(|word| word.parse().ok());
    let mut next = || words.next().flatten();
    // Without the feature block_cloning, nothing is saved.
    match (next(), next()) {
        (Some(size), Some(free)) => Ok(Pool {
            size,
            free,
            clone_saved: next().unwrap_or(0),
        }),
        _ => Err(refused("zpool", "list", format!("said {output:?}"))),
    }
}

/// Ends the open transaction group of a pool, and waits until it is synced.
///
/// # Errors
/// [`ProgramError`].
pub fn sync(pool: &str) -> Result<(), ProgramError> {
    output_of("zpool", &["sync", pool]).map(drop)
}

/// Sets a property to a number of bytes; 0: none.
///
/// # Errors
/// [`ProgramError::Refused`], for example without the space or the permission.
pub fn set(dataset: &str, property: &str, bytes: u64) -> Result<(), ProgramError> {
    let value = if bytes == 0 {
        format!("{property}=none")
    } else {
        format!("{property}={bytes}")
    };
    output_of("zfs", &["set", &value, dataset]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_as_zfs_prints_them() {
        let line = "tank/a\t872415232\t41943040\t268435456\t268435456\t41943040\t0\t310378496";
        let dataset = parse_dataset(line).unwrap();
        assert_eq!(dataset.name, "tank/a");
        assert_eq!(dataset.reserved_bytes(), 40 << 20);
        assert_eq!(dataset.unreserved_bytes(), 0);
        let line = "tank/b\t100\t80\t100\t100\t0\t150\t-";
        let dataset = parse_dataset(line).unwrap();
        assert_eq!(
            (dataset.reserved_bytes(), dataset.unreserved_bytes()),
            (50, 30)
        );
        assert_eq!(parse_dataset("tank\t1\t2"), None);
    }

    #[test]
    fn a_refreservation_covers_data_and_metadata() {
        // 64 MiB: what `zfs set refreservation=auto` set without raidz, and the least of 1M blocks.
        for (block, auto) in [
            (16 << 10, 70_254_592),
            (64 << 10, 69_206_016),
            (1 << 20, 64 << 20),
        ] {
            let of = |refreservation| Dataset {
                refreservation,
                ..Dataset::default()
            };
            assert!(of(auto).covers(64 << 20, block), "{block}");
            assert!(!of(auto - 1).covers(64 << 20, block), "{block}");
        }
    }

    #[test]
    fn a_link_has_no_space() {
        assert_eq!(link_of("a b/c d"), Path::new("/dev/zvol/a+b/c+d"));
    }

    #[test]
    fn the_pool_is_the_first_part_of_a_name() {
        for name in ["tank", "tank/a", "tank/a/b", "tank@s"] {
            assert_eq!(pool_of(name), "tank");
        }
    }
}
