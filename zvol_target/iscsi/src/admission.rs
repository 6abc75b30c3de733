// SPDX-License-Identifier: Apache-2.0
//! Tells the SCSI layer who may log in to a target, and what a session has proven: a third-party copy may name logical units
//! of other targets, which its initiator then has to be able to log in to.

use std::sync::OnceLock;

use scsi::sam::{AcceptedAccount, AccountProof, Admission, LogicalUnitAccess};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::config::{ChapAccount, TargetAccess, TargetDefinition};

/// The proof of an account's name and secret, by a key of this process: whoever sees it can't try secrets on it. `None` when the operating
/// system gave no random bytes; nothing is proven then.
fn proof(account: &ChapAccount) -> Option<AccountProof> {
    static KEY: OnceLock<Option<[u8; 32]>> = OnceLock::new();
    let key = KEY.get_or_init(|| {
        let mut key = [0; 32];
        getrandom::fill(&mut key).ok().map(|()| key)
    });
    // At most 255 bytes. Its length keeps name and secret apart.
    let name_length = [account.name.len() as u8];
    let parts = [
        &key.as_ref()?[..],
        &name_length,
        account.name.as_bytes(),
        account.secret.expose(),
    ];
    let message = Zeroizing::new(parts.concat());
    Some(AccountProof(Sha256::digest(&*message).into()))
}

impl TargetDefinition {
    /// Who may log in.
    pub(crate) fn admission(&self) -> Admission {
        let initiators = match &self.access {
            TargetAccess::Any => LogicalUnitAccess::Any,
            TargetAccess::Initiators(names) => {
                LogicalUnitAccess::Initiators(names.iter().map(ToString::to_string).collect())
            }
        };
        let accounts = self.authentication.incoming.iter();
        let accepted = accounts.filter_map(|account| {
            Some(AcceptedAccount {
                proof: proof(account)?,
                initiator_devices: account
                    .initiators
                    .as_ref()
                    .map(|names| names.iter().map(ToString::to_string).collect()),
            })
        });
        Admission {
            initiators,
            accounts: (!self.authentication.incoming.is_empty()).then(|| accepted.collect()),
        }
    }

    /// What whoever logged in with the account has proven.
    pub(crate) fn proven_by(&self, account: &str) -> Option<AccountProof> {
        let mut accounts = self.authentication.incoming.iter();
        proof(accounts.find(|known| known.name == account)?)
    }
}

/// Nobody may log in: the target is gone.
pub(crate) fn nobody() -> Admission {
    Admission {
        initiators: LogicalUnitAccess::Initiators(std::collections::BTreeSet::new()),
        accounts: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Secret;

    fn account(name: &str, secret: &str) -> ChapAccount {
        ChapAccount {
            name: name.to_owned(),
            secret: Secret::new(secret.as_bytes()).unwrap(),
            initiators: None,
        }
    }

    #[test]
    fn the_same_account_is_the_same_proof_and_any_other_is_another() {
        let proof = |name, secret| proof(&account(name, secret)).unwrap();
        let one = proof("esx", "correct horse battery");
        assert_eq!(one, proof("esx", "correct horse battery"));
        assert_ne!(one, proof("esx", "correct horse cattery"));
        assert_ne!(one, proof("esy", "correct horse battery"));
        // The border between name and secret counts.
        assert_ne!(one, proof("esxc", "orrect horse battery"));
        assert_eq!(format!("{one:?}"), "AccountProof(..)");
    }
}
