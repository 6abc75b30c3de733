// SPDX-License-Identifier: Apache-2.0
//! GUIDs of datasets as text.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `guid` of a dataset (zfsprops(7)). In JSON it is a decimal string: numbers in JSON are too small for most of them (RFC 8259
/// 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetGuid(pub u64);

impl fmt::Display for DatasetGuid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl Serialize for DatasetGuid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DatasetGuid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let guid = text.parse().ok().map(Self);
        guid.filter(|guid| guid.to_string() == text)
            .ok_or_else(|| D::Error::custom("a GUID is a decimal number below 2^64, as a string"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guid_is_written_in_one_way() {
        let text = "\"18446744073709551615\"";
        let guid: DatasetGuid = serde_json::from_str(text).unwrap();
        assert_eq!(guid, DatasetGuid(u64::MAX));
        assert_eq!(serde_json::to_string(&guid).unwrap(), text);
        for wrong in [
            "\"\"",
            "\"-1\"",
            "\"+1\"",
            "\"01\"",
            "\"0x1\"",
            "\" 1\"",
            "1",
            "\"18446744073709551616\"",
        ] {
            assert!(
                serde_json::from_str::<DatasetGuid>(wrong).is_err(),
                "{wrong}"
            );
        }
    }
}
