// SPDX-License-Identifier: Apache-2.0
//! Operational parameters: keys of RFC 7143 13, their defaults, bounds and result functions.

use crate::text::parse_number;

/// `MaxRecvDataSegmentLength` that this target declares, bytes.
pub const TARGET_MAX_RECV_DATA_SEGMENT_LENGTH: u32 = 256 << 10;
/// Largest `MaxBurstLength` that this target accepts, bytes. An R2T requests at most this.
const MAX_BURST_LENGTH: u32 = 1 << 20;
/// Largest `FirstBurstLength` that this target accepts, bytes. Memory must suffice for a full command window of it.
const FIRST_BURST_LENGTH: u32 = 64 << 10;
/// Largest `MaxOutstandingR2T` that this target accepts.
const MAX_OUTSTANDING_R2T: u32 = 8;
/// Limits of the keys for data lengths (13.12 to 13.14).
const DATA_LENGTH_BOUNDS: std::ops::RangeInclusive<u32> = 512..=0x00ff_ffff;
/// Limits of `DefaultTime2Wait` and `DefaultTime2Retain`, seconds.
const TIME_BOUNDS: std::ops::RangeInclusive<u32> = 0..=3600;

/// Kind of a session (13.21).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionType {
    /// SCSI commands.
    Normal,
    /// `SendTargets` only.
    Discovery,
}

/// Negotiated parameters that the target uses. Lengths in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // They are the standard's boolean keys.
pub struct NegotiatedParameters {
    /// CRC32C over headers.
    pub header_digest: bool,
    /// CRC32C over data segments.
    pub data_digest: bool,
    /// No unsolicited Data-Out PDUs.
    pub initial_r2t: bool,
    /// Whether a command may carry data.
    pub immediate_data: bool,
    /// Longest data segment that the initiator accepts.
    pub initiator_max_recv_data_segment_length: u32,
    /// Longest data segment that this target accepts.
    pub target_max_recv_data_segment_length: u32,
    /// Longest sequence of Data-In, or of Data-Out for one R2T.
    pub max_burst_length: u32,
    /// Most unsolicited data of a command, including immediate data.
    pub first_burst_length: u32,
    /// R2Ts of one command outstanding at once.
    pub max_outstanding_r2t: u16,
}

impl Default for NegotiatedParameters {
    /// The defaults of RFC 7143 13.
    fn default() -> Self {
        Self {
            header_digest: false,
            data_digest: false,
            initial_r2t: true,
            immediate_data: true,
            initiator_max_recv_data_segment_length: 8192,
            target_max_recv_data_segment_length: 8192,
            max_burst_length: 262_144,
            first_burst_length: 65_536,
            max_outstanding_r2t: 1,
        }
    }
}

/// Whether a value is one of the answers of 6.2, which are not values of a key.
pub(crate) fn is_answer(value: &str) -> bool {
    matches!(value, "NotUnderstood" | "Irrelevant" | "Reject")
}

/// Answer to one offered key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The result.
    Value(String),
    /// No answer: the key was a declaration.
    Nothing,
    /// "Reject": the value is not acceptable; the parameter keeps its default.
    Reject,
    /// "Irrelevant": the key has no meaning in this kind of session.
    Irrelevant,
    /// "`NotUnderstood`": the key is unknown.
    NotUnderstood,
}

impl Answer {
    /// The value to send, if any.
    pub fn as_value(&self) -> Option<&str> {
        match self {
            Self::Value(value) => Some(value),
            Self::Nothing => None,
            Self::Reject => Some("Reject"),
            Self::Irrelevant => Some("Irrelevant"),
            Self::NotUnderstood => Some("NotUnderstood"),
        }
    }
}

/// Keys without meaning in a discovery session, according to their sections in 13.
const IRRELEVANT_IN_DISCOVERY: [&str; 10] = [
    "MaxConnections",
    "InitialR2T",
    "ImmediateData",
    "MaxBurstLength",
    "FirstBurstLength",
    "MaxOutstandingR2T",
    "DataPDUInOrder",
    "DataSequenceInOrder",
    "TaskReporting",
    "iSCSIProtocolLevel",
];

impl NegotiatedParameters {
    /// Answers an operational key of the initiator and stores the result.
    ///
    /// If both occur, pass `MaxBurstLength` before `FirstBurstLength`, whose limit is the other's result.
    pub(crate) fn negotiate(&mut self, key: &str, value: &str, session: SessionType) -> Answer {
        if session == SessionType::Discovery && IRRELEVANT_IN_DISCOVERY.contains(&key) {
            return Answer::Irrelevant;
        }
        match key {
            "HeaderDigest" => digest(value, &mut self.header_digest),
            "DataDigest" => digest(value, &mut self.data_digest),
            "InitialR2T" => boolean(value, |offer| {
                // Result function OR; we do not require it.
                self.initial_r2t = offer;
                offer
            }),
            "ImmediateData" => boolean(value, |offer| {
                // Result function AND; we accept it.
                self.immediate_data = offer;
                offer
            }),
            // Result function OR; we require both.
            "DataPDUInOrder" | "DataSequenceInOrder" => boolean(value, |_| true),
            "MaxRecvDataSegmentLength" => match number(value, DATA_LENGTH_BOUNDS) {
                Some(length) => {
                    self.initiator_max_recv_data_segment_length = length;
                    Answer::Nothing
                }
                None => Answer::Reject,
            },
            "MaxBurstLength" => match number(value, DATA_LENGTH_BOUNDS) {
                Some(offer) => {
                    self.max_burst_length = offer.min(MAX_BURST_LENGTH);
                    Answer::Value(self.max_burst_length.to_string())
                }
                None => Answer::Reject,
            },
            "FirstBurstLength" => match number(value, DATA_LENGTH_BOUNDS) {
                Some(offer) => {
                    self.first_burst_length =
                        offer.min(FIRST_BURST_LENGTH).min(self.max_burst_length);
                    Answer::Value(self.first_burst_length.to_string())
                }
                None => Answer::Reject,
            },
            "DefaultTime2Wait" => match number(value, TIME_BOUNDS) {
                // Result function maximum; we need no time.
                Some(offer) => Answer::Value(offer.to_string()),
                None => Answer::Reject,
            },
            // Result function minimum; we retain nothing.
            "DefaultTime2Retain" => minimum(value, TIME_BOUNDS, 0),
            "MaxOutstandingR2T" => match number(value, 1..=65535) {
                Some(offer) => {
                    self.max_outstanding_r2t = offer.min(MAX_OUTSTANDING_R2T) as u16;
                    Answer::Value(self.max_outstanding_r2t.to_string())
                }
                None => Answer::Reject,
            },
            "MaxConnections" => minimum(value, 1..=65535, 1),
            "ErrorRecoveryLevel" => minimum(value, 0..=2, 0),
            // RFC 7144 3: level 1 is RFC 7143 itself.
            "iSCSIProtocolLevel" => minimum(value, 0..=31, 1),
            // 13.23: the first value of the initiator's list that we support.
            "TaskReporting" => {
                if value.split(',').any(|item| item == "RFC3720") {
                    Answer::Value("RFC3720".into())
                } else {
                    Answer::Reject
                }
            }
            // 13.25: obsolete, but never "NotUnderstood".
            "IFMarker" | "OFMarker" => boolean(value, |_| false),
            "InitiatorAlias" => Answer::Nothing,
            // Keys that only a target sends (13.6, 13.8, 13.9), that are not allowed here (12.1, 13.3), or that are obsolete
            // (13.25).
            "TargetAlias"
            | "TargetAddress"
            | "TargetPortalGroupTag"
            | "SendTargets"
            | "AuthMethod"
            | "IFMarkInt"
            | "OFMarkInt" => Answer::Reject,
            _ => Answer::NotUnderstood,
        }
    }
}

fn number(value: &str, bounds: std::ops::RangeInclusive<u32>) -> Option<u32> {
    parse_number(value).filter(|number| bounds.contains(number))
}

fn minimum(value: &str, bounds: std::ops::RangeInclusive<u32>, ours: u32) -> Answer {
    match number(value, bounds) {
        Some(offer) => Answer::Value(offer.min(ours).to_string()),
        None => Answer::Reject,
    }
}

fn boolean(value: &str, result: impl FnOnce(bool) -> bool) -> Answer {
    let result = match value {
        "Yes" => result(true),
        "No" => result(false),
        _ => return Answer::Reject,
    };
    Answer::Value(if result { "Yes" } else { "No" }.into())
}

fn digest(value: &str, parameter: &mut bool) -> Answer {
    // The first value of the initiator's list that we support (6.2.1).
    let Some(choice) = value
        .split(',')
        .find(|item| matches!(*item, "CRC32C" | "None"))
    else {
        return Answer::Reject;
    };
    *parameter = choice == "CRC32C";
    Answer::Value(choice.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(key: &str, value: &str) -> (NegotiatedParameters, String) {
        let mut parameters = NegotiatedParameters::default();
        let answer = parameters.negotiate(key, value, SessionType::Normal);
        (parameters, answer.as_value().unwrap_or("").to_owned())
    }

    #[test]
    fn results_follow_the_result_functions() {
        for (key, value, expected) in [
            ("HeaderDigest", "CRC32C,None", "CRC32C"),
            ("DataDigest", "None,CRC32C", "None"),
            ("DataDigest", "SHA,CRC32C", "CRC32C"),
            ("DataDigest", "SHA", "Reject"),
            ("InitialR2T", "No", "No"),
            ("InitialR2T", "Yes", "Yes"),
            ("InitialR2T", "yes", "Reject"),
            ("ImmediateData", "No", "No"),
            ("ImmediateData", "Yes", "Yes"),
            ("DataPDUInOrder", "No", "Yes"),
            ("DataSequenceInOrder", "No", "Yes"),
            ("MaxBurstLength", "16776192", "1048576"),
            ("MaxBurstLength", "512", "512"),
            ("MaxBurstLength", "511", "Reject"),
            ("MaxBurstLength", "16777216", "Reject"),
            ("FirstBurstLength", "16776192", "65536"),
            ("FirstBurstLength", "0", "Reject"),
            ("DefaultTime2Wait", "3600", "3600"),
            ("DefaultTime2Wait", "3601", "Reject"),
            ("DefaultTime2Retain", "20", "0"),
            ("MaxOutstandingR2T", "1", "1"),
            ("MaxOutstandingR2T", "0", "Reject"),
            ("MaxOutstandingR2T", "65535", "8"),
            ("MaxConnections", "8", "1"),
            ("MaxConnections", "0", "Reject"),
            ("ErrorRecoveryLevel", "2", "0"),
            ("ErrorRecoveryLevel", "3", "Reject"),
            ("TaskReporting", "FastAbort,RFC3720", "RFC3720"),
            ("TaskReporting", "FastAbort", "Reject"),
            ("iSCSIProtocolLevel", "2", "1"),
            ("IFMarker", "No", "No"),
            ("OFMarker", "Yes", "No"),
            ("IFMarkInt", "2048~4096", "Reject"),
            ("X-com.example.key", "1", "NotUnderstood"),
        ] {
            assert_eq!(offer(key, value).1, expected, "{key}={value}");
        }
    }

    #[test]
    fn the_initiators_segment_length_is_a_declaration() {
        let (parameters, answer) = offer("MaxRecvDataSegmentLength", "1048576");
        assert_eq!(parameters.initiator_max_recv_data_segment_length, 1 << 20);
        assert_eq!(answer, "");
        let (parameters, answer) = offer("MaxRecvDataSegmentLength", "64");
        assert_eq!(parameters, NegotiatedParameters::default());
        assert_eq!(answer, "Reject");
    }

    #[test]
    fn first_burst_is_no_longer_than_max_burst() {
        let mut parameters = NegotiatedParameters::default();
        parameters.negotiate("MaxBurstLength", "8192", SessionType::Normal);
        let answer = parameters.negotiate("FirstBurstLength", "65536", SessionType::Normal);
        assert_eq!(answer, Answer::Value("8192".into()));
    }

    #[test]
    fn data_keys_are_irrelevant_in_discovery() {
        let mut parameters = NegotiatedParameters::default();
        let answer = parameters.negotiate("InitialR2T", "No", SessionType::Discovery);
        assert_eq!(answer, Answer::Irrelevant);
        assert!(parameters.initial_r2t);
        let answer = parameters.negotiate("HeaderDigest", "CRC32C", SessionType::Discovery);
        assert_eq!(answer, Answer::Value("CRC32C".into()));
    }
}
