// SPDX-License-Identifier: Apache-2.0
//! Text format (RFC 7143 6.1): `key=value` pairs, each terminated by a NUL byte.

/// Limit of one text negotiation over all its PDUs, bytes.
pub(crate) const TEXT_LENGTH_MAX: usize = 64 << 10;
/// Longest key name (6.1).
const KEY_LENGTH_MAX: usize = 63;

/// Text that breaks the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TextError {
    #[error("text negotiation of more than {TEXT_LENGTH_MAX} bytes")]
    TooLong,
    #[error("text that is not key=value")]
    Malformed,
}

/// Collects the text of PDUs with the C bit.
#[derive(Default)]
pub(crate) struct TextCollector {
    text: Vec<u8>,
}

impl TextCollector {
    /// Adds the data segment of one PDU.
    pub fn push(&mut self, segment: &[u8]) -> Result<(), TextError> {
        if self.text.len() + segment.len() > TEXT_LENGTH_MAX {
            return Err(TextError::TooLong);
        }
        self.text.extend_from_slice(segment);
        Ok(())
    }

    /// Returns the collected pairs, and empties the collector.
    pub fn finish(&mut self) -> Result<Vec<(String, String)>, TextError> {
        parse(&std::mem::take(&mut self.text))
    }
}

/// Splits text into pairs, in order.
pub(crate) fn parse(text: &[u8]) -> Result<Vec<(String, String)>, TextError> {
    text.split(|&byte| byte == 0)
        // Some initiators pad with NUL bytes inside the data segment.
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let pair = std::str::from_utf8(pair).map_err(|_| TextError::Malformed)?;
            let (key, value) = pair.split_once('=').ok_or(TextError::Malformed)?;
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-+@_#".contains(&byte);
            if key.is_empty() || key.len() > KEY_LENGTH_MAX || !key.bytes().all(allowed) {
                return Err(TextError::Malformed);
            }
            Ok((key.to_owned(), value.to_owned()))
        })
        .collect()
}

/// Adds one pair to `text`.
pub(crate) fn push(text: &mut Vec<u8>, key: &str, value: &str) {
    text.extend_from_slice(key.as_bytes());
    text.push(b'=');
    text.extend_from_slice(value.as_bytes());
    text.push(0);
}

/// Parses a numerical value: decimal or 0x hexadecimal constant (6.1).
pub(crate) fn parse_number(value: &str) -> Option<u32> {
    let (digits, radix) = match value.strip_prefix("0x").or(value.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (value, 10),
    };
    // from_str_radix would accept a sign.
    digits
        .bytes()
        .all(|byte| byte.is_ascii_hexdigit())
        .then(|| u32::from_str_radix(digits, radix).ok())
        .flatten()
}

/// Parses a binary value of at most `limit` bytes: 0x hexadecimal or 0b base64 constant (6.1).
pub(crate) fn parse_binary(value: &str, limit: usize) -> Option<Vec<u8>> {
    let (prefix, digits) = value.split_at_checked(2)?;
    match prefix {
        "0x" | "0X" => parse_hexadecimal(digits, limit),
        "0b" | "0B" => parse_base64(digits, limit),
        _ => None,
    }
}

fn parse_hexadecimal(digits: &str, limit: usize) -> Option<Vec<u8>> {
    if digits.is_empty() || digits.len() > limit * 2 {
        return None;
    }
    let nibble = |digit: u8| char::from(digit).to_digit(16).map(|nibble| nibble as u8);
    let digits = digits.as_bytes();
    // An odd number of digits has an implicit leading zero.
    let (first, pairs) = digits.split_at(digits.len() % 2);
    let mut bytes = first
        .iter()
        .map(|&digit| nibble(digit))
        .collect::<Option<Vec<u8>>>()?;
    for pair in pairs.chunks_exact(2) {
        bytes.push((nibble(pair[0])? << 4) | nibble(pair[1])?);
    }
    Some(bytes)
}

fn parse_base64(digits: &str, limit: usize) -> Option<Vec<u8>> {
    let digits = digits.trim_end_matches('=');
    if digits.is_empty() || digits.len() > limit.div_ceil(3) * 4 || digits.len() % 4 == 1 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len());
    let (mut bits, mut count) = (0u32, 0);
    for digit in digits.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    (bytes.len() <= limit).then_some(bytes)
}

/// Writes a binary value as a hexadecimal constant.
pub(crate) fn format_binary(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + bytes.len() * 2);
    text.push_str("0x");
    for byte in bytes {
        for nibble in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pairs_come_in_order_and_values_may_hold_an_equals_sign() {
        let pairs = parse(b"InitiatorName=iqn.a\0X-com.a=b=c\0\0").unwrap();
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect();
        assert_eq!(pairs, [("InitiatorName", "iqn.a"), ("X-com.a", "b=c")]);
    }

    #[test]
    fn text_without_an_equals_sign_is_malformed() {
        assert_eq!(parse(b"InitiatorName\0"), Err(TextError::Malformed));
        assert_eq!(parse(b"=1\0"), Err(TextError::Malformed));
        assert_eq!(parse(b"a b=1\0"), Err(TextError::Malformed));
    }

    #[test]
    fn a_pair_may_be_split_over_two_segments() {
        let mut collector = TextCollector::default();
        collector.push(b"Target").unwrap();
        collector.push(b"Name=x\0").unwrap();
        assert_eq!(
            collector.finish().unwrap(),
            [("TargetName".into(), "x".into())]
        );
    }

    #[test]
    fn collected_text_is_bounded() {
        let mut collector = TextCollector::default();
        let segment = [b'a'; 8192];
        for _ in 0..TEXT_LENGTH_MAX / segment.len() {
            collector.push(&segment).unwrap();
        }
        assert_eq!(collector.push(b"a"), Err(TextError::TooLong));
    }

    #[test]
    fn numbers() {
        assert_eq!(parse_number("262144"), Some(262_144));
        assert_eq!(parse_number("0x40000"), Some(262_144));
        for wrong in ["", "0x", "-1", "+1", "1 ", "4294967296", "0x1g"] {
            assert_eq!(parse_number(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn binary_constants() {
        assert_eq!(parse_binary("0x0aFf", 16), Some(vec![0x0a, 0xff]));
        assert_eq!(parse_binary("0xaff", 16), Some(vec![0x0a, 0xff]));
        assert_eq!(parse_binary("0bCv8=", 16), Some(vec![0x0a, 0xff]));
        for wrong in ["", "0x", "0b", "12", "0xzz", "0x010203", "0bAQID", "é1"] {
            assert_eq!(parse_binary(wrong, 2), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn written_pairs_are_read_back(pairs in prop::collection::vec(("[A-Za-z0-9.+@_-]{1,63}", "[ -~]{0,80}"), 0..9)) {
            let mut text = Vec::new();
            for (key, value) in &pairs {
                push(&mut text, key, value);
            }
            prop_assert_eq!(parse(&text), Ok(pairs));
        }

        #[test]
        fn arbitrary_text_does_not_panic(text: Vec<u8>, value: String) {
            let _ = parse(&text);
            let _ = parse_number(&value);
            let _ = parse_binary(&value, 64);
        }

        #[test]
        fn binary_is_read_back(bytes in prop::collection::vec(any::<u8>(), 1..100)) {
            prop_assert_eq!(parse_binary(&format_binary(&bytes), 100), Some(bytes));
        }
    }
}
