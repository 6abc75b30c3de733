//! CHAP accounts of targets and of discovery.

use super::definition::unusable_accounts;
use super::{Service, ServiceError, target_of};
use crate::configuration::{
    Accounts, Configuration, Direction, Holder, Invalid, Purpose, SecretText, check_secret,
};

/// A CHAP account as it is to be.
#[derive(Debug)]
pub struct AccountSetting {
    /// Whose.
    pub holder: Holder,
    /// Which of its accounts.
    pub direction: Direction,
    /// `CHAP_N`.
    pub name: String,
    /// The secret.
    pub secret: SecretText,
    /// The only initiator that may use it.
    pub initiator: Option<String>,
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

    /// Why nobody can log in with the accounts of a holder, if that is so: the key for its secrets is missing, or one of them
    /// cannot be read.
    ///
    /// # Errors
    /// [`ServiceError::NoTarget`].
    pub fn accounts_problem(&self, holder: &Holder) -> Result<Option<ServiceError>, ServiceError> {
        let accounts = self.accounts(holder)?;
        Ok(unusable_accounts(holder, accounts, &self.vault))
    }

    /// Sets an account by its name; there is one mutual account at most.
    ///
    /// # Errors
    /// [`ServiceError::NoTarget`], [`ServiceError::Invalid`] for a weak secret, [`ServiceError::Refused`] for one that another
    /// account has, [`ServiceError::Key`], [`ServiceError::NotStored`].
    pub fn set_account(&mut self, setting: &AccountSetting) -> Result<(), ServiceError> {
        check_strength(&setting.name, &setting.secret)?;
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
            initiator: setting.initiator.as_deref(),
        };
        let account = self.vault.seal(&mut candidate, &setting.secret, &purpose)?;
        let accounts = accounts_of(&mut candidate, &setting.holder)?;
        match setting.direction {
            Direction::Incoming => accounts.incoming.push(account),
            Direction::Mutual => accounts.mutual = Some(account),
        }
        accounts.incoming.sort_by(|a, b| a.name.cmp(&b.name));
        self.change_targets(candidate)
    }

    /// Removes an account.
    ///
    /// # Errors
    /// [`ServiceError::NoTarget`], [`ServiceError::NoAccount`], [`ServiceError::NotStored`].
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
        self.change_targets(candidate)
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

/// Refuses secrets of fewer than 96 bits (RFC 7143 9.2.1), and the account's name, which everybody sees.
fn check_strength(name: &str, secret: &SecretText) -> Result<(), Invalid> {
    check_secret("secret", secret)?;
    if secret.expose().eq_ignore_ascii_case(name.as_bytes()) {
        return Err(Invalid {
            place: "secret".to_owned(),
            reason: "must not be the account's name".to_owned(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weak_secrets_are_refused() {
        let check = |name: &str, secret: &str| {
            check_strength(name, &SecretText::from(secret.to_owned())).map_err(|e| e.reason)
        };
        assert_eq!(check("host", "vj4Kq0ZpWx7T"), Ok(()));
        for (name, secret, said) in [
            ("host", "vj4Kq0ZpWx7", "12 to 255 bytes"),
            ("host", &"vj4Kq0ZpWx7".repeat(24), "12 to 255 bytes"),
            ("host", "abababababab", "random"),
            ("Storage-Host-1", "storage-host-1", "name"),
        ] {
            let reason = check(name, secret).unwrap_err();
            assert!(reason.contains(said), "{secret}: {reason}");
        }
    }
}
