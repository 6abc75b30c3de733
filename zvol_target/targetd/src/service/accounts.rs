// SPDX-License-Identifier: Apache-2.0
//! CHAP accounts of targets.

use super::definition::unusable_accounts;
use super::{Service, ServiceError, target_of};
use crate::configuration::{Direction, Invalid, Purpose, SecretText, Target, check_secret};

/// A new or changed CHAP account.
#[derive(Debug)]
pub struct AccountSetting {
    /// Name of the target.
    pub target: String,
    /// Direction of authentication.
    pub direction: Direction,
    /// `CHAP_N`.
    pub name: String,
    /// The secret.
    pub secret: SecretText,
    /// The initiators that may use it; `None`: all.
    pub initiators: Option<Vec<String>>,
}

impl Service {
    /// Why no initiator can log in with the accounts of a target, if that is so: the key for the secrets is missing, or a secret
    /// cannot be read.
    pub fn accounts_problem(&self, target: &Target) -> Option<ServiceError> {
        unusable_accounts(target, &self.vault)
    }

    /// Sets an account by its name; there is at most one mutual account. From then on CHAP is required, until
    /// [`Service::require_accounts`] changes that.
    ///
    /// # Errors
    /// [`ServiceError::NoTarget`], [`ServiceError::Invalid`] for a weak secret or a mutual account without others,
    /// [`ServiceError::Refused`] for the secret of another account, [`ServiceError::Key`], [`ServiceError::NotStored`].
    pub fn set_account(&mut self, setting: &AccountSetting) -> Result<(), ServiceError> {
        check_secret("secret", &setting.name, &setting.secret)?;
        let mut candidate = self.configuration.clone();
        let accounts = &mut target_of(&mut candidate, &setting.target)?.authentication;
        match setting.direction {
            Direction::Incoming => accounts.incoming.retain(|a| a.name != setting.name),
            Direction::Mutual => accounts.mutual = None,
        }
        let purpose = Purpose {
            target: &setting.target,
            direction: setting.direction,
            account: &setting.name,
            initiators: setting.initiators.as_deref(),
        };
        let account = self.vault.seal(&mut candidate, &setting.secret, &purpose)?;
        let accounts = &mut target_of(&mut candidate, &setting.target)?.authentication;
        match setting.direction {
            Direction::Incoming => accounts.incoming.push(account),
            Direction::Mutual if accounts.incoming.is_empty() => {
                let reason = "mutual CHAP needs an account of initiators: set one first";
                return Err(invalid("mutual", reason).into());
            }
            Direction::Mutual => accounts.mutual = Some(account),
        }
        accounts.required = true;
        accounts.incoming.sort_by(|a, b| a.name.cmp(&b.name));
        self.change_targets(candidate)
    }

    /// Sets whether CHAP is required even without accounts: then nobody can log in.
    ///
    /// # Errors
    /// [`ServiceError::NoTarget`], [`ServiceError::Invalid`] for `false` while accounts exist, [`ServiceError::NotStored`].
    pub fn require_accounts(&mut self, target: &str, required: bool) -> Result<(), ServiceError> {
        let mut candidate = self.configuration.clone();
        let accounts = &mut target_of(&mut candidate, target)?.authentication;
        if !required && accounts.count() > 0 {
            return Err(invalid("required", "there are accounts: delete them first").into());
        }
        accounts.required = required;
        self.change_targets(candidate)
    }

    /// Deletes an account. CHAP is still required, even after the last one: then nobody can log in.
    ///
    /// # Errors
    /// [`ServiceError::NoTarget`], [`ServiceError::NoAccount`], [`ServiceError::Invalid`] for the last account of initiators
    /// while a mutual account exists, [`ServiceError::NotStored`].
    pub fn delete_account(
        &mut self,
        target: &str,
        direction: Direction,
        name: &str,
    ) -> Result<(), ServiceError> {
        let mut candidate = self.configuration.clone();
        let accounts = &mut target_of(&mut candidate, target)?.authentication;
        let before = accounts.count();
        match direction {
            Direction::Incoming => accounts.incoming.retain(|account| account.name != name),
            Direction::Mutual => drop(accounts.mutual.take_if(|account| account.name == name)),
        }
        if accounts.count() == before {
            return Err(ServiceError::NoAccount {
                target: target.to_owned(),
                name: name.to_owned(),
            });
        }
        if direction == Direction::Incoming && accounts.incoming.is_empty() {
            if let Some(mutual) = &accounts.mutual {
                let reason = format!("delete the mutual account {:?} first", mutual.name);
                return Err(invalid("name", reason).into());
            }
        }
        accounts.required = true;
        self.change_targets(candidate)
    }
}

fn invalid(place: &str, reason: impl Into<String>) -> Invalid {
    Invalid {
        place: place.to_owned(),
        reason: reason.into(),
    }
}
