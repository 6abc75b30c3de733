// SPDX-License-Identifier: Apache-2.0
//! Changes of a logical unit.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer};

use crate::configuration::{Access, DatasetGuid, Lun, ProvisioningChoice, Threshold};

/// Location of the persistent reservations that survive a power loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReservationPlace {
    /// None survive.
    Nowhere,
    /// In a file in this directory.
    Directory(PathBuf),
}

impl From<Option<PathBuf>> for ReservationPlace {
    fn from(directory: Option<PathBuf>) -> Self {
        directory.map_or(Self::Nowhere, Self::Directory)
    }
}

/// Change of an optional setting.
#[derive(Clone, Copy, Debug, Default)]
pub enum Setting<T> {
    /// No change.
    #[default]
    Stays,
    /// A new value, or none.
    To(T),
}

impl<T> Setting<T> {
    fn or(self, before: T) -> T {
        match self {
            Self::Stays => before,
            Self::To(after) => after,
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Setting<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::To)
    }
}

/// Settings to change; `None`: no change.
#[derive(Clone, Debug, Default)]
pub struct LunChange {
    /// Regular file or block device.
    pub path: Option<PathBuf>,
    /// GUID that the zvol must have.
    pub guid: Setting<Option<DatasetGuid>>,
    /// WCE.
    pub write_cache: Option<bool>,
    /// Refuse writes.
    pub read_only: Option<bool>,
    /// PRODUCT IDENTIFICATION.
    pub product: Option<String>,
    /// The initiators that may use it.
    pub initiators: Option<Access>,
    /// Location of persistent reservations.
    pub reservations: Option<ReservationPlace>,
    /// Thin or thick.
    pub provisioning: Option<ProvisioningChoice>,
    /// Soft threshold for hosts.
    pub soft_threshold: Setting<Option<Threshold>>,
}

impl LunChange {
    pub(super) fn applied_to(self, lun: &Lun) -> Lun {
        let Lun {
            number,
            uuid,
            designation,
            path,
            guid,
            write_cache,
            read_only,
            product,
            initiators,
            reservations,
            provisioning,
            soft_threshold,
        } = lun.clone();
        Lun {
            number,
            uuid,
            designation,
            path: self.path.unwrap_or(path),
            guid: self.guid.or(guid),
            write_cache: self.write_cache.unwrap_or(write_cache),
            read_only: self.read_only.unwrap_or(read_only),
            product: self.product.unwrap_or(product),
            initiators: self.initiators.unwrap_or(initiators),
            reservations: match self.reservations {
                None => reservations,
                Some(ReservationPlace::Nowhere) => None,
                Some(ReservationPlace::Directory(path)) => Some(path),
            },
            provisioning: self.provisioning.unwrap_or(provisioning),
            soft_threshold: self.soft_threshold.or(soft_threshold),
        }
    }
}
