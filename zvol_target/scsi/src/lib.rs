// SPDX-License-Identifier: Apache-2.0
//! SPC and SBC: logical units on volumes.
//!
//! A transport uses [`sam`]; the daemon uses [`Device`] and [`LogicalUnit`]. A command passes the [`Device`], the task set of its
//! logical unit and the command table, and reaches a module of `commands`, one for each family.

mod absent_volume;
mod access;
mod additional_sense;
mod address;
mod cdb;
mod command_table;
mod commands;
mod designation;
mod device;
mod execution;
mod hosts;
mod identity;
mod inventory;
mod latency;
mod logical_unit;
mod offload;
mod offload_statistics;
mod provisioning;
mod range_lock;
mod reservations;
mod router;
pub mod sam;
mod sense;
mod statistics;
mod target_port;
mod task_management;
mod task_set;
mod third_party_copy;
mod unit_attention;

#[cfg(test)]
mod tests;

pub use access::LogicalUnitAccess;
pub use address::MAXIMUM_LOGICAL_UNIT_NUMBER;
pub use designation::{DESIGNATORS_MAX, Designation, DesignationError, Designator, NAME_BYTES_MAX};
pub use device::{Device, InventoryError};
pub use identity::{IdentityError, ProductIdentification, naa};
pub use latency::{LATENCY_BUCKETS, LatencyHistogram};
pub use logical_unit::{LogicalUnit, LogicalUnitError, LogicalUnitOptions};
pub use offload::{Offload, OffloadPolicy, Offloads};
pub use offload_statistics::OffloadStatistics;
pub use provisioning::{Provisioning, SpaceFigures};
pub use reservations::{
    ClearReservationsError, MAXIMUM_REGISTRATIONS, PersistentReservation, PersistentReservations,
    RegisteredNexus, ReservationStore, ReservationType, UnsoundReservations,
};
pub use statistics::{Family, FamilyStatistics, Statistics};
pub use target_port::TargetPort;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. A poisoned one is usable: every critical section is a few assignments.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
