//! The configuration file's content: JSON, version 1.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use uuid::Uuid;
use volume::Caching;

/// The `version` this program reads and writes.
pub const VERSION: u32 = 1;

/// All that is configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// [`VERSION`].
    pub version: u32,
    /// Where to listen; empty means every IPv4 address, port 3260. The command line's `--listen` goes before.
    #[serde(default)]
    pub portals: Vec<Portal>,
    /// iSCSI targets.
    #[serde(default)]
    pub targets: Vec<Target>,
}

impl Default for Configuration {
    fn default() -> Self {
        Self {
            version: VERSION,
            portals: Vec::new(),
            targets: Vec::new(),
        }
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
    /// Names of the initiators that may log in; empty means any.
    #[serde(default)]
    pub initiators: Vec<String>,
    /// CHAP accounts of initiators; CHAP is required when there is one.
    #[serde(default)]
    pub accounts: Vec<Account>,
    /// The account the target proves itself with (mutual CHAP).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual_account: Option<Account>,
    /// Logical units, in ascending order of their numbers.
    #[serde(default)]
    pub luns: Vec<Lun>,
}

impl Target {
    /// A target with nothing but its name.
    pub fn named(name: String) -> Self {
        Self {
            name,
            alias: None,
            initiators: Vec::new(),
            accounts: Vec::new(),
            mutual_account: None,
            luns: Vec::new(),
        }
    }
}

/// A CHAP account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// `CHAP_N`.
    pub name: String,
    /// The secret, 12 to 255 bytes.
    pub secret: SecretText,
    /// The only initiator that may use it; any if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initiator: Option<String>,
}

/// A secret. Never shown by `Debug`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretText(pub String);

impl fmt::Debug for SecretText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SecretText(..)")
    }
}

/// A logical unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lun {
    /// Logical unit number.
    pub number: u16,
    /// What NAA name and serial number are derived from: belongs to the data, and never changes.
    pub uuid: Uuid,
    /// Regular file or block device; absolute.
    pub path: PathBuf,
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
