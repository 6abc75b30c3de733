//! A SCSI target device: logical units by number, and the nexuses that reach them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use crate::additional_sense::AdditionalSense;
use crate::address::{Address, MAXIMUM_LOGICAL_UNIT_NUMBER};
use crate::identity::ProductIdentification;
use crate::logical_unit::{LogicalUnit, UnitTasks};
use crate::sam::{
    Command, Completion, DataOut, FunctionResponse, LocalBoxFuture, Nexus, Outcome, ScsiTarget,
    Status, TaskManagementFunction,
};
use crate::task_set::TaskSet;
use crate::{router, task_management};

/// Why the inventory of logical units was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InventoryError {
    /// More than addressing can carry.
    #[error("logical unit number {0} is too large: the largest is {MAXIMUM_LOGICAL_UNIT_NUMBER}")]
    NumberTooLarge(u16),
    /// The number is taken.
    #[error("logical unit number {0} is in use")]
    InUse(u16),
    /// No logical unit has the number.
    #[error("there is no logical unit {0}")]
    Absent(u16),
}

/// A SCSI target device (SAM-5) with direct-access logical units.
///
/// Logical units come and go at run time. Tasks of a removed unit run to their end on it; its volume is dropped after the
/// last.
pub struct Device {
    product: ProductIdentification,
    inventory: RwLock<Inventory>,
}

#[derive(Default)]
struct Inventory {
    units: BTreeMap<u16, Arc<LogicalUnit>>,
    /// Units that were removed and may have tasks yet: task management has to reach those.
    removed: Vec<(u16, Weak<LogicalUnit>)>,
    nexuses: HashMap<u64, Arc<Nexus>>,
}

impl Inventory {
    /// A unit becomes reachable: what each nexus is told of it first (SPC-5, SAM-5 5.14).
    fn introduce(&mut self, number: u16, unit: Arc<LogicalUnit>, conditions: &[AdditionalSense]) {
        for &nexus in self.nexuses.keys() {
            unit.unit_attentions.add_nexus(nexus, conditions);
        }
        self.report_change();
        self.units.insert(number, unit);
    }

    fn retire(&mut self, number: u16, unit: &Arc<LogicalUnit>) {
        self.removed.retain(|(_, unit)| unit.strong_count() > 0);
        self.removed.push((number, Arc::downgrade(unit)));
    }

    fn report_change(&self) {
        for unit in self.units.values() {
            unit.unit_attentions
                .establish(AdditionalSense::REPORTED_LUNS_DATA_HAS_CHANGED, None);
        }
    }

    /// The units that have or had the number and can have tasks.
    fn with_number(&self, number: u16) -> Vec<Arc<LogicalUnit>> {
        let removed = self
            .removed
            .iter()
            .filter(|(removed, _)| *removed == number);
        self.units
            .get(&number)
            .cloned()
            .into_iter()
            .chain(removed.filter_map(|(_, unit)| unit.upgrade()))
            .collect()
    }

    fn all(&self) -> Vec<Arc<LogicalUnit>> {
        let removed = self.removed.iter().filter_map(|(_, unit)| unit.upgrade());
        self.units.values().cloned().chain(removed).collect()
    }
}

impl Device {
    /// A device with no logical units. `product` is what INQUIRY shows where none is addressed.
    pub fn new(product: ProductIdentification) -> Self {
        Self {
            product,
            inventory: RwLock::default(),
        }
    }

    /// Adds a logical unit. Every nexus finds REPORTED LUNS DATA HAS CHANGED on the units that were there, and POWER ON,
    /// RESET, OR BUS DEVICE RESET OCCURRED on the new one.
    ///
    /// # Errors
    /// [`InventoryError::NumberTooLarge`], [`InventoryError::InUse`].
    pub fn insert_logical_unit(
        &self,
        number: u16,
        unit: impl Into<Arc<LogicalUnit>>,
    ) -> Result<(), InventoryError> {
        if number > MAXIMUM_LOGICAL_UNIT_NUMBER {
            return Err(InventoryError::NumberTooLarge(number));
        }
        let mut inventory = self.write();
        if inventory.units.contains_key(&number) {
            return Err(InventoryError::InUse(number));
        }
        let conditions = [AdditionalSense::POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED];
        inventory.introduce(number, unit.into(), &conditions);
        Ok(())
    }

    /// Puts another logical unit in the place of one and returns that. Hosts find INQUIRY DATA HAS CHANGED and CAPACITY DATA HAS
    /// CHANGED on the new one as well.
    ///
    /// # Errors
    /// [`InventoryError::Absent`].
    pub fn replace_logical_unit(
        &self,
        number: u16,
        unit: impl Into<Arc<LogicalUnit>>,
    ) -> Result<Arc<LogicalUnit>, InventoryError> {
        let mut inventory = self.write();
        let old = inventory
            .units
            .remove(&number)
            .ok_or(InventoryError::Absent(number))?;
        inventory.retire(number, &old);
        let conditions = [
            AdditionalSense::POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED,
            AdditionalSense::REPORTED_LUNS_DATA_HAS_CHANGED,
            AdditionalSense::INQUIRY_DATA_HAS_CHANGED,
            AdditionalSense::CAPACITY_DATA_HAS_CHANGED,
        ];
        inventory.introduce(number, unit.into(), &conditions);
        Ok(old)
    }

    /// Takes a logical unit away and returns it; commands to its number are answered LOGICAL UNIT NOT SUPPORTED.
    ///
    /// # Errors
    /// [`InventoryError::Absent`].
    pub fn remove_logical_unit(&self, number: u16) -> Result<Arc<LogicalUnit>, InventoryError> {
        let mut inventory = self.write();
        let unit = inventory
            .units
            .remove(&number)
            .ok_or(InventoryError::Absent(number))?;
        inventory.retire(number, &unit);
        inventory.report_change();
        Ok(unit)
    }

    /// The logical units and their numbers, in ascending order.
    pub fn logical_units(&self) -> Vec<(u16, Arc<LogicalUnit>)> {
        self.read()
            .units
            .iter()
            .map(|(&number, unit)| (number, Arc::clone(unit)))
            .collect()
    }

    /// One logical unit.
    pub fn logical_unit(&self, number: u16) -> Option<Arc<LogicalUnit>> {
        self.read().units.get(&number).cloned()
    }

    /// Tells every nexus at its next command if the size of the unit's volume is another than before. Without this call they
    /// learn of it after the next command that looks at the capacity.
    ///
    /// # Errors
    /// [`InventoryError::Absent`].
    pub fn capacity_changed(&self, number: u16) -> Result<(), InventoryError> {
        let unit = self
            .logical_unit(number)
            .ok_or(InventoryError::Absent(number))?;
        // Looking is noticing.
        let _ = unit.capacity();
        Ok(())
    }

    pub(crate) fn product(&self) -> &ProductIdentification {
        &self.product
    }

    pub(crate) fn logical_unit_numbers(&self) -> Vec<u16> {
        self.read().units.keys().copied().collect()
    }

    /// The nexus has been told, or is about to be told, of the present inventory (SAM-5 5.14, LUICLR = 1).
    pub(crate) fn clear_reported_luns_changed(&self, nexus: u64) {
        for unit in self.read().units.values() {
            unit.unit_attentions
                .clear(nexus, AdditionalSense::REPORTED_LUNS_DATA_HAS_CHANGED);
        }
    }

    /// Units with the number, for task management: the present one, and removed ones with tasks.
    pub(crate) fn units_with_number(&self, number: u16) -> Vec<Arc<LogicalUnit>> {
        self.read().with_number(number)
    }

    /// All units that can have tasks.
    pub(crate) fn all_units(&self) -> Vec<Arc<LogicalUnit>> {
        self.read().all()
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

impl ScsiTarget for Device {
    fn nexus_established(&self, nexus: &Arc<Nexus>) {
        let mut inventory = self.write();
        for unit in inventory.units.values() {
            let conditions = [AdditionalSense::POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED];
            unit.unit_attentions.add_nexus(nexus.id, &conditions);
        }
        inventory.nexuses.insert(nexus.id, Arc::clone(nexus));
    }

    fn nexus_lost(&self, nexus: &Arc<Nexus>) {
        let units = {
            let mut inventory = self.write();
            inventory.nexuses.remove(&nexus.id);
            inventory.all()
        };
        for unit in units {
            unit.unit_attentions.remove_nexus(nexus.id);
            unit.tasks.abort(|of, _| of == nexus.id);
        }
    }

    fn execute_command(
        self: Arc<Self>,
        nexus: Arc<Nexus>,
        command: Command,
        data_out: Box<dyn DataOut>,
    ) -> LocalBoxFuture<'static, Outcome> {
        let unit = match Address::from(command.logical_unit) {
            Address::Number(number) => self.logical_unit(number).map(|unit| (number, unit)),
            Address::ReportLuns | Address::Elsewhere => None,
        };
        let Some((number, unit)) = unit else {
            let completion = router::execute_without_unit(&self, &nexus, &command);
            return Box::pin(std::future::ready(Outcome::Completed(completion)));
        };
        let tasks = UnitTasks(Arc::clone(&unit));
        match TaskSet::enter(tasks, nexus.id, command.identifier, command.attribute) {
            Some(task) => Box::pin(router::execute(
                self, number, unit, nexus, command, data_out, task,
            )),
            None => Box::pin(std::future::ready(Outcome::Completed(Completion {
                status: Status::TaskSetFull,
                sense: Vec::new(),
                data_in: None,
                data_in_wanted: 0,
                data_out_wanted: 0,
            }))),
        }
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
        formatter
            .debug_struct("Device")
            .field("logical_units", &self.logical_unit_numbers())
            .finish_non_exhaustive()
    }
}
