//! What a configuration must satisfy beyond its form.

use std::collections::HashSet;

use iscsi::IscsiName;
use scsi::MAXIMUM_LOGICAL_UNIT_NUMBER;

use super::document::{Account, Configuration, Lun, Target, VERSION};

/// Something in a configuration that cannot be served: where, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct Invalid {
    /// Path of the field, such as `targets[0].luns[1].path`.
    pub place: String,
    /// What is wrong.
    pub reason: String,
}

fn invalid(place: impl Into<String>, reason: impl Into<String>) -> Invalid {
    Invalid {
        place: place.into(),
        reason: reason.into(),
    }
}

impl Configuration {
    /// Checks all that can be known without opening anything.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn validate(&self) -> Result<(), Invalid> {
        if self.version != VERSION {
            let reason = format!("{} is not known here, only {VERSION}", self.version);
            return Err(invalid("version", reason));
        }
        for (at, portal) in self.portals.iter().enumerate() {
            let place = format!("portals[{at}]");
            if portal.group_tag == 0 {
                // RFC 7143 13.9 allows 0; relative target port identifiers start at 1 (SPC-5 7.7.6.8).
                return Err(invalid(place + ".group_tag", "must be 1 or more"));
            }
            let before = self.portals.iter().take(at);
            if before.clone().any(|other| other.address == portal.address) {
                return Err(invalid(place + ".address", "is there twice"));
            }
        }
        let mut names = HashSet::new();
        let mut uuids = HashSet::new();
        for (at, target) in self.targets.iter().enumerate() {
            let place = format!("targets[{at}]");
            validate_target(target).map_err(|error| within(&place, error))?;
            if !names.insert(&target.name) {
                return Err(invalid(
                    place + ".name",
                    format!("{} is there twice", target.name),
                ));
            }
            for (index, lun) in target.luns.iter().enumerate() {
                if !uuids.insert(lun.uuid) {
                    // Two units with one NAA name look like one unit with two paths, and corrupt VMFS.
                    let place = format!("{place}.luns[{index}].uuid");
                    return Err(invalid(place, format!("{} is another unit's", lun.uuid)));
                }
            }
        }
        Ok(())
    }
}

fn within(place: &str, error: Invalid) -> Invalid {
    invalid(format!("{place}.{}", error.place), error.reason)
}

fn validate_target(target: &Target) -> Result<(), Invalid> {
    let name = parse_name("name", &target.name)?;
    if name.as_str() != target.name {
        return Err(invalid(
            "name",
            format!("write it as it is compared: {name}"),
        ));
    }
    for (at, initiator) in target.initiators.iter().enumerate() {
        parse_name(&format!("initiators[{at}]"), initiator)?;
    }
    for (at, account) in target.accounts.iter().enumerate() {
        let place = format!("accounts[{at}]");
        validate_account(account).map_err(|error| within(&place, error))?;
    }
    if let Some(account) = &target.mutual_account {
        validate_account(account).map_err(|error| within("mutual_account", error))?;
    }
    let mut numbers = HashSet::new();
    for (at, lun) in target.luns.iter().enumerate() {
        let place = format!("luns[{at}]");
        validate_lun(lun).map_err(|error| within(&place, error))?;
        if !numbers.insert(lun.number) {
            return Err(invalid(
                place + ".number",
                format!("{} is there twice", lun.number),
            ));
        }
    }
    Ok(())
}

fn parse_name(place: &str, name: &str) -> Result<IscsiName, Invalid> {
    name.parse()
        .map_err(|error: iscsi::NameError| invalid(place, error.to_string()))
}

fn validate_account(account: &Account) -> Result<(), Invalid> {
    iscsi::Secret::new(account.secret.0.as_bytes())
        .map_err(|error| invalid("secret", error.to_string()))?;
    if let Some(initiator) = &account.initiator {
        parse_name("initiator", initiator)?;
    }
    Ok(())
}

fn validate_lun(lun: &Lun) -> Result<(), Invalid> {
    if !lun.path.is_absolute() {
        return Err(invalid("path", "must be absolute"));
    }
    if lun.number > MAXIMUM_LOGICAL_UNIT_NUMBER {
        let reason = format!("the largest is {MAXIMUM_LOGICAL_UNIT_NUMBER}");
        return Err(invalid("number", reason));
    }
    scsi::ProductIdentification::new("", &lun.product, "")
        .map_err(|error| invalid("product", error.to_string()))?;
    Ok(())
}
