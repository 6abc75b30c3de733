// SPDX-License-Identifier: Apache-2.0
//! The configuration file's content: JSON, version 2.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use scsi::{Designation, DesignationError};
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use volume::Caching;

use super::access::Access;
use super::guid::DatasetGuid;
use super::host_group::HostGroup;
use super::sealing::SealedSecret;
use super::space::{PoolSettings, ProvisioningChoice, Threshold};

/// The `version` this program writes. It reads version 1 as well.
pub const VERSION: u32 = 2;

/// Port of iSCSI (RFC 7143 4.2.7, IANA).
const ISCSI_PORT: u16 = 3260;

/// All that is configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// [`VERSION`].
    pub version: u32,
    /// Fingerprint of the key that the secrets are sealed with; absent while there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_fingerprint: Option<String>,
    /// Where to listen; absent: every IPv4 address, port 3260. The command line's `--listen` goes before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub portals: Option<Vec<Portal>>,
    /// Portal groups there are or were. What a group's ports are known by is kept when its last portal goes.
    #[serde(default)]
    pub portal_groups: Vec<PortalGroup>,
    /// Groups of hosts that are not offered all offloads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_groups: Vec<HostGroup>,
    /// CHAP of discovery sessions.
    #[serde(default)]
    pub discovery: Accounts,
    /// What is kept back of pools; one that is not named has defaults.
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
            discovery: Accounts::default(),
            pools: Vec::new(),
            targets: Vec::new(),
        }
    }
}

impl Configuration {
    /// The portals to listen at where the command line says nothing.
    pub fn portals(&self) -> Vec<Portal> {
        self.portals
            .clone()
            .unwrap_or_else(|| vec![Portal::everywhere()])
    }

    /// Gives each portal group of `tags` identifiers if it has none: as relative target port identifier its tag, or the lowest
    /// that no other group has.
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

    /// Whether anybody has CHAP accounts.
    pub fn has_accounts(&self) -> bool {
        self.holders().any(|(_, accounts)| accounts.count() > 0)
    }

    /// Every holder of CHAP accounts.
    pub fn holders(&self) -> impl Iterator<Item = (Holder, &Accounts)> {
        let targets = self.targets.iter();
        let of_targets =
            targets.map(|target| (Holder::Target(target.name.clone()), &target.authentication));
        std::iter::once((Holder::Discovery, &self.discovery)).chain(of_targets)
    }
}

/// A network portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Portal {
    /// Address and port to listen at.
    pub address: SocketAddr,
    /// Target portal group tag.
    #[serde(default = "first_group")]
    pub group_tag: u16,
    /// Address and port that discovery tells initiators instead, where address translation stands between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advertised: Option<SocketAddr>,
}

impl Portal {
    /// Every IPv4 address, iSCSI's own port, portal group 1.
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

/// What the target ports of a portal group are known by. Every target has one port in each group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortalGroup {
    /// Target portal group tag (RFC 7143 13.9), 1 or more.
    pub tag: u16,
    /// RELATIVE TARGET PORT IDENTIFIER (SPC-5 7.7.6.8), 1 or more, each group's own.
    pub relative_target_port: u16,
    /// TARGET PORT GROUP (SPC-5 7.7.6.9), 1 or more: ports of one target port group reach logical units alike.
    #[serde(default = "first_group")]
    pub target_port_group: u16,
}

impl PortalGroup {
    /// What is there without any portal.
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
    /// `TargetAlias` shown to initiators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
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

/// CHAP accounts of a target, or of discovery.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accounts {
    /// Whether CHAP is required also without any account, and then nobody can log in. Accounts require it in any case.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// Accounts of initiators.
    #[serde(default)]
    pub incoming: Vec<Account>,
    /// The account the target proves itself with (mutual CHAP).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual: Option<Account>,
}

impl Accounts {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.incoming.len() + usize::from(self.mutual.is_some())
    }

    /// Whether nobody logs in without CHAP.
    pub fn are_required(&self) -> bool {
        self.required || self.count() > 0
    }
}

/// Whose CHAP accounts are meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Holder {
    /// Discovery sessions.
    Discovery,
    /// The target of this name.
    Target(String),
}

/// A CHAP account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// `CHAP_N`.
    pub name: String,
    /// The secret; what it was sealed for is this very place.
    pub sealed_secret: SealedSecret,
    /// The initiators that may use it; any if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initiators: Option<Vec<String>>,
}

/// A logical unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lun {
    /// Logical unit number.
    pub number: u16,
    /// What NAA name and serial number are derived from: belongs to the data, and never changes.
    pub uuid: Uuid,
    /// Names that hosts know it by from another target, and that it keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub designation: Option<KeptNames>,
    /// Regular file or block device; absolute.
    pub path: PathBuf,
    /// The dataset that the zvol at `path` has to be; absent: any, as in files of before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guid: Option<DatasetGuid>,
    /// WCE: whether writes without FUA are cached until SYNCHRONIZE CACHE.
    #[serde(default)]
    pub write_cache: bool,
    /// Refuse writes.
    #[serde(default)]
    pub read_only: bool,
    /// PRODUCT IDENTIFICATION of INQUIRY, at most 16 ASCII characters.
    #[serde(default = "default_product")]
    pub product: String,
    /// Whether the kernel's page cache is used.
    #[serde(default, skip_serializing_if = "is_automatic")]
    pub caching: CachingChoice,
    /// The initiators it is there for, among those the target admits.
    #[serde(default = "Access::any", skip_serializing_if = "Access::is_any")]
    pub initiators: Access,
    /// Directory for the file with persistent reservations that survive a loss of power, absolute; without one none do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservations: Option<PathBuf>,
    /// How it gets its space.
    #[serde(default)]
    pub provisioning: ProvisioningChoice,
    /// Soft threshold of its used space, for its hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_threshold: Option<Threshold>,
    /// What is reserved for its overwrites when the pool is full; absent: a part of the pool's size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headroom_bytes: Option<u64>,
}

/// Names that a logical unit had before it was served here: vendor, unit serial number and designators. They never change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptNames {
    /// T10 VENDOR IDENTIFICATION of INQUIRY, at most 8 ASCII characters; our own if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// Unit serial number.
    pub serial_number: String,
    /// [`scsi::Designator`]s as text, in the order hosts see them.
    pub designators: Vec<String>,
}

impl KeptNames {
    /// As the SCSI device takes them.
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_automatic(choice: &CachingChoice) -> bool {
    *choice == CachingChoice::Automatic
}

/// [`Caching`] by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CachingChoice {
    /// Files through the page cache, block devices past it.
    #[default]
    Automatic,
    /// Through the page cache.
    PageCache,
    /// Past it.
    Direct,
}

impl From<CachingChoice> for Caching {
    fn from(choice: CachingChoice) -> Self {
        match choice {
            CachingChoice::Automatic => Self::Automatic,
            CachingChoice::PageCache => Self::PageCache,
            CachingChoice::Direct => Self::Direct,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_keeps_what_it_is_known_by() {
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
