// SPDX-License-Identifier: Apache-2.0
//! A direct-access block device on a volume.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use volume::{Geometry, LOGICAL_BLOCK_BYTES, Volume};

use crate::absent_volume::AbsentVolume;
use crate::additional_sense::AdditionalSense;
use crate::command_table::{CommandDescription, Operation};
use crate::commands::mode_pages;
use crate::designation::Designation;
use crate::identity::{self, ProductIdentification};
use crate::offload::Offloads;
use crate::provisioning::{Provisioning, SpaceFigures, SpaceState};
use crate::range_lock::RangeLocks;
use crate::reservations::{
    PersistentReservations, ReservationRule, ReservationStore, Reservations,
};
use crate::sam::Nexus;
use crate::sense::{Sense, SenseFormat, SenseKey};
use crate::statistics::{Counters, ReactorCounters, Statistics};
use crate::task_set::TaskSet;
use crate::third_party_copy::CopyOperations;
use crate::unit_attention::UnitAttentions;

/// Settings of a logical unit.
#[derive(Clone, Debug)]
pub struct LogicalUnitOptions {
    /// Identity for the life of the data: NAA name and unit serial number derive from it.
    pub uuid: [u8; 16],
    /// Vendor, product and revision for INQUIRY.
    pub product: ProductIdentification,
    /// Refuse writes even if the volume is writable.
    pub read_only: bool,
}

/// Why a volume cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogicalUnitError {
    /// A value that the Block Limits page cannot express.
    #[error(
        "a physical block of {0} bytes is not supported: it must be a power of two from {LOGICAL_BLOCK_BYTES} bytes to 16 MiB"
    )]
    PhysicalBlock(u32),
    /// No logical block.
    #[error("the volume of {0} bytes is smaller than one logical block")]
    Empty(u64),
}

/// A logical unit (SAM-5): a volume with identity, task set, unit attentions and mode parameters.
pub struct LogicalUnit {
    pub(crate) volume: Arc<dyn Volume>,
    ready: bool,
    pub(crate) options: LogicalUnitOptions,
    designation: Option<Designation>,
    pub(crate) tasks: TaskSet,
    pub(crate) ranges: RangeLocks,
    pub(crate) space: SpaceState,
    pub(crate) unit_attentions: UnitAttentions,
    /// Copies of the disk with a list identifier: they continue if another unit replaces this one.
    copies: OnceLock<Arc<CopyOperations>>,
    /// Counters of the disk: a unit that replaces another one takes over its counters, as old commands may still run.
    counters: OnceLock<Arc<ReactorCounters>>,
    pub(crate) mode: ModeParameters,
    /// Reservations of the disk: those of the replaced unit, or the stored ones.
    reservations: OnceLock<Arc<Reservations>>,
    restored: PersistentReservations,
    reservation_store: Option<Arc<dyn ReservationStore>>,
    /// Capacity last reported to hosts, to detect a change.
    known_size_bytes: AtomicU64,
}

/// Mode parameters that MODE SELECT changes; false by default and after a reset.
#[derive(Debug, Default)]
pub(crate) struct ModeParameters {
    /// `D_SENSE` of the Control mode page.
    pub(crate) descriptor_sense: AtomicBool,
}

impl LogicalUnit {
    /// A logical unit on `volume`.
    ///
    /// # Errors
    /// [`LogicalUnitError`] if SBC cannot express the geometry of the volume.
    pub fn new(
        volume: Arc<dyn Volume>,
        options: LogicalUnitOptions,
    ) -> Result<Self, LogicalUnitError> {
        /// OPTIMAL TRANSFER LENGTH GRANULARITY has sixteen bits.
        const MAXIMUM_BLOCKS_PER_PHYSICAL_BLOCK: u32 = 1 << 15;
        let Geometry {
            size_bytes,
            physical_block_bytes: physical,
        } = volume.geometry();
        let expressible = physical.is_power_of_two()
            && physical >= LOGICAL_BLOCK_BYTES
            && physical / LOGICAL_BLOCK_BYTES <= MAXIMUM_BLOCKS_PER_PHYSICAL_BLOCK;
        if !expressible {
            return Err(LogicalUnitError::PhysicalBlock(physical));
        }
        if size_bytes < u64::from(LOGICAL_BLOCK_BYTES) {
            return Err(LogicalUnitError::Empty(size_bytes));
        }
        Ok(Self::with(volume, options, true))
    }

    /// A logical unit whose volume is not open. INQUIRY, vital product data and REPORT LUNS work as usual. Commands that need the
    /// volume end with NOT READY, LOGICAL UNIT IS IN PROCESS OF BECOMING READY.
    ///
    /// For hosts, the disk will come back. Without a logical unit, the disk would be lost: `ESXi` gives such a path up
    /// permanently (PDL). [`crate::Device::replace_logical_unit`] replaces it with the unit on its volume.
    pub fn not_ready(options: LogicalUnitOptions) -> Self {
        Self::with(Arc::new(AbsentVolume), options, false)
    }

    fn with(volume: Arc<dyn Volume>, options: LogicalUnitOptions, ready: bool) -> Self {
        let size_bytes = volume.geometry().size_bytes;
        Self {
            volume,
            ready,
            options,
            designation: None,
            tasks: TaskSet::default(),
            ranges: RangeLocks::default(),
            space: SpaceState::default(),
            unit_attentions: UnitAttentions::default(),
            copies: OnceLock::new(),
            counters: OnceLock::new(),
            mode: ModeParameters::default(),
            reservations: OnceLock::new(),
            restored: PersistentReservations::default(),
            reservation_store: None,
            known_size_bytes: AtomicU64::new(size_bytes),
        }
    }

    /// Stores persistent reservations; `content` is the content of `store`. Without this call, requests with APTPL are refused. A
    /// unit that replaces a ready one of the same disk takes over its reservations, and ignores `content`.
    #[must_use]
    pub fn with_reservation_store(
        mut self,
        store: Arc<dyn ReservationStore>,
        content: PersistentReservations,
    ) -> Self {
        self.reservation_store = Some(store);
        self.restored = content;
        self
    }

    /// Sets names from another target, which hosts know, instead of those from the UUID.
    #[must_use]
    pub fn with_designation(mut self, designation: Designation) -> Self {
        self.designation = Some(designation);
        self
    }

    /// The names from another target, if set.
    pub fn designation(&self) -> Option<&Designation> {
        self.designation.as_ref()
    }

    /// Store of the persistent reservations.
    pub fn reservation_store(&self) -> Option<&Arc<dyn ReservationStore>> {
        self.reservation_store.as_ref()
    }

    /// Registrations and reservation. `None` if unknown, before the unit was first ready.
    pub fn persistent_reservations(&self) -> Option<PersistentReservations> {
        Some(self.reservations()?.persistent())
    }

    /// Whether it has a volume: false for a unit from [`LogicalUnit::not_ready`].
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// Takes over mode parameters, pending unit attentions and counters of a unit with the same identity. Ranges that its
    /// commands have locked are locked here too: running commands continue next to new ones.
    pub(crate) fn inherit(&self, old: &Self) {
        self.ranges.share(&old.ranges);
        self.space.inherit(&old.space);
        let descriptor_sense = old.mode.descriptor_sense.load(Ordering::Relaxed);
        self.mode
            .descriptor_sense
            .store(descriptor_sense, Ordering::Relaxed);
        // This unit has counted nothing yet.
        let _ = self.counters.set(Arc::clone(old.shared_counters()));
        let _ = self.copies.set(Arc::clone(old.copies()));
        if let Some(reservations) = old.reservations() {
            if self.ready && !old.ready && self.reservation_store.is_some() {
                // The pool can have been on another server, whose hosts changed the stored reservations.
                reservations.restore(self.restored.clone());
            }
            let _ = self.reservations.set(Arc::clone(reservations));
        }
        for (nexus, conditions) in old.unit_attentions.pending() {
            self.unit_attentions.add_nexus(nexus, &conditions);
        }
    }

    /// Unit attentions after this unit replaced one with the same identity. None while it is not ready: they follow later.
    pub(crate) fn differences(&self, old: &Self) -> Vec<AdditionalSense> {
        if !self.ready {
            return Vec::new();
        }
        let becomes_ready = !old.ready;
        let (present, past) = (self.volume.geometry(), old.volume.geometry());
        let protection = self.write_protection() != old.write_protection();
        let product = self.options.product != old.options.product;
        let limits = present.physical_block_bytes != past.physical_block_bytes
            || self.volume.atomic_write_bytes() != old.volume.atomic_write_bytes()
            // Also LBPME of READ CAPACITY(16).
            || self.unmap_granularity() != old.unmap_granularity();
        let size = present.size_bytes != old.known_size_bytes.load(Ordering::Relaxed);
        let conditions = [
            (becomes_ready, AdditionalSense::NOT_READY_TO_READY_CHANGE),
            // WP of the header.
            (
                !becomes_ready && protection,
                AdditionalSense::MODE_PARAMETERS_CHANGED,
            ),
            // Standard INQUIRY data and Block Limits; they were unknown before if the unit was not ready.
            (
                becomes_ready || product || limits,
                AdditionalSense::INQUIRY_DATA_HAS_CHANGED,
            ),
            (
                becomes_ready || limits || size,
                AdditionalSense::CAPACITY_DATA_HAS_CHANGED,
            ),
        ];
        conditions
            .into_iter()
            .filter_map(|(is_so, condition)| is_so.then_some(condition))
            .collect()
    }

    /// The volume; if the unit is not ready, one of no bytes, on which everything fails.
    pub fn volume(&self) -> &Arc<dyn Volume> {
        &self.volume
    }

    /// The unit's settings.
    pub fn options(&self) -> &LogicalUnitOptions {
        &self.options
    }

    /// NAA IEEE Registered Extended name from its UUID (SPC-5 7.7). Hosts see it unless the unit has names from another target.
    pub fn naa(&self) -> [u8; 16] {
        identity::naa(self.options.uuid)
    }

    /// Unit serial number: the UUID's 32 hexadecimal digits, or the one from another target.
    pub fn serial_number(&self) -> String {
        match &self.designation {
            Some(retained) => retained.serial_number().to_owned(),
            None => identity::serial_number(self.options.uuid),
        }
    }

    /// Current counters.
    pub fn statistics(&self) -> Statistics {
        self.shared_counters().snapshot()
    }

    /// The counters for the calling thread.
    pub(crate) fn counters(&self) -> &Counters {
        self.shared_counters().of_this_thread()
    }

    fn shared_counters(&self) -> &Arc<ReactorCounters> {
        self.counters.get_or_init(Arc::default)
    }

    /// Current sizes. If the capacity has changed, every nexus gets CAPACITY DATA HAS CHANGED (SBC-4), and tokens are cancelled:
    /// the volume can have shrunk and grown again.
    pub(crate) fn capacity(&self) -> Capacity {
        let geometry = self.volume.geometry();
        if self.known_size_bytes.load(Ordering::Relaxed) != geometry.size_bytes
            && self
                .known_size_bytes
                .swap(geometry.size_bytes, Ordering::Relaxed)
                != geometry.size_bytes
        {
            self.ranges.note_change_of_all();
            self.unit_attentions
                .establish(AdditionalSense::CAPACITY_DATA_HAS_CHANGED, None);
        }
        Capacity(geometry)
    }

    /// Reservations of the disk; `None` if unknown, before the unit was first ready.
    pub(crate) fn reservations(&self) -> Option<&Arc<Reservations>> {
        if self.ready {
            let restored = || Arc::new(Reservations::restored(self.restored.clone()));
            Some(self.reservations.get_or_init(restored))
        } else {
            self.reservations.get()
        }
    }

    /// Whether a reservation forbids `rule` to the nexus: then the command must end with RESERVATION CONFLICT.
    pub(crate) fn reservation_conflict(&self, nexus: &Nexus, rule: ReservationRule) -> bool {
        let reservations = self.reservations();
        reservations.is_some_and(|reservations| reservations.conflicts(nexus, rule))
    }

    /// Unit in which blocks are unmapped, bytes; `None` if the unit is thick, or its volume does not support it.
    pub(crate) fn unmap_granularity(&self) -> Option<u32> {
        match self.space.provisioning() {
            Provisioning::Thin => self.volume.unmap_granularity(),
            Provisioning::Thick => None,
        }
    }

    /// Whether a host with these offloads may use the command.
    pub(crate) fn offers(&self, command: &CommandDescription, offloads: Offloads) -> bool {
        let is_possible = match command.operation {
            // A write-protected unit refuses it like every command that changes the medium.
            Operation::Unmap => {
                self.unmap_granularity().is_some() || self.write_protection().is_some()
            }
            Operation::WriteAtomic => self.volume.atomic_write_bytes().is_some(),
            _ => true,
        };
        is_possible && command.is_on(offloads)
    }

    /// Sets the provisioning. The default is thin if the volume supports unmapping. After a change, every nexus gets INQUIRY DATA
    /// HAS CHANGED and CAPACITY DATA HAS CHANGED.
    pub fn set_provisioning(&self, provisioning: Provisioning) {
        if self.space.set_provisioning(provisioning) {
            for condition in [
                AdditionalSense::INQUIRY_DATA_HAS_CHANGED,
                AdditionalSense::CAPACITY_DATA_HAS_CHANGED,
            ] {
                self.unit_attentions.establish(condition, None);
            }
        }
    }

    /// The provisioning that was set.
    pub fn provisioning(&self) -> Provisioning {
        self.space.provisioning()
    }

    /// Sets the space for the Logical Block Provisioning log and mode pages of a thin unit. When a soft threshold is reached,
    /// every nexus gets THIN PROVISIONING SOFT THRESHOLD REACHED once; again only after the space was below it.
    pub fn set_space(&self, figures: SpaceFigures) {
        if self.space.set_figures(figures) && self.unmap_granularity().is_some() {
            self.unit_attentions.establish(
                AdditionalSense::THIN_PROVISIONING_SOFT_THRESHOLD_REACHED,
                None,
            );
        }
    }

    /// Sense data of a unit attention. That of a soft threshold points to its descriptor in the Logical Block Provisioning mode
    /// page (SBC-4 4.7.3.7).
    pub(crate) fn unit_attention_sense(&self, condition: AdditionalSense) -> Sense {
        let is_threshold = condition == AdditionalSense::THIN_PROVISIONING_SOFT_THRESHOLD_REACHED;
        let reached = self.space.reached_last().filter(|_| is_threshold);
        Sense {
            information: reached.map(mode_pages::threshold_descriptor_at),
            ..Sense::new(SenseKey::UnitAttention, condition)
        }
    }

    pub(crate) fn sense_format(&self) -> SenseFormat {
        SenseFormat::from_bit(self.mode.descriptor_sense.load(Ordering::Relaxed))
    }

    /// Why writes are refused, or `None`.
    pub(crate) fn write_protection(&self) -> Option<AdditionalSense> {
        (self.options.read_only || self.volume.read_only())
            .then_some(AdditionalSense::WRITE_PROTECTED)
    }

    pub(crate) fn copies(&self) -> &Arc<CopyOperations> {
        self.copies.get_or_init(Arc::default)
    }

    /// Additional effects of a reset (SAM-5): default mode parameters, no RESERVE, and a unit attention for every nexus,
    /// including its requester.
    pub(crate) fn reset(&self, condition: AdditionalSense) {
        self.mode.descriptor_sense.store(false, Ordering::Relaxed);
        if let Some(reservations) = self.reservations() {
            reservations.reset();
        }
        self.copies().reset();
        self.unit_attentions.establish(condition, None);
    }
}

impl std::fmt::Debug for LogicalUnit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("LogicalUnit")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Sizes in logical blocks, at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity(Geometry);

impl Capacity {
    pub(crate) fn blocks(self) -> u64 {
        self.0.size_bytes / u64::from(LOGICAL_BLOCK_BYTES)
    }

    /// Logical blocks that the volume writes without reading first: OPTIMAL TRANSFER LENGTH GRANULARITY.
    pub(crate) fn granularity(self) -> u32 {
        self.0.physical_block_bytes / LOGICAL_BLOCK_BYTES
    }

    /// LOGICAL BLOCKS PER PHYSICAL BLOCK EXPONENT, for physical blocks of 4096 bytes or of one logical block.
    ///
    /// Larger blocks of a volume are not reported as physical blocks: `ESXi` accepts only physical blocks of 512 or 4096 bytes.
    /// The granularity reports them.
    pub(crate) fn physical_block_exponent(self) -> u8 {
        const PHYSICAL_BLOCK_BYTES: u32 = 4096;
        if self.0.physical_block_bytes < PHYSICAL_BLOCK_BYTES {
            return 0;
        }
        (PHYSICAL_BLOCK_BYTES / LOGICAL_BLOCK_BYTES).trailing_zeros() as u8
    }
}

/// The task set of a logical unit, as a reference that keeps the unit alive.
pub(crate) struct UnitTasks(pub(crate) Arc<LogicalUnit>);

impl AsRef<TaskSet> for UnitTasks {
    fn as_ref(&self) -> &TaskSet {
        &self.0.tasks
    }
}
