// SPDX-License-Identifier: Apache-2.0
//! Users who may call methods over the control socket, in addition to root and the daemon's user.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use nix::unistd::{Uid, User};

/// A user by number or name.
///
/// A name is looked up at each connection. So a user who is created after the start of the daemon is accepted, and the number of
/// a deleted user is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedUser {
    /// By number.
    Number(u32),
    /// By name.
    Name(String),
}

impl AllowedUser {
    /// Whether it is the user with this number. Blocks during the lookup of a name.
    pub fn is(&self, uid: u32) -> bool {
        match self {
            Self::Number(number) => *number == uid,
            Self::Name(name) => number_of(name) == Some(Uid::from_raw(uid)),
        }
    }

    /// Whether the system has a user of this name. Blocks.
    pub fn is_known(&self) -> bool {
        match self {
            Self::Number(_) => true,
            Self::Name(name) => number_of(name).is_some(),
        }
    }
}

fn number_of(name: &str) -> Option<Uid> {
    match User::from_name(name) {
        Ok(user) => user.map(|user| user.uid),
        Err(error) => {
            tracing::warn!(name, %error, "a user cannot be looked up");
            None
        }
    }
}

impl FromStr for AllowedUser {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text
            .parse()
            .map_or_else(|_| Self::Name(text.to_owned()), Self::Number))
    }
}

impl fmt::Display for AllowedUser {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(formatter),
            Self::Name(name) => name.fmt(formatter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(text: &str) -> AllowedUser {
        text.parse().unwrap()
    }

    #[test]
    fn a_user_is_meant_by_number_or_name() {
        assert!(user("1000").is(1000) && !user("1000").is(1001));
        assert!(user("root").is(0) && !user("root").is(1) && user("root").is_known());
        let unknown = user("nobody has this name");
        assert!(!unknown.is_known() && !unknown.is(0) && !unknown.is(u32::MAX));
    }
}
