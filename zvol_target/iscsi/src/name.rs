// SPDX-License-Identifier: Apache-2.0
//! iSCSI names (RFC 7143 4.2.7).

use std::fmt;
use std::str::FromStr;

/// Longest iSCSI name, bytes (4.2.7.1).
const NAME_LENGTH_MAX: usize = 223;

/// A valid iSCSI name, in the form for comparisons: lower case.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IscsiName(String);

/// Why a string is not an iSCSI name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Empty, or longer than 223 bytes.
    #[error("an iSCSI name has 1 to 223 bytes")]
    Length,
    /// A character that stringprep's iSCSI profile does not allow (RFC 3722).
    #[error("an iSCSI name has only letters, digits, '-', '.', ':' and '_'")]
    Character,
    /// Not of type "iqn.", "eui." or "naa.".
    #[error("an iSCSI name starts with \"iqn.\", \"eui.\" or \"naa.\"")]
    Type,
    /// "iqn." without a date and a naming authority.
    #[error("after \"iqn.\" come yyyy-mm, a dot and a reversed domain name")]
    Qualified,
    /// "eui." without 16 hexadecimal digits.
    #[error("after \"eui.\" come 16 hexadecimal digits")]
    Eui,
    /// "naa." without 16 or 32 hexadecimal digits.
    #[error("after \"naa.\" come 16 or 32 hexadecimal digits")]
    Naa,
}

impl IscsiName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for IscsiName {
    type Err = NameError;

    /// Parses a name and converts it to lower case.
    ///
    /// # Errors
    /// [`NameError`], with the violated rule.
    fn from_str(name: &str) -> Result<Self, NameError> {
        if name.is_empty() || name.len() > NAME_LENGTH_MAX {
            return Err(NameError::Length);
        }
        // RFC 3722 allows letters beyond ASCII; the creator of the name must have normalised them. It does not allow the
        // underscore, but Windows copies one from the host name.
        let allowed =
            |letter: char| matches!(letter, '-' | '.' | ':' | '_') || letter.is_alphanumeric();
        if !name.chars().all(allowed) {
            return Err(NameError::Character);
        }
        let name = name.to_lowercase();
        let hexadecimal = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match name.split_at_checked(4) {
            Some(("iqn.", rest)) => {
                let (date, authority) = rest.split_once('.').ok_or(NameError::Qualified)?;
                if !is_year_and_month(date) || authority.is_empty() || authority.starts_with(':') {
                    return Err(NameError::Qualified);
                }
            }
            Some(("eui.", rest)) if rest.len() == 16 && hexadecimal(rest) => {}
            Some(("eui.", _)) => return Err(NameError::Eui),
            Some(("naa.", rest)) if matches!(rest.len(), 16 | 32) && hexadecimal(rest) => {}
            Some(("naa.", _)) => return Err(NameError::Naa),
            _ => return Err(NameError::Type),
        }
        // Lower case can be longer beyond ASCII.
        if name.len() > NAME_LENGTH_MAX {
            return Err(NameError::Length);
        }
        Ok(Self(name))
    }
}

fn is_year_and_month(date: &str) -> bool {
    let Some((year, month)) = date.split_once('-') else {
        return false;
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    year.len() == 4
        && month.len() == 2
        && digits(year)
        && digits(month)
        && ("01"..="12").contains(&month)
}

impl fmt::Display for IscsiName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for IscsiName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, formatter)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_standards_examples_are_names() {
        for name in [
            "iqn.2001-04.com.example:storage:diskarrays-sn-a8675309",
            "iqn.2001-04.com.example",
            "iqn.1993-08.org.debian:01:5dd4c93c2a1",
            "eui.02004567A425678D",
            "naa.52004567BA64678D",
            "naa.62004567BA64678D0123456789ABCDEF",
        ] {
            assert_eq!(
                name.parse::<IscsiName>().unwrap().as_str(),
                name.to_lowercase()
            );
        }
    }

    #[test]
    fn each_rule_is_named() {
        let long = format!("iqn.2001-04.com.example:{}", "a".repeat(200));
        for (name, error) in [
            ("", NameError::Length),
            (long.as_str(), NameError::Length),
            ("iqn.2001-04.com.example:a b", NameError::Character),
            ("iqn.2001-04.com.example:a/b", NameError::Character),
            ("disk", NameError::Type),
            ("iq", NameError::Type),
            ("iqn.2001-13.com.example", NameError::Qualified),
            ("iqn.201-10.com.example", NameError::Qualified),
            ("iqn.2001-04", NameError::Qualified),
            ("iqn.2001-04.:a", NameError::Qualified),
            ("eui.02004567A425678", NameError::Eui),
            ("eui.02004567A425678X", NameError::Eui),
            ("naa.52004567BA64678D0", NameError::Naa),
        ] {
            assert_eq!(name.parse::<IscsiName>(), Err(error), "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_string_is_a_name_or_an_error(name in "(iqn\\.|eui\\.|naa\\.)?\\PC{0,40}") {
            if let Ok(valid) = name.parse::<IscsiName>() {
                prop_assert_eq!(valid.as_str().parse::<IscsiName>(), Ok(valid.clone()));
            }
        }
    }
}
