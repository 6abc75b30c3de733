// SPDX-License-Identifier: Apache-2.0
//! Effects of the service actions of PERSISTENT RESERVE OUT on registrations and reservation (SPC-5 5.14.7 to 5.14.11).

use std::collections::BTreeSet;

use super::persistent::{
    MAXIMUM_REGISTRATIONS, PersistentReservation, PersistentReservations, RegisteredNexus,
    ReservationType,
};
use crate::additional_sense::AdditionalSense;
use crate::execution::Failure;
use crate::sense::Sense;

/// Byte of TYPE and SCOPE in the CDB.
const SCOPE_AND_TYPE_AT: u16 = 2;

/// Byte of SERVICE ACTION RESERVATION KEY in the parameter list.
const SERVICE_ACTION_RESERVATION_KEY_AT: u16 = 8;

/// Effects of a successful service action on other nexuses.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Consequences {
    /// Unit attentions to establish.
    pub(super) attentions: Vec<(RegisteredNexus, AdditionalSense)>,
    /// Other nexuses that lost their registration by PREEMPT.
    pub(super) preempted: BTreeSet<RegisteredNexus>,
    /// Whether PRGENERATION increases.
    pub(super) counts: bool,
}

/// SCOPE and TYPE of the CDB, checked where a service action checks them.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScopeAndType(pub(super) u8);

impl ScopeAndType {
    /// # Errors
    /// INVALID FIELD IN CDB for a scope other than the logical unit, or an unknown type.
    fn kind(self) -> Result<ReservationType, Failure> {
        const LU_SCOPE: u8 = 0;
        if self.0 >> 4 != LU_SCOPE {
            return Err(Sense::invalid_field_in_cdb(SCOPE_AND_TYPE_AT, Some(7)).into());
        }
        ReservationType::from_code(self.0 & 0x0f)
            .ok_or_else(|| Sense::invalid_field_in_cdb(SCOPE_AND_TYPE_AT, Some(3)).into())
    }
}

/// Parameters of REGISTER and REGISTER AND IGNORE EXISTING KEY.
#[derive(Debug)]
pub(super) struct Registration<'a> {
    /// The nexus that sent it.
    pub(super) nexus: &'a RegisteredNexus,
    /// The same initiator port at other target ports (`ALL_TG_PT`).
    pub(super) others: &'a BTreeSet<RegisteredNexus>,
    /// The key that it claims to have; `None`: not checked.
    pub(super) existing_key: Option<u64>,
    /// The new key; zero to unregister.
    pub(super) new_key: u64,
}

impl PersistentReservations {
    /// # Errors
    /// RESERVATION CONFLICT for a wrong key, INSUFFICIENT REGISTRATION RESOURCES.
    pub(super) fn register(
        &mut self,
        registration: &Registration,
    ) -> Result<Consequences, Failure> {
        let &Registration {
            nexus,
            others,
            existing_key,
            new_key,
        } = registration;
        let present = self.registrations.get(nexus).copied();
        if existing_key.is_some_and(|key| key != present.unwrap_or(0)) {
            return Err(Failure::ReservationConflict);
        }
        if new_key == 0 {
            if present.is_none() {
                return Ok(Consequences::default());
            }
            let is_meant = |other: &RegisteredNexus| {
                let key = self.registrations.get(other).copied();
                existing_key.is_none() || key == present
            };
            let others = others.iter().filter(|&other| is_meant(other));
            let gone: BTreeSet<_> = others.chain([nexus]).cloned().collect();
            return Ok(Consequences {
                attentions: self.remove(&gone, nexus),
                counts: true,
                ..Consequences::default()
            });
        }
        let differs = |other| {
            let key = self.registrations.get(other).copied();
            key.is_some() && key != present && key != Some(new_key)
        };
        if existing_key.is_some() && others.iter().any(differs) {
            return Err(Failure::ReservationConflict);
        }
        for nexus in others.iter().chain([nexus]) {
            self.registrations.insert(nexus.clone(), new_key);
        }
        self.check_room()?;
        Ok(Consequences {
            counts: true,
            ..Consequences::default()
        })
    }

    /// # Errors
    /// RESERVATION CONFLICT for a nexus without this key, and while there is another reservation; INVALID FIELD IN CDB.
    pub(super) fn reserve(
        &mut self,
        nexus: &RegisteredNexus,
        key: u64,
        scope_and_type: ScopeAndType,
    ) -> Result<Consequences, Failure> {
        self.require_key(nexus, key)?;
        let kind = scope_and_type.kind()?;
        match &self.reservation {
            None => self.reservation = Some(PersistentReservation::of(kind, nexus)),
            Some(held) if held.kind == kind && self.is_holder(nexus) => {}
            Some(_) => return Err(Failure::ReservationConflict),
        }
        Ok(Consequences::default())
    }

    /// # Errors
    /// RESERVATION CONFLICT for a nexus without this key; INVALID RELEASE OF PERSISTENT RESERVATION if the type differs; INVALID
    /// FIELD IN CDB.
    pub(super) fn release(
        &mut self,
        nexus: &RegisteredNexus,
        key: u64,
        scope_and_type: ScopeAndType,
    ) -> Result<Consequences, Failure> {
        self.require_key(nexus, key)?;
        let kind = scope_and_type.kind()?;
        if !self.is_holder(nexus) {
            return Ok(Consequences::default());
        }
        if self.reservation.take_if(|held| held.kind == kind).is_none() {
            let sense = AdditionalSense::INVALID_RELEASE_OF_PERSISTENT_RESERVATION;
            return Err(Sense::illegal_request(sense).into());
        }
        Ok(Consequences {
            attentions: self.released_attentions(kind, nexus),
            ..Consequences::default()
        })
    }

    /// # Errors
    /// RESERVATION CONFLICT for a nexus without this key.
    pub(super) fn clear(
        &mut self,
        nexus: &RegisteredNexus,
        key: u64,
    ) -> Result<Consequences, Failure> {
        self.require_key(nexus, key)?;
        let gone = std::mem::take(self).registrations;
        let others = gone.into_keys().filter(|other| other != nexus);
        Ok(Consequences {
            attentions: others
                .map(|other| (other, AdditionalSense::RESERVATIONS_PREEMPTED))
                .collect(),
            counts: true,
            ..Consequences::default()
        })
    }

    /// PREEMPT, and PREEMPT AND ABORT without the abort: removes the registrations with the key `victim`, and takes over their
    /// reservation. If all registrants hold it, zero means all others.
    ///
    /// # Errors
    /// RESERVATION CONFLICT for a nexus without this key, or if no nexus has `victim`; INVALID FIELD IN PARAMETER LIST; INVALID
    /// FIELD IN CDB if the type is checked.
    pub(super) fn preempt(
        &mut self,
        nexus: &RegisteredNexus,
        key: u64,
        victim: u64,
        scope_and_type: ScopeAndType,
    ) -> Result<Consequences, Failure> {
        self.require_key(nexus, key)?;
        let held = self.reservation.as_ref();
        let by_all = held.is_some_and(|held| held.kind.is_all_registrants());
        if victim == 0 && !by_all {
            return Err(Sense::invalid_field_in_parameter_list(
                SERVICE_ACTION_RESERVATION_KEY_AT,
                None,
            )
            .into());
        }
        let takes_over = victim == 0
            || held
                .and_then(|held| self.registrations.get(held.holder.as_ref()?))
                .is_some_and(|&key| key == victim);
        let registered = self.registrations.iter();
        let mut gone: BTreeSet<_> = registered
            .filter(|&(_, &key)| victim == 0 || key == victim)
            .map(|(nexus, _)| nexus.clone())
            .collect();
        if gone.is_empty() {
            return Err(Failure::ReservationConflict);
        }
        let attentions = if takes_over {
            let kind = scope_and_type.kind()?;
            let before = self
                .reservation
                .replace(PersistentReservation::of(kind, nexus));
            gone.remove(nexus);
            self.registrations.retain(|nexus, _| !gone.contains(nexus));
            match before {
                Some(before) if before.kind != kind => self.report_release_to_others(nexus),
                _ => Vec::new(),
            }
        } else {
            self.remove(&gone, nexus)
        };
        gone.remove(nexus);
        let preempted = gone
            .iter()
            .map(|gone| (gone.clone(), AdditionalSense::REGISTRATIONS_PREEMPTED));
        Ok(Consequences {
            attentions: attentions.into_iter().chain(preempted).collect(),
            preempted: gone,
            counts: true,
        })
    }

    fn require_key(&self, nexus: &RegisteredNexus, key: u64) -> Result<(), Failure> {
        if self.registrations.get(nexus) == Some(&key) {
            Ok(())
        } else {
            Err(Failure::ReservationConflict)
        }
    }

    fn check_room(&self) -> Result<(), Failure> {
        if self.registrations.len() <= MAXIMUM_REGISTRATIONS {
            return Ok(());
        }
        let sense = AdditionalSense::INSUFFICIENT_REGISTRATION_RESOURCES;
        Err(Sense::illegal_request(sense).into())
    }

    /// Removes registrations, and the reservation with its holder. Returns the nexuses to notify.
    fn remove(
        &mut self,
        gone: &BTreeSet<RegisteredNexus>,
        except: &RegisteredNexus,
    ) -> Vec<(RegisteredNexus, AdditionalSense)> {
        self.registrations.retain(|nexus, _| !gone.contains(nexus));
        let registrations = &self.registrations;
        let ended = self.reservation.take_if(|held| match &held.holder {
            Some(holder) => !registrations.contains_key(holder),
            None => registrations.is_empty(),
        });
        ended.map_or_else(Vec::new, |ended| {
            self.released_attentions(ended.kind, except)
        })
    }

    /// Unit attentions for the end of a reservation of this type, for all except `except`.
    fn released_attentions(
        &self,
        kind: ReservationType,
        except: &RegisteredNexus,
    ) -> Vec<(RegisteredNexus, AdditionalSense)> {
        if kind.is_for_registrants() {
            self.report_release_to_others(except)
        } else {
            Vec::new()
        }
    }

    fn report_release_to_others(
        &self,
        except: &RegisteredNexus,
    ) -> Vec<(RegisteredNexus, AdditionalSense)> {
        let registered = self.registrations.keys();
        registered
            .filter(|&nexus| nexus != except)
            .map(|nexus| (nexus.clone(), AdditionalSense::RESERVATIONS_RELEASED))
            .collect()
    }
}

impl PersistentReservation {
    fn of(kind: ReservationType, nexus: &RegisteredNexus) -> Self {
        Self {
            kind,
            holder: (!kind.is_all_registrants()).then(|| nexus.clone()),
        }
    }
}
