// SPDX-License-Identifier: Apache-2.0
//! CHAP accounts of targets and of discovery.

use super::definition::unusable_accounts;
use super::{Service, ServiceError, target_of};
use crate::configuration::{
    Accounts, Configuration, Direction, Holder, Invalid, Purpose, SecretText, check_secret,
};

/// A new or changed CHAP account.
#[derive(Debug)]
pub struct AccountSetting {
    /// Owner of the account.
    pub holder: Holder,
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
    /// The accounts of a holder.
    ///
    /// # Errors
    /// [`ServiceError::NoTarget`].
    pub fn accounts(&self, holder: &Holder) -> Result<&Accounts, ServiceError> {
        match holder {
            Holder::Discovery => Ok(&self.configuration.discovery),
            Holder::Target(name) => Ok(&self.target(name)?.authentication),
        }
    }

    /// Why no initiator can log in with the accounts of a holder, if that is so: the key for the secrets is missing, or a secret
    /// cannot be read.
    ///
    /// # Errors
    /// [`ServiceError::NoTarget`].
    pub fn accounts_problem(&self, holder: &Holder) -> Result<Option<ServiceError>, ServiceError> {
        let accounts = self.accounts(holder)?;
        Ok(unusable_accounts(holder, accounts, &self.vault))
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
        let accounts = accounts_of(&mut candidate, &setting.holder)?;
        match setting.direction {
            Direction::Incoming => accounts.incoming.retain(|a| a.name != setting.name),
            Direction::Mutual => accounts.mutual = None,
        }
        let purpose = Purpose {
            holder: &setting.holder,
            direction: setting.direction,
            account: &setting.name,
            initiators: setting.initiators.as_deref(),
        };
        let account = self.vault.seal(&mut candidate, &setting.secret, &purpose)?;
        let accounts = accounts_of(&mut candidate, &setting.holder)?;
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
    pub fn require_accounts(
        &mut self,
        holder: &Holder,
        required: bool,
    ) -> Result<(), ServiceError> {
        let mut candidate = self.configuration.clone();
        let accounts = accounts_of(&mut candidate, holder)?;
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
        holder: &Holder,
        direction: Direction,
        name: &str,
    ) -> Result<(), ServiceError> {
        let mut candidate = self.configuration.clone();
        let accounts = accounts_of(&mut candidate, holder)?;
        let before = accounts.count();
        match direction {
            Direction::Incoming => accounts.incoming.retain(|account| account.name != name),
            Direction::Mutual => drop(accounts.mutual.take_if(|account| account.name == name)),
        }
        if accounts.count() == before {
            return Err(ServiceError::NoAccount {
                holder: in_words(holder),
                name: name.to_owned(),
            });
        }
        if direction == Direction::Incoming && accounts.incoming.is_empty() {
            if let Some(mutual) = &accounts.mutual {
                let reason = format!("delete the mutual account {:?} first", mutual.name);
                return Err(invalid("name", reason).into());
            }
        }
        // Older files may lack this setting.
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

fn accounts_of<'a>(
    configuration: &'a mut Configuration,
    holder: &Holder,
) -> Result<&'a mut Accounts, ServiceError> {
    match holder {
        Holder::Discovery => Ok(&mut configuration.discovery),
        Holder::Target(name) => Ok(&mut target_of(configuration, name)?.authentication),
    }
}

pub(super) fn in_words(holder: &Holder) -> String {
    match holder {
        Holder::Discovery => "discovery".to_owned(),
        Holder::Target(name) => format!("target {name}"),
    }
}
