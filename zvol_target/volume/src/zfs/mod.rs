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

/// Space for data in a pool, bytes.
///
/// `size` and `free` of zpoolprops(7) also count special and dedup vdevs, and the embedded logs. A data block that finds no space on
/// the data vdevs goes to none of these (`zio_dva_allocate()` of OpenZFS 2.3): the pool hangs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// Of data vdevs, parity included, embedded logs not.
    pub size: u64,
    /// Free of it. Too little by what the embedded logs hold now.
    pub free: u64,
    /// Embedded logs of the data vdevs. OpenZFS counts them to its slop space.
    pub embedded_log: u64,
    /// `bclonesaved` (zpoolprops(7)): what shared blocks save, and what overwriting all of them would need.
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
    // The lines of vdevs begin with these columns too.
    let columns = "name,size,allocated,free,bclonesaved";
    let output = output_of("zpool", &["list", "-Hpv", "-o", columns, name])?;
    parse_pool(&output).ok_or_else(|| refused("zpool", "list", format!("said {output:?}")))
}

fn parse_pool(output: &str) -> Option<Pool> {
    let number = |word: Option<&str>| word?.parse::<u64>().ok();
    let mut lines = output.lines();
    let mut pool = Pool {
        // Without the feature block_cloning, nothing is saved.
        clone_saved: number(lines.next()?.split('\t').nth(4)).unwrap_or(0),
        ..Pool::default()
    };
    // Data vdevs come first. Each other class follows a line with its name.
    for line in lines.take_while(|line| line.starts_with('\t')) {
        let mut words = line.split('\t').skip(3);
        // The disks of a mirror or raidz have no figures.
        if let (Some(allocated), Some(free)) = (number(words.next()), number(words.next())) {
            let log = embedded_log(allocated + free);
            pool.size += allocated + free - log;
            pool.free += free.saturating_sub(log);
            pool.embedded_log += log;
        }
    }
    (pool.size > 0).then_some(pool)
}

/// The metaslab that a data vdev reserves for the log, if the vdev had this size when it was added (`vdev_metaslab_set_size()` and
/// `vdev_metaslab_init()` of OpenZFS 2.3).
fn embedded_log(vdev: u64) -> u64 {
    const METASLABS: u64 = 200;
    const SMALLEST: u64 = 512 << 20;
    const LARGEST: u64 = 16 << 30;
    /// `zfs_embedded_slog_min_ms`
    const FEWEST: u64 = 64;
    let metaslab = (vdev / METASLABS + 1).next_power_of_two();
    let metaslab = metaslab.clamp(SMALLEST, LARGEST);
    if vdev / metaslab > FEWEST {
        metaslab
    } else {
        0
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
    fn a_pool_is_read_without_the_vdevs_that_take_no_data() {
        // `zpool list` of OpenZFS 2.3.9.
        let output = "\
ft\t6039797760\t185344\t6039612416\t4096
\tmirror-0\t2013265920\t1000\t2013264920\t-\t-\t0\t0\t-\tONLINE
\t/tmp/d1\t2147483648\t-\t-\t-\t-\t-\t-\t-\tONLINE
\t/tmp/d2\t2147483648\t-\t-\t-\t-\t-\t-\t-\tONLINE
dedup               -      -      -        -         -      -      -      -         -
\t/tmp/d7\t2147483648\t0\t2013265920\t-\t-\t0\t0\t-\tONLINE
special             -      -      -        -         -      -      -      -         -
\t/tmp/d3\t2147483648\t185344\t2013080576\t-\t-\t1\t0\t-\tONLINE
logs                -      -      -        -         -      -      -      -         -
\t/tmp/d4\t2147483648\t0\t2013265920\t-\t-\t0\t0\t-\tONLINE
";
        let read = Pool {
            size: 2_013_265_920,
            free: 2_013_264_920,
            embedded_log: 0,
            clone_saved: 4096,
        };
        assert_eq!(parse_pool(output), Some(read));
        assert_eq!(parse_pool("ft\t1\t1\t0\t-\n"), None);
    }

    #[test]
    fn an_embedded_log_is_one_metaslab_of_a_large_vdev() {
        const GIB: u64 = 1 << 30;
        for (vdev, log) in [(2, 0), (30, 0), (50, 0), (900, 8), (1800, 16), (3584, 16)] {
            assert_eq!(embedded_log(vdev * GIB) / GIB, log, "{vdev}");
        }
        assert_eq!(embedded_log(50 * GIB), 512 << 20);
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
