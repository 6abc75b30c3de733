// SPDX-License-Identifier: Apache-2.0
//! A SCSI target device: logical units by number, and their nexuses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use crate::access::LogicalUnitAccess;
use crate::additional_sense::AdditionalSense;
use crate::address::{Address, MAXIMUM_LOGICAL_UNIT_NUMBER};
use crate::execution::Failure;
use crate::identity::ProductIdentification;
use crate::inventory::Inventory;
use crate::logical_unit::{LogicalUnit, UnitTasks};
use crate::offload::OffloadPolicy;
use crate::router::{self, Admitted};
use crate::sam::{
    Command, Completion, DataOut, FunctionResponse, LocalBoxFuture, Nexus, Outcome, ScsiTarget,
    Status, TaskManagementFunction,
};
use crate::sense::Sense;
use crate::statistics::Statistics;
use crate::target_port::TargetPort;
use crate::task_management;
use crate::task_set::TaskSet;
use crate::third_party_copy::{CopyManager, Tokens};

/// Why the inventory of logical units was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InventoryError {
    /// Too large for the addressing.
    #[error("logical unit number {0} is too large: the largest is {MAXIMUM_LOGICAL_UNIT_NUMBER}")]
    NumberTooLarge(u16),
    /// The number belongs to a logical unit.
    #[error("logical unit number {0} is in use")]
    InUse(u16),
    /// No logical unit has the number.
    #[error("there is no logical unit {0}")]
    Absent(u16),
}

/// Unit attentions of a unit that is new for a nexus.
const NEW_UNIT: [AdditionalSense; 1] =
    [AdditionalSense::POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED];

const OTHER_DISK: [AdditionalSense; 4] = [
    AdditionalSense::POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED,
    AdditionalSense::REPORTED_LUNS_DATA_HAS_CHANGED,
    AdditionalSense::INQUIRY_DATA_HAS_CHANGED,
    AdditionalSense::CAPACITY_DATA_HAS_CHANGED,
];

/// A SCSI target device (SAM-5) with direct-access logical units.
///
/// Logical units can be added and removed at run time. Tasks of a removed unit run to their end; its volume is dropped after the
/// last one.
pub struct Device {
    product: ProductIdentification,
    inventory: RwLock<Inventory>,
    pub(crate) copy_manager: CopyManager,
    pub(crate) tokens: Tokens,
}

impl Device {
    /// A device without logical units. INQUIRY to a number without unit returns `product`.
    pub fn new(product: ProductIdentification) -> Self {
        Self {
            product,
            inventory: RwLock::default(),
            copy_manager: CopyManager::default(),
            tokens: Tokens::default(),
        }
    }

    /// Sets the target ports. Before the first call, Device Identification names only the relative target port identifier of the
    /// port in use. After a change, every nexus gets INQUIRY DATA HAS CHANGED.
    pub fn set_target_ports(&self, ports: Vec<TargetPort>) {
        let mut inventory = self.write();
        if inventory.target_ports != ports {
            inventory.target_ports = ports;
            inventory.inquiry_data_changed();
        }
    }

    /// Sets the SCSI device name of the target, in UTF-8. For iSCSI: its iSCSI name. After a change, every nexus gets INQUIRY
    /// DATA HAS CHANGED.
    pub fn set_name(&self, name: impl Into<String>) {
        let name = Some(name.into());
        let mut inventory = self.write();
        if inventory.device_name != name {
            inventory.device_name = name;
            inventory.inquiry_data_changed();
        }
    }

    /// Adds a logical unit for the hosts of `access`. Their nexuses get REPORTED LUNS DATA HAS CHANGED on the older units, and
    /// POWER ON, RESET, OR BUS DEVICE RESET OCCURRED on the new one.
    ///
    /// # Errors
    /// [`InventoryError::NumberTooLarge`], [`InventoryError::InUse`].
    pub fn insert_logical_unit(
        &self,
        number: u16,
        unit: impl Into<Arc<LogicalUnit>>,
        access: LogicalUnitAccess,
    ) -> Result<(), InventoryError> {
        if number > MAXIMUM_LOGICAL_UNIT_NUMBER {
            return Err(InventoryError::NumberTooLarge(number));
        }
        let mut inventory = self.write();
        if inventory.contains(number) {
            return Err(InventoryError::InUse(number));
        }
        inventory.add_unit(number, unit.into(), access, &NEW_UNIT, true);
        Ok(())
    }

    /// Replaces a logical unit, for the same hosts. Returns the old one, on which tasks run to their end.
    ///
    /// A unit with another UUID is another disk. Hosts get POWER ON, RESET, OR BUS DEVICE RESET OCCURRED, REPORTED LUNS DATA HAS
    /// CHANGED, INQUIRY DATA HAS CHANGED and CAPACITY DATA HAS CHANGED on it.
    ///
    /// With the same UUID it is the same disk, with the same mode parameters, counters and pending unit attentions. Hosts get a
    /// unit attention for each difference: NOT READY TO READY CHANGE, MEDIUM MAY HAVE CHANGED if it was [not
    /// ready](LogicalUnit::not_ready) and is now; MODE PARAMETERS CHANGED; INQUIRY DATA HAS CHANGED; CAPACITY DATA HAS CHANGED.
    ///
    /// # Errors
    /// [`InventoryError::Absent`].
    pub fn replace_logical_unit(
        &self,
        number: u16,
        unit: impl Into<Arc<LogicalUnit>>,
    ) -> Result<Arc<LogicalUnit>, InventoryError> {
        let unit = unit.into();
        let mut inventory = self.write();
        let present = inventory
            .unit(number)
            .ok_or(InventoryError::Absent(number))?;
        let same_disk = present.options.uuid == unit.options.uuid;
        let conditions = if same_disk {
            unit.inherit(present);
            unit.differences(present)
        } else {
            OTHER_DISK.to_vec()
        };
        let (old, access) = inventory
            .take_unit(number, !same_disk)
            .ok_or(InventoryError::Absent(number))?;
        inventory.add_unit(number, unit, access, &conditions, !same_disk);
        Ok(old)
    }

    /// Removes a logical unit and returns it. Commands to its number then get LOGICAL UNIT NOT SUPPORTED.
    ///
    /// # Errors
    /// [`InventoryError::Absent`].
    pub fn remove_logical_unit(&self, number: u16) -> Result<Arc<LogicalUnit>, InventoryError> {
        let taken = self.write().take_unit(number, true);
        taken
            .map(|(unit, _)| unit)
            .ok_or(InventoryError::Absent(number))
    }

    /// Changes the hosts of a logical unit.
    ///
    /// For hosts that lose it, the number has no logical unit at once. Their tasks on it end with TASK ABORTED; a task in an
    /// operation of the volume ends after that. Hosts that gain or lose the unit get REPORTED LUNS DATA HAS CHANGED on their
    /// other units. Hosts that gain it get POWER ON, RESET, OR BUS DEVICE RESET OCCURRED on it. Other hosts get nothing.
    ///
    /// # Errors
    /// [`InventoryError::Absent`].
    pub fn set_access(&self, number: u16, access: LogicalUnitAccess) -> Result<(), InventoryError> {
        if self.write().set_access(number, access, &NEW_UNIT) {
            Ok(())
        } else {
            Err(InventoryError::Absent(number))
        }
    }

    /// Sets the offloads of hosts; the default is all for every host. Running commands run to their end.
    ///
    /// Affected hosts get INQUIRY DATA HAS CHANGED on their units, and also CAPACITY DATA HAS CHANGED if UNMAP changes.
    pub fn set_offload_policy(&self, policy: OffloadPolicy) {
        self.write().set_offload_policy(policy);
    }

    /// Counters of every host by initiator device name, over all its nexuses from the creation of the device on. For hosts
    /// without a nexus, only the last 256 are retained.
    pub fn host_statistics(&self) -> BTreeMap<String, Statistics> {
        self.read().hosts.statistics()
    }

    /// The logical unit at a number.
    pub fn logical_unit(&self, number: u16) -> Option<Arc<LogicalUnit>> {
        self.read().unit(number).cloned()
    }

    /// Checks the size of the unit's volume. If it has changed, every nexus gets a unit attention. Without this call, that
    /// happens after the next command that checks the capacity.
    ///
    /// # Errors
    /// [`InventoryError::Absent`].
    pub fn capacity_changed(&self, number: u16) -> Result<(), InventoryError> {
        let unit = self
            .logical_unit(number)
            .ok_or(InventoryError::Absent(number))?;
        // Reading the capacity detects a change.
        let _ = unit.capacity();
        Ok(())
    }

    /// The volume's data was changed without commands, for example by a rollback. Cancels the tokens of the unit, and checks its
    /// size as in [`Device::capacity_changed`].
    ///
    /// # Errors
    /// [`InventoryError::Absent`].
    pub fn content_changed(&self, number: u16) -> Result<(), InventoryError> {
        let unit = self
            .logical_unit(number)
            .ok_or(InventoryError::Absent(number))?;
        unit.ranges.note_change_of_all();
        let _ = unit.capacity();
        Ok(())
    }

    pub(crate) fn product(&self) -> &ProductIdentification {
        &self.product
    }

    /// Numbers of the units that the nexus may use, in ascending order.
    pub(crate) fn visible_numbers(&self, nexus: &Nexus) -> Vec<u16> {
        self.read().visible_numbers(nexus.id).collect()
    }

    /// The unit at a number, if a nexus of this device may use it.
    pub(crate) fn unit_of_nexus(&self, nexus: &Nexus, number: u16) -> Option<Arc<LogicalUnit>> {
        self.read().visible_unit(nexus.id, number).cloned()
    }

    /// The first unit that a nexus of this device may use and that meets the condition.
    pub(crate) fn find_for_nexus(
        &self,
        nexus: &Nexus,
        matches: impl Fn(&LogicalUnit) -> bool,
    ) -> Option<(u16, Arc<LogicalUnit>)> {
        let inventory = self.read();
        let mut units = inventory.visible_units(nexus.id);
        let unit = units.find(|(_, unit)| matches(unit));
        unit.map(|(number, unit)| (number, Arc::clone(unit)))
    }

    /// Name and ports of the device.
    pub(crate) fn names(&self) -> (Option<String>, Vec<TargetPort>) {
        let inventory = self.read();
        (
            inventory.device_name.clone(),
            inventory.target_ports.clone(),
        )
    }

    /// Every present nexus.
    pub(crate) fn nexuses(&self) -> Vec<Arc<Nexus>> {
        let inventory = self.read();
        let nexuses = inventory.nexuses();
        nexuses.map(|counted| Arc::clone(&counted.nexus)).collect()
    }

    /// Relative target port identifiers of all ports, including the port of the nexus.
    pub(crate) fn relative_target_ports(&self, nexus: &Nexus) -> BTreeSet<u16> {
        let inventory = self.read();
        let ports = inventory.target_ports.iter();
        ports
            .map(|port| port.relative_target_port)
            .chain([nexus.relative_target_port])
            .collect()
    }

    /// Whether a host may use the unit at a number.
    pub(crate) fn permits(&self, number: u16, initiator_device: &str) -> bool {
        self.read().permits(number, initiator_device)
    }

    /// The unit at a number, and the units that it replaced if they can have tasks.
    pub(crate) fn instances(&self, number: u16) -> Vec<Arc<LogicalUnit>> {
        self.read().instances(number)
    }

    /// Calls `act` if the nexus is present and may use the unit at the number. Both remain true during the call.
    ///
    /// # Errors
    /// [`Failure::Aborted`] if the nexus was lost, LOGICAL UNIT NOT SUPPORTED, and those of `act`.
    pub(crate) fn while_seen<T>(
        &self,
        nexus: &Nexus,
        number: u16,
        act: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let inventory = self.read();
        inventory.nexus(nexus.id).ok_or(Failure::Aborted)?;
        if inventory.visible_unit(nexus.id, number).is_none() {
            return Err(Sense::illegal_request(AdditionalSense::LOGICAL_UNIT_NOT_SUPPORTED).into());
        }
        act()
    }

    /// The nexus gets the present inventory (SAM-5 5.14, LUICLR = 1).
    pub(crate) fn clear_reported_luns_changed(&self, nexus: u64) {
        for (_, unit) in self.read().units() {
            unit.unit_attentions
                .clear(nexus, AdditionalSense::REPORTED_LUNS_DATA_HAS_CHANGED);
        }
    }

    /// Units for a task management function of the nexus, of all numbers or of one: those that it may use, and removed units with
    /// tasks.
    pub(crate) fn units_with_tasks(
        &self,
        nexus: &Nexus,
        number: Option<u16>,
    ) -> Vec<Arc<LogicalUnit>> {
        self.read().units_with_tasks(nexus.id, number)
    }

    /// Adds the command to the task set of its unit, if its nexus may use it. Holds the lock, so that no task remains of a nexus
    /// that loses the unit.
    fn admit(&self, nexus: Arc<Nexus>, command: &Command) -> Addressed {
        let Address::Number(number) = Address::from(command.logical_unit) else {
            return Addressed::NoUnit(nexus);
        };
        let inventory = self.read();
        let Some(unit) = inventory.visible_unit(nexus.id, number) else {
            drop(inventory);
            return Addressed::NoUnit(nexus);
        };
        if inventory.is_fenced(number, &nexus.initiator_device)
            && !router::runs_while_not_ready(&command.cdb)
        {
            return Addressed::Fenced;
        }
        let task = TaskSet::enter(
            UnitTasks(Arc::clone(unit)),
            nexus.id,
            command.identifier,
            command.attribute,
        );
        task.map_or(Addressed::TaskSetFull, |task| {
            Addressed::Admitted(Admitted {
                number,
                unit: Arc::clone(unit),
                counted: inventory.nexus(nexus.id).cloned(),
                offloads: inventory.offloads(&nexus),
                nexus,
                task,
                arrived_at: Instant::now(),
            })
        })
    }

    fn read(&self) -> RwLockReadGuard<'_, Inventory> {
        self.inventory
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inventory> {
        self.inventory
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

enum Addressed {
    Admitted(Admitted),
    NoUnit(Arc<Nexus>),
    TaskSetFull,
    /// Tasks that the initiator device considers ended, on any of its paths, are still running.
    Fenced,
}

impl ScsiTarget for Device {
    fn nexus_established(&self, nexus: &Arc<Nexus>) {
        self.write().add_nexus(nexus, &NEW_UNIT);
    }

    fn nexus_lost(&self, nexus: &Arc<Nexus>) {
        self.write().remove_nexus(nexus);
    }

    fn execute_command(
        self: Arc<Self>,
        nexus: Arc<Nexus>,
        command: Command,
        data_out: Box<dyn DataOut>,
    ) -> LocalBoxFuture<'static, Outcome> {
        let completion = match self.admit(nexus, &command) {
            Addressed::Admitted(admitted) => {
                return Box::pin(router::execute(self, admitted, command, data_out));
            }
            Addressed::NoUnit(nexus) => router::execute_without_unit(&self, &nexus, &command),
            Addressed::TaskSetFull => Completion::with_status(Status::TaskSetFull),
            Addressed::Fenced => Completion::with_status(Status::Busy),
        };
        Box::pin(std::future::ready(Outcome::Completed(completion)))
    }

    fn manage_tasks(
        self: Arc<Self>,
        nexus: Arc<Nexus>,
        function: TaskManagementFunction,
    ) -> LocalBoxFuture<'static, FunctionResponse> {
        task_management::manage(&self, &nexus, function)
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Device").finish_non_exhaustive()
    }
}
