//! What is known of one LUN, and what is done for it where it is a zvol.

use std::sync::{Arc, Weak};
use std::time::Instant;

use scsi::LogicalUnit;
use volume::zfs::{self, Dataset};
use volume::{CloneLedger, Growth, Volume};

use super::LunSpace;
use super::act::Terms;
use super::backoff::Backoff;
use super::ledger::{Ledger, Needs};
use super::policy;
use super::release::set;
use crate::configuration::{Lun, ProvisioningChoice};

/// What is known of a LUN from looks before.
#[derive(Default)]
pub(super) struct KnownLun {
    volume: Option<Weak<dyn Volume>>,
    pub growth: Growth,
    /// What the volume was told.
    pub said: Growth,
    /// The zvol whose `reservation` is ours.
    pub holds: Option<String>,
    /// What a volume of this size takes when it is written.
    base: Option<(u64, u64)>,
    /// There is one while it is thick, or becomes so.
    pub ledger: Option<Arc<Ledger>>,
    is_thick: bool,
    /// What is reserved for blocks that it shares.
    shared: u64,
    problem: Option<String>,
    pub backoff: Backoff,
}

impl KnownLun {
    /// Forgets all when it is on another volume. What was held for that is in the hands of its releaser.
    pub fn is_of(&mut self, lun: &Lun, volume: &Arc<dyn Volume>) {
        let at = |volume: *const dyn Volume| volume.cast::<()>();
        let known = self.volume.as_ref().map(|known| at(known.as_ptr()));
        if known == Some(at(Arc::as_ptr(volume))) {
            return;
        }
        if let Some(ledger) = &self.ledger {
            ledger.stop();
        }
        *self = Self {
            volume: Some(Arc::downgrade(volume)),
            holds: self.holds.take(),
            is_thick: lun.provisioning == ProvisioningChoice::Thick,
            ..Self::default()
        };
    }

    /// Opens a ledger where there has to be one: it is closed until a look has seen what is shared.
    pub fn begin(&mut self, lun: &Lun, dataset: &Dataset, unit: &LogicalUnit) {
        let size = unit.volume().geometry().size_bytes;
        let wanted = wants_thick(lun, dataset, size, self.ledger.is_some());
        // One that is to be thin and was thick may share blocks with one that is.
        let was_thick = dataset.refreservation >= size;
        if self.ledger.is_none() && (wanted || was_thick) {
            self.ledger = Some(Arc::new(Ledger::closed()));
            self.is_thick |= wanted && was_thick;
        }
    }

    /// What follows for the LUN from figures of its zvol.
    pub fn judge(
        &mut self,
        terms: &Terms,
        lun: &Lun,
        unit: &LogicalUnit,
        dataset: &Dataset,
    ) -> LunSpace {
        let size = unit.volume().geometry().size_bytes;
        let is_to_be_thick = self.ledger.is_some();
        let slack = slack(terms, lun, size, is_to_be_thick);
        let is_reserved = is_to_be_thick && dataset.refreservation >= self.base_of(size);
        let left = policy::left_for_growth(dataset, slack);
        let held = dataset.reserved_bytes();
        self.growth = if is_reserved {
            Growth::Allowed
        } else {
            policy::growth(self.growth, left, terms.headroom)
        };
        let available = if is_reserved {
            size.saturating_sub(dataset.used_by_dataset)
        } else {
            left.saturating_sub(terms.headroom)
        };
        let is_near = policy::is_near(terms.pool.total, left, terms.headroom);
        // Where nothing may be held, there is nothing to spare.
        let may_hold = self.problem.is_none() || held > 0;
        self.said = if is_near && may_hold && !is_reserved {
            policy::limit(self.growth, held, slack)
        } else {
            self.growth
        };
        LunSpace {
            pool: terms.store.name(),
            dataset: Some(dataset.name.clone()),
            thick: self.is_thick,
            growth: self.said,
            used_bytes: dataset.used_by_dataset,
            available_bytes: available,
            held_bytes: held,
            slack_bytes: slack,
            shared_bytes: self.shared,
            problem: self.problem.clone(),
        }
    }

    fn base_of(&self, size: u64) -> u64 {
        match self.base {
            Some((of_size, base)) if of_size == size => base,
            _ => size,
        }
    }

    /// Reserves what is to be, as far as can be. Gives the figures with what is reserved now.
    pub async fn keep(
        &mut self,
        terms: &Terms,
        lun: &Lun,
        size: u64,
        dataset: &Dataset,
        others: &[Arc<Ledger>],
    ) -> Dataset {
        let mut present = dataset.clone();
        let kept = match self.ledger.clone() {
            Some(ledger) => {
                self.keep_thick(terms, lun, size, &mut present, &ledger, others)
                    .await
            }
            None => self.keep_thin(terms, lun, &mut present).await,
        };
        let is_reserved = self.ledger.is_some() && present.refreservation >= self.base_of(size);
        // One that was thick before anybody looked, and is to be thin, is not called so for a moment.
        self.is_thick = is_reserved && (self.is_thick || wants_thick(lun, &present, size, true));
        if self.ledger.is_none() {
            self.shared = 0;
        }
        let problem = kept.err();
        if problem.is_some() && problem != self.problem {
            tracing::warn!(dataset = dataset.name, problem, "space of a LUN");
        }
        self.problem = problem;
        present
    }

    async fn keep_thick(
        &mut self,
        terms: &Terms,
        lun: &Lun,
        size: u64,
        present: &mut Dataset,
        ledger: &Ledger,
        others: &[Arc<Ledger>],
    ) -> Result<(), String> {
        let base = self.find_base(&present.name, size).await?;
        let needs = Needs {
            size,
            base,
            slack: slack(terms, lun, size, true),
        };
        if !wants_thick(lun, present, size, true) {
            return self
                .end_thick(terms, lun, present, ledger, needs, others)
                .await;
        }
        let settled = ledger.settle(present, needs, &terms.seen).await;
        let before = std::mem::replace(&mut present.refreservation, settled.refreservation);
        let more = settled.refreservation.saturating_sub(before);
        present.used_by_refreservation = present.used_by_refreservation.saturating_add(more);
        self.shared = settled.shared;
        self.holds = None;
        if present.reservation > 0 && self.backoff.is_over(Instant::now()) {
            // It was thin.
            let released = set(&present.name, "reservation", 0).await;
            self.tried(released.is_ok());
            released.map_err(|error| format!("what was held when it was thin stays: {error}"))?;
            present.reservation = 0;
        }
        match settled.problem {
            None => Ok(()),
            Some(error) => Err(format!("not all of its space is reserved: {error}")),
        }
    }

    /// What a volume of the size takes; found out once.
    async fn find_base(&mut self, dataset: &str, size: u64) -> Result<u64, String> {
        if let Some((_, base)) = self.base.filter(|(of_size, _)| *of_size == size) {
            return Ok(base);
        }
        let failed = |error: &dyn std::fmt::Display| format!("what it needs is not known: {error}");
        if !self.backoff.is_over(Instant::now()) {
            return Err(self.problem.clone().unwrap_or_default());
        }
        let name = dataset.to_owned();
        let found = tokio::task::spawn_blocking(move || zfs::thick_bytes(&name, size)).await;
        let found = found.map_err(|error| failed(&error))?;
        self.tried(found.is_ok());
        let base = found.map_err(|error| failed(&error))?;
        self.base = Some((size, base));
        Ok(base)
    }

    fn tried(&mut self, succeeded: bool) {
        if succeeded {
            self.backoff.reset();
        } else {
            self.backoff.failed(Instant::now());
        }
    }

    /// Makes it thin. What it shares with LUNs that stay thick has to be reserved there first.
    async fn end_thick(
        &mut self,
        terms: &Terms,
        lun: &Lun,
        present: &mut Dataset,
        ledger: &Ledger,
        needs: Needs,
        others: &[Arc<Ledger>],
    ) -> Result<(), String> {
        let counted = ledger.count(present, needs, &terms.seen);
        if ledger.is_closed() {
            // What it shares is known at the next look.
            return Ok(());
        }
        for other in others {
            let is_gone = present.refreservation == 0;
            if !other.adopt(counted.shared).await && !is_gone {
                let shared = counted.shared;
                return Err(format!(
                    "it stays thick: {shared} bytes that it shares can't be reserved for other thick LUNs"
                ));
            }
        }
        ledger.end().await;
        self.ledger = None;
        self.keep_thin(terms, lun, present).await
    }

    async fn keep_thin(
        &mut self,
        terms: &Terms,
        lun: &Lun,
        present: &mut Dataset,
    ) -> Result<(), String> {
        let may_try = self.backoff.is_over(Instant::now());
        if !may_try && self.problem.is_some() {
            return Err(self.problem.clone().unwrap_or_default());
        }
        if lun.provisioning == ProvisioningChoice::Thin && present.refreservation > 0 {
            let released = set(&present.name, "refreservation", 0).await;
            self.tried(released.is_ok());
            released.map_err(|error| format!("it is reserved in full: {error}"))?;
            present.refreservation = 0;
            let freed = std::mem::take(&mut present.used_by_refreservation);
            present.used = present.used.saturating_sub(freed);
        }
        let slack = lun.slack_bytes.unwrap_or(terms.slack);
        let wanted = if terms.overcommitted {
            (present.reservation > 0).then_some(0)
        } else {
            let left = present.unreserved_bytes();
            policy::thin_reservation(present, slack, left.saturating_sub(terms.taken.get()))
        };
        self.holds = Some(present.name.clone());
        if let Some(bytes) = wanted {
            match set(&present.name, "reservation", bytes).await {
                Ok(()) => {
                    let more = bytes.saturating_sub(present.reservation.max(present.used));
                    terms.taken.set(terms.taken.get().saturating_add(more));
                    present.reservation = bytes;
                    self.backoff.reset();
                }
                // Others took it since the look. The next one sees what is left.
                Err(error) if error.is_no_space() => {}
                Err(error) => {
                    self.backoff.failed(Instant::now());
                    return Err(format!("its overwrites are not held: {error}"));
                }
            }
        }
        if terms.overcommitted {
            return Err(
                "its overwrites are not held: more is shared than the pool has space for".into(),
            );
        }
        let held = present.reserved_bytes();
        if held < slack / 4 {
            return Err(format!(
                "of {slack} bytes for its overwrites only {held} are held: the pool is full"
            ));
        }
        Ok(())
    }

    /// Who answers for blocks that the LUN shares.
    pub fn clone_ledger(&self) -> Option<Arc<dyn CloneLedger>> {
        let ledger = Arc::clone(self.ledger.as_ref()?);
        Some(ledger)
    }
}

fn slack(terms: &Terms, lun: &Lun, size: u64, thick: bool) -> u64 {
    lun.slack_bytes.unwrap_or_else(|| {
        if thick {
            policy::thick_slack(size)
        } else {
            terms.slack
        }
    })
}

/// Whether a LUN is to be thick.
fn wants_thick(lun: &Lun, dataset: &Dataset, size: u64, is_thick: bool) -> bool {
    match lun.provisioning {
        ProvisioningChoice::Thick => true,
        ProvisioningChoice::Thin => false,
        ProvisioningChoice::Automatic => {
            // Once found so, a reservation that another lowered is mended; one that is gone is meant.
            let least = if is_thick { 1 } else { size };
            dataset.refreservation >= least
        }
    }
}
