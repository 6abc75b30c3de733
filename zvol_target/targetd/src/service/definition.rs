//! From a configured target to what the iSCSI server takes.

use std::sync::Arc;

use iscsi::{
    Authentication, ChapAccount, IscsiName, Secret, TargetAccess, TargetDefinition, TargetPort,
};

use super::ServiceError;
use crate::configuration::{Account, Invalid, Target};
use crate::reactor_device::ReactorDevice;

/// The port of each target in a portal group. Its identifier is the group's, and so does not depend on order: hosts find the
/// same ports after every restart.
pub(super) fn port(portal_group_tag: u16) -> TargetPort {
    TargetPort {
        portal_group_tag,
        relative_target_port: portal_group_tag,
    }
}

/// What the iSCSI server is told of a target.
pub(super) fn definition(
    target: &Target,
    ports: Vec<TargetPort>,
    device: Arc<ReactorDevice>,
) -> Result<TargetDefinition, ServiceError> {
    let accounts = target.accounts.iter().map(account);
    Ok(TargetDefinition {
        name: name(&target.name)?,
        alias: target.alias.clone(),
        ports,
        access: if target.initiators.is_empty() {
            TargetAccess::Any
        } else {
            let admitted = target.initiators.iter().map(|text| name(text));
            TargetAccess::Initiators(admitted.collect::<Result<_, _>>()?)
        },
        authentication: Authentication {
            incoming: accounts.collect::<Result<_, _>>()?,
            outgoing: target.mutual_account.as_ref().map(account).transpose()?,
        },
        device,
    })
}

fn account(account: &Account) -> Result<ChapAccount, ServiceError> {
    Ok(ChapAccount {
        name: account.name.clone(),
        secret: Secret::new(account.secret.0.as_bytes())?,
        initiator: account.initiator.as_deref().map(name).transpose()?,
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
