// SPDX-License-Identifier: Apache-2.0
//! Checks that an opened zvol is the dataset of the logical unit.
//!
//! The name is not enough: a replica can be imported or received under the name of a lost pool. Hosts would continue on its older
//! data, and write data that the original lacks.

use std::path::Path;

use volume::Volume;
use volume::zfs::{GuidError, guid};

use crate::configuration::DatasetGuid;

/// Why a volume is not the expected dataset, or is not known to be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error texts name the fields")]
pub enum IdentityError {
    /// A different dataset, such as a copy.
    #[error(
        "{path}: {dataset} has the GUID {actual}, and the LUN needs the dataset with the GUID {expected}: it is a copy, or another \
         volume of that name, and is not served; restore the right dataset, or set the LUN's GUID to {actual}"
    )]
    Other {
        path: String,
        /// Name of the dataset found.
        dataset: String,
        /// Its GUID.
        actual: DatasetGuid,
        /// GUID of the configuration.
        expected: DatasetGuid,
    },
    /// Only datasets have a GUID.
    #[error("{path}: it is not a zvol, and the LUN needs the dataset with the GUID {expected}")]
    NotAZvol {
        path: String,
        /// GUID of the configuration.
        expected: DatasetGuid,
    },
    /// The dataset was renamed during the check.
    #[error("{path}: {dataset} was renamed while its GUID was read")]
    Renamed {
        path: String,
        /// Its name before.
        dataset: String,
    },
    /// The GUID could not be read.
    #[error("{path}: cannot check that it is the dataset with the GUID {expected}: {error}")]
    Unknown {
        path: String,
        /// GUID of the configuration.
        expected: DatasetGuid,
        #[source]
        error: GuidError,
    },
}

/// Checks that an open volume is the dataset with this GUID. The result holds while the volume is open, even if datasets are
/// renamed. Blocks.
///
/// # Errors
/// [`IdentityError`].
pub(super) fn check(
    volume: &dyn Volume,
    path: &Path,
    expected: DatasetGuid,
) -> Result<(), IdentityError> {
    check_by(|| volume.dataset(), path, expected, guid)
}

fn check_by(
    name: impl Fn() -> Option<String>,
    path: &Path,
    expected: DatasetGuid,
    guid: impl Fn(&str) -> Result<u64, GuidError>,
) -> Result<(), IdentityError> {
    let path = path.display().to_string();
    let Some(dataset) = name() else {
        return Err(IdentityError::NotAZvol { path, expected });
    };
    let actual = match guid(&dataset) {
        Ok(actual) => DatasetGuid(actual),
        Err(error) => {
            return Err(IdentityError::Unknown {
                path,
                expected,
                error,
            });
        }
    };
    // The GUID was read by name.
    if name().as_ref() != Some(&dataset) {
        return Err(IdentityError::Renamed { path, dataset });
    }
    if actual != expected {
        return Err(IdentityError::Other {
            path,
            dataset,
            actual,
            expected,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const PATH: &str = "/dev/zvol/tank/a";
    const EXPECTED: DatasetGuid = DatasetGuid(7);

    fn check_named(name: Option<&str>, guid: u64) -> Result<(), IdentityError> {
        let name = || name.map(str::to_owned);
        check_by(name, Path::new(PATH), EXPECTED, |_| Ok(guid))
    }

    #[test]
    fn only_the_dataset_itself_is_served() {
        check_named(Some("tank/a"), 7).unwrap();
        let other = check_named(Some("tank/a"), 8).unwrap_err();
        assert!(matches!(
            other,
            IdentityError::Other {
                actual: DatasetGuid(8),
                ..
            }
        ));
        let text = other.to_string();
        assert!(text.contains("GUID 8") && text.contains("GUID 7") && text.contains(PATH));
        let file = check_named(None, 7);
        assert!(matches!(file, Err(IdentityError::NotAZvol { .. })));
    }

    #[test]
    fn a_unit_with_unknown_reservations_is_not_served() {
        let path = Path::new(PATH);
        let absent = |name: &str| Err(GuidError::Absent(name.to_owned()));
        let unknown = check_by(|| Some("tank/a".to_owned()), path, EXPECTED, absent);
        assert!(matches!(unknown, Err(IdentityError::Unknown { .. })));
        let calls = Cell::new(0);
        let renamed = || {
            calls.set(calls.get() + 1);
            Some(format!("tank/{}", calls.get()))
        };
        let unknown = check_by(renamed, path, EXPECTED, |_| Ok(7));
        assert!(matches!(unknown, Err(IdentityError::Renamed { .. })));
    }
}
