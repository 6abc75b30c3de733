// SPDX-License-Identifier: Apache-2.0
//! Offloads that a host may use.

use std::collections::BTreeMap;

/// Commands that are enabled together. A disabled offload is not advertised, and is refused like an unknown command. COMPARE AND
/// WRITE is always enabled: a host does not mount VMFS without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Offload {
    /// EXTENDED COPY and RECEIVE COPY RESULTS.
    ExtendedCopy,
    /// WRITE SAME(10), (16).
    WriteSame,
    /// UNMAP.
    Unmap,
    /// POPULATE TOKEN, WRITE USING TOKEN, RECEIVE ROD TOKEN INFORMATION (ODX).
    Token,
}

impl Offload {
    /// All offloads.
    pub const ALL: [Self; 4] = [
        Self::ExtendedCopy,
        Self::WriteSame,
        Self::Unmap,
        Self::Token,
    ];

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of offloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offloads(u8);

impl Offloads {
    /// Every one: the default.
    pub const ALL: Self = Self((1 << Offload::ALL.len()) - 1);
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Whether the offload is in the set.
    pub fn contains(self, offload: Offload) -> bool {
        self.0 & offload.bit() != 0
    }

    /// The set with the offload.
    #[must_use]
    pub fn with(self, offload: Offload) -> Self {
        Self(self.0 | offload.bit())
    }

    /// The set without the offload.
    #[must_use]
    pub fn without(self, offload: Offload) -> Self {
        Self(self.0 & !offload.bit())
    }
}

impl Default for Offloads {
    fn default() -> Self {
        Self::ALL
    }
}

impl FromIterator<Offload> for Offloads {
    fn from_iter<I: IntoIterator<Item = Offload>>(offloads: I) -> Self {
        offloads.into_iter().fold(Self::NONE, Self::with)
    }
}

/// Offloads by initiator device name. Other hosts have every offload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffloadPolicy(pub BTreeMap<String, Offloads>);

impl OffloadPolicy {
    /// Offloads of the host with this initiator device name.
    pub fn of(&self, initiator_device: &str) -> Offloads {
        self.0.get(initiator_device).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_contains_its_members() {
        let set: Offloads = [Offload::Unmap, Offload::Token].into_iter().collect();
        for offload in Offload::ALL {
            let inside = matches!(offload, Offload::Unmap | Offload::Token);
            assert_eq!(set.contains(offload), inside);
            assert!(Offloads::ALL.contains(offload) && !Offloads::NONE.contains(offload));
            assert!(set.with(offload).contains(offload));
            assert!(!set.without(offload).contains(offload));
        }
        assert_eq!(
            Offload::ALL.into_iter().collect::<Offloads>(),
            Offloads::ALL
        );
    }

    #[test]
    fn a_host_has_its_own_or_all() {
        let policy = OffloadPolicy([("host".to_owned(), Offloads::NONE)].into());
        assert_eq!(policy.of("host"), Offloads::NONE);
        assert_eq!(policy.of("other"), Offloads::ALL);
    }
}
