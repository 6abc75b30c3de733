// SPDX-License-Identifier: Apache-2.0
//! The logical units of a device, and the nexuses that may use them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use crate::access::LogicalUnitAccess;
use crate::additional_sense::AdditionalSense;
use crate::hosts::{CountedNexus, Hosts};
use crate::logical_unit::LogicalUnit;
use crate::offload::{Offload, OffloadPolicy, Offloads};
use crate::sam::Nexus;
use crate::target_port::TargetPort;
use crate::task_set::Abort;

/// Hosts and nexuses that may use a logical unit.
#[derive(Debug, Default)]
pub(crate) struct Audience {
    access: LogicalUnitAccess,
    /// Present nexuses that the access permits. Commands check these instead of the names.
    nexuses: BTreeSet<u64>,
}

impl Audience {
    fn includes(&self, nexus: u64) -> bool {
        self.access == LogicalUnitAccess::Any || self.nexuses.contains(&nexus)
    }
}

/// A logical unit at its number.
struct Mapping {
    unit: Arc<LogicalUnit>,
    audience: Audience,
}

/// A removed unit that can still have tasks: task management must reach them.
struct Removed {
    number: u16,
    unit: Weak<LogicalUnit>,
    audience: Audience,
}

/// A nexus, and its host's offloads.
struct Present {
    counted: Arc<CountedNexus>,
    offloads: Offloads,
}

/// Logical units, nexuses, hosts and ports of one device.
#[derive(Default)]
pub(crate) struct Inventory {
    mappings: BTreeMap<u16, Mapping>,
    removed: Vec<Removed>,
    nexuses: BTreeMap<u64, Present>,
    policy: OffloadPolicy,
    pub(crate) hosts: Hosts,
    pub(crate) device_name: Option<String>,
    pub(crate) target_ports: Vec<TargetPort>,
}

impl Inventory {
    pub(crate) fn contains(&self, number: u16) -> bool {
        self.mappings.contains_key(&number)
    }

    pub(crate) fn unit(&self, number: u16) -> Option<&Arc<LogicalUnit>> {
        self.mappings.get(&number).map(|mapping| &mapping.unit)
    }

    pub(crate) fn units(&self) -> impl Iterator<Item = (u16, &Arc<LogicalUnit>)> {
        self.mappings
            .iter()
            .map(|(&number, mapping)| (number, &mapping.unit))
    }

    pub(crate) fn nexus(&self, nexus: u64) -> Option<&Arc<CountedNexus>> {
        self.nexuses.get(&nexus).map(|present| &present.counted)
    }

    pub(crate) fn nexuses(&self) -> impl Iterator<Item = &Arc<CountedNexus>> {
        self.nexuses.values().map(|present| &present.counted)
    }

    /// The offloads of the nexus' host.
    pub(crate) fn offloads(&self, nexus: &Nexus) -> Offloads {
        self.nexuses.get(&nexus.id).map_or_else(
            || self.policy.of(&nexus.initiator_device),
            |present| present.offloads,
        )
    }

    /// Sets the offloads of hosts. Affected hosts get a unit attention on each of their units.
    pub(crate) fn set_offload_policy(&mut self, policy: OffloadPolicy) {
        for (&nexus, present) in &mut self.nexuses {
            let offloads = policy.of(&present.counted.nexus.initiator_device);
            let before = std::mem::replace(&mut present.offloads, offloads);
            if before == offloads {
                continue;
            }
            // LBPME of READ CAPACITY(16) depends on it too.
            let unmap = [before, offloads].map(|set| set.contains(Offload::Unmap));
            let capacity =
                (unmap[0] != unmap[1]).then_some(AdditionalSense::CAPACITY_DATA_HAS_CHANGED);
            let inquiry = Some(AdditionalSense::INQUIRY_DATA_HAS_CHANGED);
            for condition in [inquiry, capacity].into_iter().flatten() {
                for mapping in self.mappings.values() {
                    mapping.unit.unit_attentions.establish_for(nexus, condition);
                }
            }
        }
        self.policy = policy;
    }

    /// The unit at the number, if the nexus may use it.
    pub(crate) fn visible_unit(&self, nexus: u64, number: u16) -> Option<&Arc<LogicalUnit>> {
        self.mappings
            .get(&number)
            .filter(|mapping| mapping.audience.includes(nexus))
            .map(|mapping| &mapping.unit)
    }

    /// Units that the nexus may use, with their numbers, in ascending order.
    pub(crate) fn visible_units(
        &self,
        nexus: u64,
    ) -> impl Iterator<Item = (u16, &Arc<LogicalUnit>)> {
        self.mappings
            .iter()
            .filter(move |(_, mapping)| mapping.audience.includes(nexus))
            .map(|(&number, mapping)| (number, &mapping.unit))
    }

    /// Numbers of the units that the nexus may use, in ascending order.
    pub(crate) fn visible_numbers(&self, nexus: u64) -> impl Iterator<Item = u16> {
        self.mappings
            .iter()
            .filter(move |(_, mapping)| mapping.audience.includes(nexus))
            .map(|(&number, _)| number)
    }

    /// Units, of all numbers or of one number, that can have tasks: the nexus may use them, or could use them until they were removed.
    pub(crate) fn units_with_tasks(
        &self,
        nexus: u64,
        number: Option<u16>,
    ) -> Vec<Arc<LogicalUnit>> {
        let matches = |of: u16| number.is_none_or(|number| number == of);
        let present = self
            .mappings
            .iter()
            .filter(|(number, mapping)| matches(**number) && mapping.audience.includes(nexus))
            .map(|(_, mapping)| Arc::clone(&mapping.unit));
        let removed = self
            .removed
            .iter()
            .filter(|removed| matches(removed.number) && removed.audience.includes(nexus))
            .filter_map(|removed| removed.unit.upgrade());
        present.chain(removed).collect()
    }

    /// Whether tasks that the initiator device considers ended still run in the unit at the number, or in a unit that it replaced.
    pub(crate) fn is_fenced(&self, number: u16, initiator_device: &str) -> bool {
        let removed = self.removed.iter();
        let mut removed = removed
            .filter(|removed| removed.number == number)
            .filter_map(|removed| removed.unit.upgrade());
        self.unit(number)
            .is_some_and(|unit| unit.tasks.is_fenced(initiator_device))
            || removed.any(|unit| unit.tasks.is_fenced(initiator_device))
    }

    /// Whether the host may use the unit at the number.
    pub(crate) fn permits(&self, number: u16, initiator_device: &str) -> bool {
        self.mappings
            .get(&number)
            .is_some_and(|mapping| mapping.audience.access.permits(initiator_device))
    }

    /// The unit at the number, and the units that it replaced if they can have tasks.
    pub(crate) fn instances(&self, number: u16) -> Vec<Arc<LogicalUnit>> {
        let removed = self
            .removed
            .iter()
            .filter(|removed| removed.number == number)
            .filter_map(|removed| removed.unit.upgrade());
        self.unit(number)
            .cloned()
            .into_iter()
            .chain(removed)
            .collect()
    }

    /// Adds a nexus, with its first unit attentions on each of its units.
    pub(crate) fn add_nexus(&mut self, nexus: &Arc<Nexus>, conditions: &[AdditionalSense]) {
        for mapping in self.mappings.values_mut() {
            if mapping.audience.access.permits(&nexus.initiator_device) {
                mapping.audience.nexuses.insert(nexus.id);
                mapping.unit.unit_attentions.add_nexus(nexus.id, conditions);
            }
        }
        let present = Present {
            counted: self.hosts.arrive(nexus),
            offloads: self.policy.of(&nexus.initiator_device),
        };
        self.nexuses.insert(nexus.id, present);
    }

    /// Removes a nexus. Its tasks are aborted without a status.
    pub(crate) fn remove_nexus(&mut self, nexus: &Nexus) {
        let end = |unit: &LogicalUnit| {
            unit.unit_attentions.remove_nexus(nexus.id);
            unit.copies().remove_nexus(nexus.id);
            unit.tasks.lose_nexus(nexus.id, &nexus.initiator_device);
            if let Some(reservations) = unit.reservations() {
                reservations.nexus_lost(nexus.id);
            }
        };
        for mapping in self.mappings.values_mut() {
            mapping.audience.nexuses.remove(&nexus.id);
            end(&mapping.unit);
        }
        for removed in &mut self.removed {
            removed.audience.nexuses.remove(&nexus.id);
            if let Some(unit) = removed.unit.upgrade() {
                end(&unit);
            }
        }
        if self.nexuses.remove(&nexus.id).is_some() {
            self.hosts.depart(nexus);
        }
    }

    /// Adds a unit at a free number. `conditions` are the unit attentions of each nexus that may use it. With `announce`, these
    /// nexuses get REPORTED LUNS DATA HAS CHANGED on their other units (SPC-5).
    pub(crate) fn add_unit(
        &mut self,
        number: u16,
        unit: Arc<LogicalUnit>,
        access: LogicalUnitAccess,
        conditions: &[AdditionalSense],
        announce: bool,
    ) {
        let nexuses: BTreeSet<u64> = self
            .nexuses
            .iter()
            .filter(|(_, present)| access.permits(&present.counted.nexus.initiator_device))
            .map(|(&id, _)| id)
            .collect();
        for &nexus in &nexuses {
            unit.unit_attentions.add_nexus(nexus, conditions);
            if announce {
                self.announce(nexus, number);
            }
        }
        let audience = Audience { access, nexuses };
        self.mappings.insert(number, Mapping { unit, audience });
    }

    /// Removes the unit at a number. Its tasks run to their end.
    pub(crate) fn take_unit(
        &mut self,
        number: u16,
        announce: bool,
    ) -> Option<(Arc<LogicalUnit>, LogicalUnitAccess)> {
        let Mapping { unit, audience } = self.mappings.remove(&number)?;
        if announce {
            for &nexus in &audience.nexuses {
                self.announce(nexus, number);
            }
        }
        let access = audience.access.clone();
        self.removed
            .retain(|removed| removed.unit.strong_count() > 0);
        self.removed.push(Removed {
            number,
            unit: Arc::downgrade(&unit),
            audience,
        });
        Some((unit, access))
    }

    /// Changes the access to a unit. Tasks of nexuses that lose it end with TASK ABORTED, also in units that it replaced.
    ///
    /// `conditions` are the unit attentions of nexuses that gain the unit. Nexuses that gain or lose it get REPORTED LUNS DATA
    /// HAS CHANGED on their other units; other nexuses get nothing.
    pub(crate) fn set_access(
        &mut self,
        number: u16,
        access: LogicalUnitAccess,
        conditions: &[AdditionalSense],
    ) -> bool {
        let Some(mapping) = self.mappings.get_mut(&number) else {
            return false;
        };
        let unit = &mapping.unit;
        let audience = &mut mapping.audience;
        let mut affected = Vec::new();
        for (&id, present) in &self.nexuses {
            let permitted = access.permits(&present.counted.nexus.initiator_device);
            if permitted && audience.nexuses.insert(id) {
                unit.unit_attentions.add_nexus(id, conditions);
                affected.push(id);
            } else if !permitted && audience.nexuses.remove(&id) {
                unit.unit_attentions.remove_nexus(id);
                if let Some(reservations) = unit.reservations() {
                    reservations.nexus_lost(id);
                }
                affected.push(id);
            }
        }
        audience.access = access;
        let replaced = self
            .removed
            .iter()
            .filter(|removed| removed.number == number);
        let replaced = replaced.filter_map(|removed| removed.unit.upgrade());
        for unit in replaced.chain([Arc::clone(unit)]) {
            unit.tasks
                .abort(|nexus, _| (!audience.includes(nexus)).then_some(Abort::WithStatus));
        }
        for nexus in affected {
            self.announce(nexus, number);
        }
        true
    }

    /// INQUIRY DATA HAS CHANGED for every nexus, on every unit.
    pub(crate) fn inquiry_data_changed(&self) {
        for (_, unit) in self.units() {
            unit.unit_attentions
                .establish(AdditionalSense::INQUIRY_DATA_HAS_CHANGED, None);
        }
    }

    /// REPORTED LUNS DATA HAS CHANGED for one nexus, on all its units except the changed one.
    fn announce(&self, nexus: u64, number: u16) {
        for (&other, mapping) in &self.mappings {
            if other != number && mapping.audience.includes(nexus) {
                mapping
                    .unit
                    .unit_attentions
                    .establish_for(nexus, AdditionalSense::REPORTED_LUNS_DATA_HAS_CHANGED);
            }
        }
    }
}
