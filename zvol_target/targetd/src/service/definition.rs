// SPDX-License-Identifier: Apache-2.0
//! Converts a configured target for the iSCSI server and the SCSI device.

use std::sync::Arc;

use iscsi::{
    Authentication, ChapAccount, IscsiName, Secret, TargetAccess, TargetDefinition, TargetPort,
};
use scsi::LogicalUnitAccess;

use super::ServiceError;
use crate::configuration::{
    Access, Account, Direction, Invalid, KeyError, PortalGroup, Target, Vault,
};
use crate::reactor_device::ReactorDevice;

/// Bytes of a random secret that is not stored.
const UNKNOWN_SECRET_BYTES: usize = 32;

/// Definition of a target for the iSCSI server, with a port in each of `groups`.
pub(super) fn definition(
    target: &Target,
    groups: &[PortalGroup],
    device: Arc<ReactorDevice>,
    vault: &Vault,
) -> Result<TargetDefinition, ServiceError> {
    Ok(TargetDefinition {
        name: name(&target.name)?,
        ports: groups
            .iter()
            .map(|group| TargetPort {
                portal_group_tag: group.tag,
                relative_target_port: group.relative_target_port,
            })
            .collect(),
        access: match &target.initiators {
            Access::Any => TargetAccess::Any,
            Access::Initiators(names) => TargetAccess::Initiators(names.clone()),
        },
        authentication: authentication(target, vault)?,
        device,
    })
}

/// The ports for the SCSI device.
pub(super) fn scsi_ports(target: &str, groups: &[PortalGroup]) -> Vec<scsi::TargetPort> {
    let groups = groups.iter();
    groups
        .map(|group| scsi::TargetPort {
            relative_target_port: group.relative_target_port,
            target_port_group: group.target_port_group,
            // RFC 7143 4.4.2.
            name: format!("{target},t,0x{:04x}", group.tag),
        })
        .collect()
}

/// The access list of a logical unit for the SCSI device.
pub(super) fn unit_access(access: &Access) -> LogicalUnitAccess {
    match access {
        Access::Any => LogicalUnitAccess::Any,
        Access::Initiators(names) => {
            let names = names.iter().map(|name| name.as_str().to_owned());
            LogicalUnitAccess::Initiators(names.collect())
        }
    }
}

/// CHAP of a target. If its accounts cannot be used, there is one account with a random secret: without accounts, the target would
/// be open to all.
fn authentication(target: &Target, vault: &Vault) -> Result<Authentication, ServiceError> {
    match unusable_accounts(target, vault) {
        Some(_) => closed(),
        None => unsealed(target, vault),
    }
}

/// Why the accounts of a target cannot be used, if that is so.
pub(super) fn unusable_accounts(target: &Target, vault: &Vault) -> Option<ServiceError> {
    let accounts = &target.authentication;
    match (unsealed(target, vault), vault.missed()) {
        (Err(_), Some(missed)) => Some(KeyError::from(missed.clone()).into()),
        (Err(error), None) => Some(error),
        (Ok(_), _) if accounts.required && accounts.incoming.is_empty() => {
            Some(ServiceError::NoAccounts)
        }
        (Ok(_), _) => None,
    }
}

fn unsealed(target: &Target, vault: &Vault) -> Result<Authentication, ServiceError> {
    let accounts = &target.authentication;
    let unseal = |direction, account: &Account| -> Result<ChapAccount, ServiceError> {
        let secret = vault.unseal(&target.name, direction, account)?;
        Ok(ChapAccount {
            name: account.name.clone(),
            secret: Secret::new(&secret)?,
            initiators: account
                .initiators
                .as_ref()
                .map(|names| names.iter().map(|text| name(text)).collect())
                .transpose()?,
        })
    };
    let incoming = accounts.incoming.iter();
    let mutual = accounts.mutual.as_ref();
    Ok(Authentication {
        incoming: incoming
            .map(|account| unseal(Direction::Incoming, account))
            .collect::<Result<_, _>>()?,
        outgoing: mutual
            .map(|account| unseal(Direction::Mutual, account))
            .transpose()?,
    })
}

/// CHAP with a random secret: nobody can log in.
fn closed() -> Result<Authentication, ServiceError> {
    let mut secret = zeroize::Zeroizing::new([0; UNKNOWN_SECRET_BYTES]);
    getrandom::fill(&mut *secret)
        .map_err(|_| KeyError::from(crate::configuration::NoRandomBytes))?;
    Ok(Authentication {
        incoming: vec![ChapAccount {
            name: "nobody".to_owned(),
            secret: Secret::new(&*secret)?,
            initiators: None,
        }],
        outgoing: None,
    })
}

fn name(text: &str) -> Result<IscsiName, ServiceError> {
    text.parse().map_err(|error: iscsi::NameError| {
        ServiceError::Invalid(Invalid {
            place: text.to_owned(),
            reason: error.to_string(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::{Accounts, Configuration, KeyFile, Purpose, SecretText};

    #[test]
    fn nobody_logs_in_with_a_stored_secret_that_is_too_weak() {
        let directory = tempfile::tempdir().unwrap();
        let file = KeyFile::next_to(&directory.path().join("target.json"));
        let mut configuration = Configuration::default();
        let mut vault = Vault::open(file, &configuration).unwrap();
        let name = "iqn.2026-11.example:a";
        let purpose = Purpose {
            target: name,
            direction: Direction::Incoming,
            account: "host",
            initiators: None,
        };
        let secret = SecretText::from("short".to_owned());
        let account = vault.seal(&mut configuration, &secret, &purpose).unwrap();
        let target = Target {
            name: name.to_owned(),
            initiators: Access::Any,
            authentication: Accounts {
                required: true,
                incoming: vec![account],
                mutual: None,
            },
            luns: Vec::new(),
        };
        assert!(unusable_accounts(&target, &vault).is_some());
        let authentication = authentication(&target, &vault).unwrap();
        assert_eq!(authentication.incoming[0].name, "nobody");
    }
}
