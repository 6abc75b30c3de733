// SPDX-License-Identifier: Apache-2.0
//! Challenge Handshake Authentication Protocol (RFC 1994) as iSCSI uses it (RFC 7143 12.1.3, 9.2.1).

use md5::{Digest as _, Md5};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::config::{Authentication, ChapAccount};
use crate::name::IscsiName;
use crate::text::{format_binary, parse_binary, parse_number, push};

/// Bytes of our challenges.
const CHALLENGE_LENGTH: usize = 32;
/// Longest accepted challenge, response or name (12.1.3: up to 1024 bytes of binary).
const VALUE_LENGTH_MAX: usize = 1024;

/// Hash function of the responses, by its number in the IANA registry "PPP Authentication Algorithms".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Md5,
    Sha256,
}

impl Algorithm {
    fn of_number(number: &str) -> Option<Self> {
        match number {
            "5" => Some(Self::Md5),
            "7" => Some(Self::Sha256),
            _ => None,
        }
    }

    const fn number(self) -> &'static str {
        match self {
            Self::Md5 => "5",
            Self::Sha256 => "7",
        }
    }

    /// RFC 1994 4.1: hash of identifier, secret and challenge.
    fn response(self, identifier: u8, secret: &[u8], challenge: &[u8]) -> Vec<u8> {
        let parts = Zeroizing::new([&[identifier][..], secret, challenge].concat());
        match self {
            Self::Md5 => Md5::digest(&*parts).to_vec(),
            Self::Sha256 => Sha256::digest(&*parts).to_vec(),
        }
    }
}

/// Why a step of CHAP failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ChapError {
    #[error("a CHAP key is missing or out of place")]
    MissingKey,
    #[error("a CHAP key has a malformed value")]
    Malformed,
    #[error("no CHAP algorithm in common")]
    Algorithm,
    #[error("wrong CHAP name or secret")]
    Refused,
    #[error("the initiator sent our challenge back to us")]
    Reflection,
    #[error("mutual authentication was requested, but no outgoing account is configured")]
    NoOutgoingAccount,
    #[error("the operating system returned no random bytes")]
    Random,
}

/// The exchange on the target's side.
#[derive(Debug)]
pub(super) enum Chap {
    /// `AuthMethod=CHAP` was chosen: `CHAP_A` comes next.
    AwaitAlgorithm,
    /// The challenge was sent: `CHAP_N` and `CHAP_R` come next.
    AwaitResponse(Challenge),
    /// The initiator has proven its account.
    Done {
        /// `CHAP_N`.
        account: String,
    },
}

/// A challenge that we sent.
#[derive(Debug)]
pub(super) struct Challenge {
    algorithm: Algorithm,
    identifier: u8,
    bytes: [u8; CHALLENGE_LENGTH],
}

impl Chap {
    /// Processes the CHAP keys of one request, and adds our keys to `answer`.
    pub fn step(
        &mut self,
        keys: &[(String, String)],
        authentication: &Authentication,
        initiator: &IscsiName,
        answer: &mut Vec<u8>,
    ) -> Result<(), ChapError> {
        let find = |name: &str| {
            let mut values = keys.iter().filter(|(key, _)| key == name);
            match (values.next(), values.next()) {
                (Some((_, value)), None) => Ok(value.as_str()),
                _ => Err(ChapError::MissingKey),
            }
        };
        match self {
            Self::AwaitAlgorithm => {
                let algorithm = find("CHAP_A")?
                    .split(',')
                    .find_map(Algorithm::of_number)
                    .ok_or(ChapError::Algorithm)?;
                let mut random = [0; CHALLENGE_LENGTH + 1];
                getrandom::fill(&mut random).map_err(|_| ChapError::Random)?;
                let [identifier, bytes @ ..] = random;
                push(answer, "CHAP_A", algorithm.number());
                push(answer, "CHAP_I", &identifier.to_string());
                push(answer, "CHAP_C", &format_binary(&bytes));
                *self = Self::AwaitResponse(Challenge {
                    algorithm,
                    identifier,
                    bytes,
                });
            }
            Self::AwaitResponse(sent) => {
                let name = find("CHAP_N")?;
                let response =
                    parse_binary(find("CHAP_R")?, VALUE_LENGTH_MAX).ok_or(ChapError::Malformed)?;
                let account = sent
                    .check(name, &response, authentication, initiator)
                    .ok_or(ChapError::Refused)?;
                let mutual =
                    ["CHAP_I", "CHAP_C"].map(|name| keys.iter().any(|(key, _)| key == name));
                if mutual != [false, false] {
                    let identifier = parse_number(find("CHAP_I")?)
                        .and_then(|number| u8::try_from(number).ok())
                        .ok_or(ChapError::Malformed)?;
                    let challenge = parse_binary(find("CHAP_C")?, VALUE_LENGTH_MAX)
                        .ok_or(ChapError::Malformed)?;
                    // 9.2.1: an initiator that sends our challenge back wants our response to it.
                    if challenge == sent.bytes {
                        return Err(ChapError::Reflection);
                    }
                    let outgoing = authentication
                        .outgoing
                        .as_ref()
                        .ok_or(ChapError::NoOutgoingAccount)?;
                    let secret = outgoing.secret.expose();
                    let response = sent.algorithm.response(identifier, secret, &challenge);
                    push(answer, "CHAP_N", &outgoing.name);
                    push(answer, "CHAP_R", &format_binary(&response));
                }
                *self = Self::Done {
                    account: account.name.clone(),
                };
            }
            Self::Done { .. } => return Err(ChapError::MissingKey),
        }
        Ok(())
    }
}

/// An iSCSI name in lower case (RFC 3722): hosts send theirs as it is written, and accounts have it in lower case.
fn folded(name: &str) -> String {
    name.parse::<IscsiName>()
        .map_or_else(|_| name.to_owned(), |name| name.to_string())
}

impl Challenge {
    /// The account whose secret matches `response`. Takes the same time for a wrong name and a wrong secret.
    fn check<'a>(
        &self,
        name: &str,
        response: &[u8],
        authentication: &'a Authentication,
        initiator: &IscsiName,
    ) -> Option<&'a ChapAccount> {
        let mut matching = None;
        for account in &authentication.incoming {
            let secret = account.secret.expose();
            let expected = self
                .algorithm
                .response(self.identifier, secret, &self.bytes);
            let mut equal = expected.ct_eq(response);
            equal &= folded(&account.name)
                .as_bytes()
                .ct_eq(folded(name).as_bytes());
            let is_theirs = account
                .initiators
                .as_ref()
                .is_none_or(|bound| bound.contains(initiator));
            if bool::from(equal) && is_theirs {
                matching = Some(account);
            }
        }
        matching
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Secret;
    use crate::text::parse;

    fn authentication(mutual: bool) -> Authentication {
        let account = |name: &str, secret: &[u8]| ChapAccount {
            name: name.into(),
            secret: Secret::new(secret).unwrap(),
            initiators: None,
        };
        Authentication {
            incoming: vec![
                account("other", b"another secret"),
                account("user", b"incoming secret"),
            ],
            outgoing: mutual.then(|| account("target", b"outgoing secret")),
        }
    }

    fn initiator() -> IscsiName {
        "iqn.2001-04.com.example:host".parse().unwrap()
    }

    fn keys(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|&(key, value)| (key.into(), value.into()))
            .collect()
    }

    /// Chooses `algorithm`; returns identifier and challenge.
    fn challenge(chap: &mut Chap, algorithm: &str) -> (u8, Vec<u8>) {
        let mut answer = Vec::new();
        let offered = keys(&[("CHAP_A", algorithm)]);
        chap.step(&offered, &authentication(false), &initiator(), &mut answer)
            .unwrap();
        let answer = parse(&answer).unwrap();
        (
            answer[1].1.parse().unwrap(),
            parse_binary(&answer[2].1, 1024).unwrap(),
        )
    }

    #[test]
    fn rfc_1994_response_is_the_hash_of_identifier_secret_and_challenge() {
        // md5sum and sha256sum of the bytes 01 "secret" "challenge".
        let md5 = format_binary(&Algorithm::Md5.response(1, b"secret", b"challenge"));
        assert_eq!(md5, format_binary(&Md5::digest(b"\x01secretchallenge")));
        assert_eq!(
            Algorithm::Sha256.response(1, b"secret", b"challenge").len(),
            32
        );
    }

    #[test]
    fn right_secret_is_accepted_with_both_algorithms() {
        for (offer, algorithm) in [("5", Algorithm::Md5), ("8,7,5", Algorithm::Sha256)] {
            let mut chap = Chap::AwaitAlgorithm;
            let (identifier, challenge) = challenge(&mut chap, offer);
            let response = algorithm.response(identifier, b"incoming secret", &challenge);
            let response = keys(&[("CHAP_N", "user"), ("CHAP_R", &format_binary(&response))]);
            chap.step(
                &response,
                &authentication(false),
                &initiator(),
                &mut Vec::new(),
            )
            .unwrap();
            assert!(matches!(chap, Chap::Done { account } if account == "user"));
        }
    }

    #[test]
    fn an_iscsi_name_matches_in_upper_case_and_another_name_does_not() {
        for (account, sent, accepted) in [
            (
                "iqn.1998-01.com.vmware:esx1",
                "iqn.1998-01.com.vmware:ESX1",
                true,
            ),
            ("user", "USER", false),
        ] {
            let mut known = authentication(false);
            known.incoming[1].name = account.to_owned();
            let mut chap = Chap::AwaitAlgorithm;
            let (identifier, challenge) = challenge(&mut chap, "5");
            let response = Algorithm::Md5.response(identifier, b"incoming secret", &challenge);
            let response = keys(&[("CHAP_N", sent), ("CHAP_R", &format_binary(&response))]);
            let result = chap.step(&response, &known, &initiator(), &mut Vec::new());
            assert_eq!(result.is_ok(), accepted, "{sent}");
        }
    }

    #[test]
    fn wrong_name_secret_or_initiator_is_refused() {
        let mut bound = authentication(false);
        let elsewhere = |name: &str| format!("iqn.2001-04.com.example:{name}").parse().unwrap();
        bound.incoming[1].initiators = Some(vec![elsewhere("elsewhere"), elsewhere("there")]);
        let mut nobodys = bound.clone();
        nobodys.incoming[1].initiators = Some(Vec::new());
        for (name, secret, authentication) in [
            ("user", &b"another secret"[..], authentication(false)),
            ("nobody", b"incoming secret", authentication(false)),
            ("user", b"incoming secret", bound),
            ("user", b"incoming secret", nobodys),
        ] {
            let mut chap = Chap::AwaitAlgorithm;
            let (identifier, challenge) = challenge(&mut chap, "5");
            let response = Algorithm::Md5.response(identifier, secret, &challenge);
            let response = keys(&[("CHAP_N", name), ("CHAP_R", &format_binary(&response))]);
            let result = chap.step(&response, &authentication, &initiator(), &mut Vec::new());
            assert_eq!(result, Err(ChapError::Refused));
        }
    }

    #[test]
    fn mutual_answers_with_the_outgoing_account_and_refuses_reflection() {
        for reflect in [false, true] {
            let mut chap = Chap::AwaitAlgorithm;
            let (identifier, ours) = challenge(&mut chap, "5");
            let response = Algorithm::Md5.response(identifier, b"incoming secret", &ours);
            let theirs = if reflect { ours } else { vec![7; 16] };
            let request = keys(&[
                ("CHAP_N", "user"),
                ("CHAP_R", &format_binary(&response)),
                ("CHAP_I", "9"),
                ("CHAP_C", &format_binary(&theirs)),
            ]);
            let mut answer = Vec::new();
            let result = chap.step(&request, &authentication(true), &initiator(), &mut answer);
            if reflect {
                assert_eq!(result, Err(ChapError::Reflection));
                assert_eq!(answer, []);
            } else {
                result.unwrap();
                let expected = Algorithm::Md5.response(9, b"outgoing secret", &theirs);
                assert_eq!(
                    parse(&answer).unwrap(),
                    keys(&[("CHAP_N", "target"), ("CHAP_R", &format_binary(&expected))])
                );
            }
        }
    }

    #[test]
    fn challenges_differ() {
        let (_, first) = challenge(&mut Chap::AwaitAlgorithm, "5");
        let (_, second) = challenge(&mut Chap::AwaitAlgorithm, "5");
        assert_ne!(first, second);
    }

    #[test]
    fn keys_missing_or_out_of_order_are_refused() {
        let mut chap = Chap::AwaitAlgorithm;
        let early = keys(&[("CHAP_N", "user"), ("CHAP_R", "0x00")]);
        let result = chap.step(
            &early,
            &authentication(false),
            &initiator(),
            &mut Vec::new(),
        );
        assert_eq!(result, Err(ChapError::MissingKey));
        let unknown = keys(&[("CHAP_A", "6,8")]);
        let result = chap.step(
            &unknown,
            &authentication(false),
            &initiator(),
            &mut Vec::new(),
        );
        assert_eq!(result, Err(ChapError::Algorithm));
    }
}
