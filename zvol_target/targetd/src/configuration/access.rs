// SPDX-License-Identifier: Apache-2.0
//! Access lists of initiators, as in the configuration file and on the control socket.

use std::collections::BTreeSet;
use std::fmt;

use iscsi::IscsiName;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Text form of [`Access::Any`].
const ANY: &str = "any";

/// Initiators that may use a target or a logical unit: `"any"`, or a list of their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// All initiators.
    Any,
    /// Only these.
    Initiators(BTreeSet<IscsiName>),
}

impl Access {
    /// Default access of a target: no initiator.
    pub fn nobody() -> Self {
        Self::Initiators(BTreeSet::new())
    }

    /// Default access of a logical unit: all initiators that may use its target.
    pub fn any() -> Self {
        Self::Any
    }
}

impl Serialize for Access {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Any => serializer.serialize_str(ANY),
            Self::Initiators(names) => serializer.collect_seq(names.iter().map(IscsiName::as_str)),
        }
    }
}

impl<'de> Deserialize<'de> for Access {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AccessVisitor)
    }
}

struct AccessVisitor;

impl<'de> Visitor<'de> for AccessVisitor {
    type Value = Access;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("\"any\" or a list of initiator names")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Access, E> {
        if text == ANY {
            Ok(Access::Any)
        } else {
            Err(E::invalid_value(de::Unexpected::Str(text), &self))
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<Access, A::Error> {
        let mut initiators = BTreeSet::new();
        while let Some(text) = names.next_element::<String>()? {
            let name = text
                .parse()
                .map_err(|error| de::Error::custom(format!("{text:?}: {error}")))?;
            initiators.insert(name);
        }
        Ok(Access::Initiators(initiators))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_a_list_and_nothing_else() {
        let read = |text: &str| serde_json::from_str::<Access>(text).map_err(|e| e.to_string());
        assert_eq!(read("\"any\""), Ok(Access::Any));
        assert_eq!(read("[]"), Ok(Access::nobody()));
        let listed = read(r#"["iqn.2026-11.example:B", "iqn.2026-11.example:a"]"#).unwrap();
        let written = serde_json::to_string(&listed).unwrap();
        assert_eq!(
            written,
            r#"["iqn.2026-11.example:a","iqn.2026-11.example:b"]"#
        );
        assert_eq!(serde_json::to_string(&Access::Any).unwrap(), "\"any\"");
        for (wrong, said) in [
            ("\"all\"", "\"any\" or a list"),
            ("{}", "\"any\" or a list"),
            ("null", "\"any\" or a list"),
            ("[\"disk\"]", "\"disk\": an iSCSI name starts with"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(said), "{wrong}: {error}");
        }
    }
}
