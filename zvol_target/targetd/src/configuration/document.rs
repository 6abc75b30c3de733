// SPDX-License-Identifier: Apache-2.0
//! Content of the configuration file: JSON, version 2.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use scsi::{Designation, DesignationError};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::access::Access;
use super::guid::DatasetGuid;
use super::host_group::HostGroup;
use super::sealing::SealedSecret;
use super::space::{PoolSettings, ProvisioningChoice, Threshold};

/// The only `version` that this program reads and writes.
pub const VERSION: u32 = 2;

/// Port of iSCSI (RFC 7143 4.2.7, IANA).
const ISCSI_PORT: u16 = 3260;

/// The whole configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// [`VERSION`].
    pub version: u32,
    /// Fingerprint of the key for the secrets; absent before the first key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_fingerprint: Option<String>,
    /// Portals to open. Absent: every IPv4 address, port 3260. `--listen` on the command line overrides it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub portals: Option<Vec<Portal>>,
    /// Identifiers of the portal groups. They are retained when the last portal of a group is deleted.
    #[serde(default)]
    pub portal_groups: Vec<PortalGroup>,
    /// Groups of hosts with disabled offloads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_groups: Vec<HostGroup>,
    /// Settings of pools; other pools have the defaults.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<PoolSettings>,
    /// iSCSI targets.
    #[serde(default)]
    pub targets: Vec<Target>,
}

impl Default for Configuration {
    fn default() -> Self {
        Self {
            version: VERSION,
            key_fingerprint: None,
            portals: None,
            portal_groups: Vec::new(),
            host_groups: Vec::new(),
            pools: Vec::new(),
            targets: Vec::new(),
        }
    }
}

impl Configuration {
    /// The portals to open, unless the command line has some.
    pub fn portals(&self) -> Vec<Portal> {
        self.portals
            .clone()
            .unwrap_or_else(|| vec![Portal::everywhere()])
    }

    /// Assigns identifiers to each portal group of `tags` that has none. The relative target port identifier is the tag, or else
    /// the lowest free number.
    pub fn know_groups(&mut self, tags: impl IntoIterator<Item = u16>) {
        for tag in tags {
            if self.portal_groups.iter().any(|group| group.tag == tag) {
                continue;
            }
            let is_free = |port: &u16| {
                let mut groups = self.portal_groups.iter();
                groups.all(|group| group.relative_target_port != *port)
            };
            let candidates = std::iter::once(tag).chain(1..=u16::MAX);
            if let Some(relative_target_port) = candidates.into_iter().find(is_free) {
                self.portal_groups.push(PortalGroup {
                    tag,
                    relative_target_port,
                    target_port_group: first_group(),
                });
            }
        }
        self.portal_groups.sort_unstable_by_key(|group| group.tag);
    }

    /// Whether any CHAP account exists.
    pub fn has_accounts(&self) -> bool {
        self.targets
            .iter()
            .any(|target| target.authentication.count() > 0)
    }
}

/// A network portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Portal {
    /// Address to listen at.
    pub address: SocketAddr,
    /// Target portal group tag.
    #[serde(default = "first_group")]
    pub group_tag: u16,
    /// Address and port that discovery reports instead, behind address translation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advertised: Option<SocketAddr>,
}

impl Portal {
    /// Every IPv4 address, the iSCSI port, portal group 1.
    pub fn everywhere() -> Self {
        Self {
            address: (Ipv4Addr::UNSPECIFIED, ISCSI_PORT).into(),
            group_tag: first_group(),
            advertised: None,
        }
    }
}

impl From<Portal> for iscsi::Portal {
    fn from(portal: Portal) -> Self {
        let Portal {
            address,
            group_tag,
            advertised,
        } = portal;
        Self {
            address,
            group_tag,
            advertised,
        }
    }
}

/// Identifiers of the target ports of a portal group. Every target has one port in each group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortalGroup {
    /// Target portal group tag (RFC 7143 13.9), 1 or more.
    pub tag: u16,
    /// RELATIVE TARGET PORT IDENTIFIER (SPC-5 7.7.6.8), 1 or more, unique for each group.
    pub relative_target_port: u16,
    /// TARGET PORT GROUP (SPC-5 7.7.6.9), 1 or more. Ports with the same number have the same access to logical units.
    #[serde(default = "first_group")]
    pub target_port_group: u16,
}

impl PortalGroup {
    /// The group that exists without any portal.
    pub const FIRST: Self = Self {
        tag: 1,
        relative_target_port: 1,
        target_port_group: 1,
    };
}

fn first_group() -> u16 {
    1
}

/// An iSCSI target with its logical units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// iSCSI name, in lower case.
    pub name: String,
    /// The initiators that may log in.
    #[serde(default = "Access::nobody")]
    pub initiators: Access,
    /// CHAP.
    #[serde(default)]
    pub authentication: Accounts,
    /// Logical units, in ascending order of their numbers.
    #[serde(default)]
    pub luns: Vec<Lun>,
}

/// CHAP accounts of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accounts {
    /// Whether CHAP is required. Without an account nobody can log in then. With accounts it must be.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// Accounts of initiators.
    #[serde(default)]
    pub incoming: Vec<Account>,
    /// The account with which the target authenticates itself (mutual CHAP).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual: Option<Account>,
}

impl Accounts {
    /// Number of accounts.
    pub fn count(&self) -> usize {
        self.incoming.len() + usize::from(self.mutual.is_some())
    }
}

/// A CHAP account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// `CHAP_N`.
    pub name: String,
    /// The secret, sealed for exactly this account.
    pub sealed_secret: SealedSecret,
    /// The initiators that may use the account; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initiators: Option<Vec<String>>,
}

/// A logical unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lun {
    /// Logical unit number.
    pub number: u16,
    /// Source of the NAA name and the serial number. It belongs to the data and never changes.
    pub uuid: Uuid,
    /// Names from another target, retained so that hosts recognise the unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub designation: Option<RetainedNames>,
    /// Absolute path of a zvol or a regular file.
    pub path: PathBuf,
    /// GUID of the dataset that the zvol at `path` must be; absent in older files: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guid: Option<DatasetGuid>,
    /// Refuse writes.
    #[serde(default)]
    pub read_only: bool,
    /// PRODUCT IDENTIFICATION of INQUIRY, at most 16 ASCII characters.
    #[serde(default = "default_product")]
    pub product: String,
    /// The initiators that may use it, among those of the target.
    #[serde(default = "Access::any")]
    pub initiators: Access,
    /// Absolute directory of the file with persistent reservations. Absent: none survive a restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservations: Option<PathBuf>,
    /// Thin or thick.
    #[serde(default)]
    pub provisioning: ProvisioningChoice,
    /// Soft threshold of its used space: its hosts get a warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_threshold: Option<Threshold>,
}

/// Names of a logical unit that was served by another target: vendor, unit serial number and designators. They never change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetainedNames {
    /// T10 VENDOR IDENTIFICATION of INQUIRY, at most 8 ASCII characters; absent: "ZVAAI".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// Unit serial number.
    pub serial_number: String,
    /// [`scsi::Designator`]s as text, in the order for hosts.
    pub designators: Vec<String>,
}

impl RetainedNames {
    /// Converts them for the SCSI device.
    ///
    /// # Errors
    /// [`scsi::DesignationError`].
    pub fn designation(&self) -> Result<Designation, DesignationError> {
        let designators = self.designators.iter();
        let designators = designators
            .map(|text| text.parse())
            .collect::<Result<_, _>>()?;
        Designation::new(&self.serial_number, designators)
    }
}

fn default_product() -> String {
    "zvaai volume".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_retains_its_identifiers() {
        let mut configuration = Configuration::default();
        let ports = |configuration: &Configuration| -> Vec<_> {
            let groups = configuration.portal_groups.iter();
            groups
                .map(|group| (group.tag, group.relative_target_port))
                .collect()
        };
        configuration.know_groups([7, 2, 2]);
        assert_eq!(ports(&configuration), [(2, 2), (7, 7)]);
        configuration.portal_groups[0].relative_target_port = 3;
        configuration.know_groups([3, 2, 7]);
        assert_eq!(ports(&configuration), [(2, 3), (3, 1), (7, 7)]);
    }
}
