// SPDX-License-Identifier: Apache-2.0
//! The configuration file's version 1: an empty list of initiators admitted all, and CHAP secrets were there as they are.

use serde::Deserialize;

use super::access::Access;
use super::document::{Account, Accounts, Configuration, Holder, Lun, Portal, Target};
use super::sealing::{Direction, NoRandomBytes, Purpose, SealingKey, SecretText};
use super::validation::{Invalid, check_secret, invalid};

/// `version` of this form.
pub(super) const VERSION: u32 = 1;

/// The content of a file of version 1.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConfigurationV1 {
    #[serde(rename = "version")]
    _version: u32,
    #[serde(default)]
    portals: Vec<Portal>,
    #[serde(default)]
    targets: Vec<TargetV1>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetV1 {
    name: String,
    alias: Option<String>,
    #[serde(default = "Access::nobody")]
    initiators: Access,
    #[serde(default)]
    accounts: Vec<AccountV1>,
    mutual_account: Option<AccountV1>,
    #[serde(default)]
    luns: Vec<Lun>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AccountV1 {
    name: String,
    secret: SecretText,
    initiator: Option<String>,
}

impl ConfigurationV1 {
    /// Checks what version 2 cannot check any more: the secrets.
    ///
    /// # Errors
    /// The first one that is wrong.
    pub fn validate(&self) -> Result<(), Invalid> {
        for (at, target) in self.targets.iter().enumerate() {
            let accounts = target.accounts.iter().enumerate();
            let incoming = accounts.map(|(index, account)| (format!("accounts[{index}]"), account));
            let mutual = target.mutual_account.iter();
            let mutual = mutual.map(|account| ("mutual_account".to_owned(), account));
            for (place, account) in incoming.chain(mutual) {
                let place = format!("targets[{at}].{place}.secret");
                check_secret(&place, &account.name, &account.secret)?;
            }
            let Some(mutual) = &target.mutual_account else {
                continue;
            };
            if target
                .accounts
                .iter()
                .any(|account| account.secret == mutual.secret)
            {
                let place = format!("targets[{at}].mutual_account.secret");
                let reason = "must differ from the secrets of the target's other accounts";
                return Err(invalid(place, reason));
            }
        }
        Ok(())
    }

    /// The same as version 2, the secrets sealed with `key`.
    ///
    /// # Errors
    /// [`NoRandomBytes`].
    pub fn convert(self, key: &SealingKey) -> Result<Configuration, NoRandomBytes> {
        let targets = self.targets.into_iter();
        let mut converted = Configuration {
            // No portal meant what no list of portals means now.
            portals: (!self.portals.is_empty()).then_some(self.portals),
            targets: targets
                .map(|target| target.convert(key))
                .collect::<Result<_, _>>()?,
            ..Configuration::default()
        };
        if converted.has_accounts() {
            converted.key_fingerprint = Some(key.fingerprint());
        }
        Ok(converted)
    }
}

/// Where version 1 has what version 2 has at `place`.
pub(super) fn place_in_version_1(place: &str) -> String {
    place
        .replace(".authentication.incoming[", ".accounts[")
        .replace(".authentication.mutual.", ".mutual_account.")
}

impl TargetV1 {
    fn convert(self, key: &SealingKey) -> Result<Target, NoRandomBytes> {
        let holder = Holder::Target(self.name.clone());
        let has_accounts = !self.accounts.is_empty() || self.mutual_account.is_some();
        let incoming = self.accounts.into_iter();
        let mutual = self.mutual_account;
        Ok(Target {
            // Nobody named meant that anybody may.
            initiators: if self.initiators == Access::nobody() {
                Access::Any
            } else {
                self.initiators
            },
            name: self.name,
            alias: self.alias,
            authentication: Accounts {
                required: has_accounts,
                incoming: incoming
                    .map(|account| account.convert(key, &holder, Direction::Incoming))
                    .collect::<Result<_, _>>()?,
                mutual: mutual
                    .map(|account| account.convert(key, &holder, Direction::Mutual))
                    .transpose()?,
            },
            luns: self.luns,
        })
    }
}

impl AccountV1 {
    fn convert(
        self,
        key: &SealingKey,
        holder: &Holder,
        direction: Direction,
    ) -> Result<Account, NoRandomBytes> {
        let initiators = self.initiator.map(|name| vec![name]);
        let purpose = Purpose {
            holder,
            direction,
            account: &self.name,
            initiators: initiators.as_deref(),
        };
        Ok(Account {
            sealed_secret: key.seal(&self.secret, &purpose)?,
            name: self.name,
            initiators,
        })
    }
}
