// SPDX-License-Identifier: Apache-2.0
//! Groups of hosts with disabled offloads.

use std::collections::{BTreeSet, HashMap, HashSet};

use iscsi::IscsiName;
use scsi::{Offload, OffloadPolicy, Offloads};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::access::Access;
use super::validation::{Invalid, TEXT_LENGTH_MAX, invalid};

/// Hosts with the same disabled offloads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostGroup {
    /// Name that the administrator chose.
    pub name: String,
    /// Its hosts.
    #[serde(serialize_with = "as_list", deserialize_with = "from_list")]
    pub initiators: BTreeSet<IscsiName>,
    /// Offloads that are reported as unsupported to its hosts, and refused.
    pub disabled: BTreeSet<OffloadName>,
}

fn as_list<S: Serializer>(names: &BTreeSet<IscsiName>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(names.iter().map(IscsiName::as_str))
}

fn from_list<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeSet<IscsiName>, D::Error> {
    match Access::deserialize(from)? {
        Access::Initiators(names) => Ok(names),
        Access::Any => Err(de::Error::custom("write a list of initiator names")),
    }
}

/// [`Offload`] by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OffloadName {
    /// EXTENDED COPY.
    ExtendedCopy,
    /// WRITE SAME.
    WriteSame,
    /// UNMAP.
    Unmap,
    /// Copies by token (ODX).
    Token,
}

impl From<OffloadName> for Offload {
    fn from(name: OffloadName) -> Self {
        match name {
            OffloadName::ExtendedCopy => Self::ExtendedCopy,
            OffloadName::WriteSame => Self::WriteSame,
            OffloadName::Unmap => Self::Unmap,
            OffloadName::Token => Self::Token,
        }
    }
}

impl HostGroup {
    fn offloads(&self) -> Offloads {
        let disabled = self.disabled.iter().copied().map(Offload::from);
        disabled.fold(Offloads::ALL, Offloads::without)
    }
}

/// Converts the groups for SCSI devices. A host without group has all offloads.
pub fn offload_policy(groups: &[HostGroup]) -> OffloadPolicy {
    let hosts = groups.iter().flat_map(|group| {
        let names = group.initiators.iter();
        names.map(|name| (name.as_str().to_owned(), group.offloads()))
    });
    OffloadPolicy(hosts.collect())
}

pub(super) fn validate(groups: &[HostGroup]) -> Result<(), Invalid> {
    let mut names = HashSet::new();
    let mut hosts = HashMap::new();
    for (at, group) in groups.iter().enumerate() {
        // The name, as a caller that sets one group does not know the index.
        let place = |field: &str| format!("host_groups[{:?}].{field}", group.name);
        if group.name.is_empty() || group.name.len() > TEXT_LENGTH_MAX {
            let reason = format!("has 1 to {TEXT_LENGTH_MAX} bytes");
            return Err(invalid(format!("host_groups[{at}].name"), reason));
        }
        if !names.insert(&group.name) {
            let reason = format!("{:?} occurs twice", group.name);
            return Err(invalid(place("name"), reason));
        }
        for host in &group.initiators {
            if let Some(other) = hosts.insert(host, &group.name) {
                let reason = format!("{host} is in {other:?} already");
                return Err(invalid(place("initiators"), reason));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(text: &str) -> Vec<HostGroup> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_host_has_the_offloads_that_its_group_does_not_disable() {
        let groups = groups(
            r#"[{"name": "old", "initiators": ["iqn.2026-11.example:A"], "disabled": ["unmap", "token"]},
                {"name": "more", "initiators": ["iqn.2026-11.example:b"], "disabled": ["write_same"]}]"#,
        );
        validate(&groups).unwrap();
        let policy = offload_policy(&groups);
        let old = policy.of("iqn.2026-11.example:a");
        let other = policy.of("iqn.2026-11.example:b");
        for offload in Offload::ALL {
            let disabled = matches!(offload, Offload::Unmap | Offload::Token);
            assert_eq!(old.contains(offload), !disabled);
            assert_eq!(other.contains(offload), offload != Offload::WriteSame);
            assert!(policy.of("iqn.2026-11.example:c").contains(offload));
        }
        assert_eq!(offload_policy(&[]), OffloadPolicy::default());
    }

    #[test]
    fn groups_that_contradict_each_other_are_refused() {
        for (wrong, place) in [
            (
                r#"[{"name": "", "initiators": [], "disabled": []}]"#,
                "host_groups[0].name",
            ),
            (
                r#"[{"name": "a", "initiators": [], "disabled": []}, {"name": "a", "initiators": [], "disabled": []}]"#,
                "host_groups[\"a\"].name",
            ),
            (
                r#"[{"name": "a", "initiators": ["iqn.2026-11.example:a"], "disabled": []},
                    {"name": "b", "initiators": ["iqn.2026-11.example:a"], "disabled": []}]"#,
                "host_groups[\"b\"].initiators",
            ),
        ] {
            assert_eq!(validate(&groups(wrong)).unwrap_err().place, place);
        }
    }
}
