// SPDX-License-Identifier: Apache-2.0
//! Passes the login rules of a target, and the account that a session has proven, to the SCSI layer. A third-party copy may name
//! logical units of another target only if its initiator may log in there.

use std::sync::OnceLock;

use scsi::sam::{AcceptedAccount, AccountProof, Admission, LogicalUnitAccess};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::config::{ChapAccount, TargetAccess, TargetDefinition};

/// Proof of an account's name and secret: a hash with a key of this process, so that it cannot be used to try secrets. `None` if
/// the operating system returned no random bytes; then nothing is proven.
fn proof(account: &ChapAccount) -> Option<AccountProof> {
    static KEY: OnceLock<Option<[u8; 32]>> = OnceLock::new();
    let key = KEY.get_or_init(|| {
        let mut key = [0; 32];
        getrandom::fill(&mut key).ok().map(|()| key)
    });
    // At most 255 bytes. The length separates name and secret.
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
    /// The login rules of the target.
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

    /// The proof of the account that a session logged in with.
    pub(crate) fn proven_by(&self, account: &str) -> Option<AccountProof> {
        let mut accounts = self.authentication.incoming.iter();
        proof(accounts.find(|known| known.name == account)?)
    }
}

/// The rules of a target that was removed: no initiator may log in.
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
        let expected = proof("esx", "correct horse battery");
        assert_eq!(expected, proof("esx", "correct horse battery"));
        assert_ne!(expected, proof("esx", "correct horse cattery"));
        assert_ne!(expected, proof("esy", "correct horse battery"));
        // The border between name and secret is part of the proof.
        assert_ne!(expected, proof("esxc", "orrect horse battery"));
        assert_eq!(format!("{expected:?}"), "AccountProof(..)");
    }
}
