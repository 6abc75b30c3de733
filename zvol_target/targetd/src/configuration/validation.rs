// SPDX-License-Identifier: Apache-2.0
//! Rules for the content of a configuration.

use std::collections::HashSet;

use iscsi::IscsiName;
use scsi::MAXIMUM_LOGICAL_UNIT_NUMBER;

use super::document::{Account, Accounts, Configuration, Lun, RetainedNames, Target};
use super::host_group;
use super::sealing::SecretText;
use super::space::Threshold;

/// Highest `headroom_bytes` of a pool, more than any pool has.
const MOST_HEADROOM: u64 = 1 << 60;

/// Highest number of names of one host: an `ESXi` host has one, or some more with independent adapters.
const INITIATORS_MAX: usize = 64;

/// Longest `CHAP_N`, bytes (RFC 7143 6.1: a text value).
pub(super) const TEXT_LENGTH_MAX: usize = 255;

/// An invalid value in a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct Invalid {
    /// Path of the field, such as `targets[0].luns[1].path`.
    pub place: String,
    /// Why the value is invalid.
    pub reason: String,
}

pub(super) fn invalid(place: impl Into<String>, reason: impl Into<String>) -> Invalid {
    Invalid {
        place: place.into(),
        reason: reason.into(),
    }
}

impl Configuration {
    /// Checks everything that can be checked without opening a file or device.
    ///
    /// # Errors
    /// The first invalid value.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.validate_portals()?;
        self.validate_groups()?;
        host_group::validate(&self.host_groups)?;
        self.validate_pools()?;
        let mut names = HashSet::new();
        let mut uuids = HashSet::new();
        let mut shown = HashSet::new();
        for (at, target) in self.targets.iter().enumerate() {
            let place = format!("targets[{at}]");
            validate_target(target).map_err(|error| within(&place, error))?;
            if !names.insert(&target.name) {
                return Err(invalid(
                    place + ".name",
                    format!("{} occurs twice", target.name),
                ));
            }
            for (index, lun) in target.luns.iter().enumerate() {
                if !uuids.insert(lun.uuid) {
                    // Hosts take two units with one NAA name for one unit with two paths, and corrupt VMFS.
                    let place = format!("{place}.luns[{index}].uuid");
                    return Err(invalid(
                        place,
                        format!("{} belongs to another LUN", lun.uuid),
                    ));
                }
                if let Some(name) = names_of(lun).find(|name| !shown.insert(name.clone())) {
                    let place = format!("{place}.luns[{index}].designation");
                    return Err(invalid(place, format!("{name} belongs to another LUN")));
                }
            }
        }
        Ok(())
    }

    fn validate_portals(&self) -> Result<(), Invalid> {
        let mut addresses = HashSet::new();
        for (at, portal) in self.portals.iter().flatten().enumerate() {
            let place = format!("portals[{at}]");
            if portal.group_tag == 0 {
                // RFC 7143 13.9 allows 0; relative target port identifiers start at 1 (SPC-5 7.7.6.8).
                return Err(invalid(place + ".group_tag", "must be 1 or more"));
            }
            if portal.advertised.is_some_and(|advertised| {
                advertised.port() == 0 || advertised.ip().is_unspecified()
            }) {
                let reason = "must be an address and port that initiators can connect to";
                return Err(invalid(place + ".advertised", reason));
            }
            if !addresses.insert(portal.address) {
                let reason = format!("{} occurs twice", portal.address);
                return Err(invalid(place + ".address", reason));
            }
        }
        Ok(())
    }

    fn validate_pools(&self) -> Result<(), Invalid> {
        let mut names = HashSet::new();
        for (at, pool) in self.pools.iter().enumerate() {
            let place = format!("pools[{at}]");
            validate_threshold(pool.soft_threshold).map_err(|error| within(&place, error))?;
            if pool.name.is_empty() || !is_text_value(&pool.name) {
                let reason = format!("has 1 to {TEXT_LENGTH_MAX} bytes and no NUL");
                return Err(invalid(place + ".name", reason));
            }
            if pool
                .headroom_bytes
                .is_some_and(|bytes| bytes > MOST_HEADROOM)
            {
                let reason = format!("must be {MOST_HEADROOM} or less");
                return Err(invalid(place + ".headroom_bytes", reason));
            }
            if !names.insert(&pool.name) {
                let reason = format!("{} occurs twice", pool.name);
                return Err(invalid(place + ".name", reason));
            }
        }
        Ok(())
    }

    fn validate_groups(&self) -> Result<(), Invalid> {
        let mut tags = HashSet::new();
        let mut ports = HashSet::new();
        for (at, group) in self.portal_groups.iter().enumerate() {
            for (field, value) in [
                ("tag", group.tag),
                ("relative_target_port", group.relative_target_port),
                ("target_port_group", group.target_port_group),
            ] {
                if value == 0 {
                    let place = format!("portal_groups[{at}].{field}");
                    return Err(invalid(place, "must be 1 or more"));
                }
            }
            if !tags.insert(group.tag) {
                let place = format!("portal_groups[{at}].tag");
                return Err(invalid(place, format!("{} occurs twice", group.tag)));
            }
            if !ports.insert(group.relative_target_port) {
                let place = format!("portal_groups[{at}].relative_target_port");
                let reason = format!("{} belongs to another group", group.relative_target_port);
                return Err(invalid(place, reason));
            }
        }
        Ok(())
    }
}

fn within(place: &str, error: Invalid) -> Invalid {
    invalid(format!("{place}.{}", error.place), error.reason)
}

fn is_text_value(text: &str) -> bool {
    text.len() <= TEXT_LENGTH_MAX && !text.contains('\0')
}

fn validate_target(target: &Target) -> Result<(), Invalid> {
    let name = parse_name("name", &target.name)?;
    if name.as_str() != target.name {
        return Err(invalid(
            "name",
            format!("write it in canonical form: {name}"),
        ));
    }
    validate_accounts(&target.authentication).map_err(|error| within("authentication", error))?;
    let mut numbers = HashSet::new();
    for (at, lun) in target.luns.iter().enumerate() {
        let place = format!("luns[{at}]");
        validate_lun(lun).map_err(|error| within(&place, error))?;
        if !numbers.insert(lun.number) {
            return Err(invalid(
                place + ".number",
                format!("{} occurs twice", lun.number),
            ));
        }
    }
    Ok(())
}

fn parse_name(place: &str, name: &str) -> Result<IscsiName, Invalid> {
    name.parse()
        .map_err(|error: iscsi::NameError| invalid(place, error.to_string()))
}

fn validate_accounts(accounts: &Accounts) -> Result<(), Invalid> {
    if accounts.count() > 0 && !accounts.required {
        return Err(invalid("required", "must be true where there are accounts"));
    }
    let mut names = HashSet::new();
    for (at, account) in accounts.incoming.iter().enumerate() {
        let place = format!("incoming[{at}]");
        validate_account(account).map_err(|error| within(&place, error))?;
        if !names.insert(&account.name) {
            let reason = format!("{:?} occurs twice", account.name);
            return Err(invalid(place + ".name", reason));
        }
    }
    match &accounts.mutual {
        Some(account) => validate_account(account).map_err(|error| within("mutual", error)),
        None => Ok(()),
    }
}

fn validate_account(account: &Account) -> Result<(), Invalid> {
    if account.name.is_empty() || !is_text_value(&account.name) {
        let reason = format!("has 1 to {TEXT_LENGTH_MAX} bytes and no NUL");
        return Err(invalid("name", reason));
    }
    let Some(initiators) = &account.initiators else {
        return Ok(());
    };
    if initiators.is_empty() || initiators.len() > INITIATORS_MAX {
        let reason = format!("has 1 to {INITIATORS_MAX} names, or is \"any\"");
        return Err(invalid("initiators", reason));
    }
    let mut names = HashSet::new();
    for (at, initiator) in initiators.iter().enumerate() {
        let place = format!("initiators[{at}]");
        if !names.insert(parse_name(&place, initiator)?) {
            return Err(invalid(place, format!("{initiator} occurs twice")));
        }
    }
    Ok(())
}

/// Checks the CHAP secret at `place` of the account `name`.
///
/// # Errors
/// If it has less than 12 bytes (96 bits, RFC 7143 9.2.1) or more than 255, is weak, or equals the account's name, which is
/// public.
pub fn check_secret(place: &str, name: &str, secret: &SecretText) -> Result<(), Invalid> {
    if let Err(error) = iscsi::Secret::new(secret.expose()) {
        return Err(invalid(place, error.to_string()));
    }
    if secret.expose().eq_ignore_ascii_case(name.as_bytes()) {
        return Err(invalid(place, "must not be the account's name"));
    }
    Ok(())
}

fn validate_threshold(threshold: Option<Threshold>) -> Result<(), Invalid> {
    match threshold {
        Some(Threshold { percent }) if !(1..=100).contains(&percent) => {
            Err(invalid("soft_threshold.percent", "must be 1 to 100"))
        }
        _ => Ok(()),
    }
}

/// Names by which hosts identify the unit; each once, and of no other unit.
fn names_of(lun: &Lun) -> impl Iterator<Item = String> {
    let (serial_number, designators) = if let Some(retained) = &lun.designation {
        let serial_number = retained.serial_number.trim_end_matches('\0').to_owned();
        (serial_number, retained.designators.clone())
    } else {
        let naa = u128::from_be_bytes(scsi::naa(lun.uuid.into_bytes()));
        (
            lun.uuid.simple().to_string(),
            vec![format!("naa.{naa:032x}")],
        )
    };
    std::iter::once(format!("serial number {serial_number}")).chain(designators)
}

fn validate_retained_names(retained: &RetainedNames) -> Result<(), Invalid> {
    if let Some(vendor) = &retained.vendor {
        scsi::ProductIdentification::new(vendor, "", "")
            .map_err(|error| invalid("vendor", error.to_string()))?;
    }
    for (at, text) in retained.designators.iter().enumerate() {
        let place = format!("designators[{at}]");
        let designator: scsi::Designator = text
            .parse()
            .map_err(|error: scsi::DesignationError| invalid(&place, error.to_string()))?;
        let canonical = designator.to_string();
        if canonical != *text {
            return Err(invalid(
                place,
                format!("write it in canonical form: {canonical}"),
            ));
        }
    }
    match retained.designation() {
        Ok(_) => Ok(()),
        Err(error @ scsi::DesignationError::SerialNumber) => {
            Err(invalid("serial_number", error.to_string()))
        }
        Err(error) => Err(invalid("designators", error.to_string())),
    }
}

fn validate_lun(lun: &Lun) -> Result<(), Invalid> {
    if let Some(retained) = &lun.designation {
        validate_retained_names(retained).map_err(|error| within("designation", error))?;
    }
    validate_threshold(lun.soft_threshold)?;
    if !lun.path.is_absolute() {
        return Err(invalid("path", "must be absolute"));
    }
    if lun
        .reservations
        .as_ref()
        .is_some_and(|path| !path.is_absolute())
    {
        return Err(invalid("reservations", "must be absolute"));
    }
    if lun.number > MAXIMUM_LOGICAL_UNIT_NUMBER {
        let reason = format!("the largest is {MAXIMUM_LOGICAL_UNIT_NUMBER}");
        return Err(invalid("number", reason));
    }
    scsi::ProductIdentification::new("", &lun.product, "")
        .map_err(|error| invalid("product", error.to_string()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_without_required_chap_are_refused() {
        let accounts = |text| validate_accounts(&serde_json::from_str(text).unwrap());
        let refused = accounts(r#"{"incoming": [{"name": "a", "sealed_secret": "AAAA"}]}"#);
        assert_eq!(refused.unwrap_err().place, "required");
        for good in [
            r#"{"required": true, "incoming": [{"name": "a", "sealed_secret": "AAAA"}]}"#,
            r#"{"required": true}"#,
            "{}",
        ] {
            accounts(good).unwrap();
        }
    }

    #[test]
    fn weak_secrets_are_refused() {
        let check = |name: &str, secret: &str| {
            let secret = SecretText::from(secret.to_owned());
            check_secret("secret", name, &secret).map_err(|error| error.reason)
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
