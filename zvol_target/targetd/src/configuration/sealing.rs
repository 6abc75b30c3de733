// SPDX-License-Identifier: Apache-2.0
//! CHAP secrets in the configuration file, sealed with a key of the target (XChaCha20-Poly1305).
//!
//! The purpose of a secret is authenticated with it: moved to another account, target or direction, a sealed secret is invalid.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// Bytes of a key.
const KEY_BYTES: usize = 32;
/// Bytes of the nonce, the begin of a sealed secret.
const NONCE_BYTES: usize = 24;

/// A secret in plain text. `Debug` does not print it, and its memory is overwritten when dropped.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct SecretText(Zeroizing<String>);

impl From<String> for SecretText {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

impl SecretText {
    /// The secret as bytes.
    pub fn expose(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SecretText(..)")
    }
}

/// A sealed secret: nonce, ciphertext and tag in base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SealedSecret(String);

/// Direction of authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Initiators authenticate themselves.
    Incoming,
    /// The target authenticates itself to initiators.
    Mutual,
}

/// The account that a secret is sealed for.
#[derive(Clone, Copy, Debug)]
pub struct Purpose<'a> {
    /// Name of the target that has the account.
    pub target: &'a str,
    /// Direction of authentication.
    pub direction: Direction,
    /// `CHAP_N`.
    pub account: &'a str,
    /// The initiators that may use the account.
    pub initiators: Option<&'a [String]>,
}

impl Purpose<'_> {
    /// The associated data; different for each purpose.
    fn bytes(&self) -> Vec<u8> {
        let parts = (
            "zvaai-target CHAP account",
            self.target,
            self.direction,
            self.account,
            self.initiators,
        );
        serde_json::to_vec(&parts).unwrap_or_default()
    }
}

/// A secret cannot be unsealed: it was altered, or sealed with another key or for another purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it was altered, moved from another account, or sealed with another key")]
pub struct UnsealError;

/// The operating system returned no random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the operating system returned no random bytes")]
pub struct NoRandomBytes;

/// A key for secrets.
pub struct SealingKey(Zeroizing<[u8; KEY_BYTES]>);

impl SealingKey {
    /// Generates a key.
    ///
    /// # Errors
    /// [`NoRandomBytes`].
    pub fn generate() -> Result<Self, NoRandomBytes> {
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        getrandom::fill(&mut *key).map_err(|_| NoRandomBytes)?;
        Ok(Self(key))
    }

    /// Parses the output of [`SealingKey::to_text`]: 32 bytes in base64, with optional white space around; else `None`.
    pub fn from_text(text: &str) -> Option<Self> {
        let bytes = Zeroizing::new(BASE64.decode(text.trim_ascii()).ok()?);
        let bytes: [u8; KEY_BYTES] = bytes.as_slice().try_into().ok()?;
        Some(Self(Zeroizing::new(bytes)))
    }

    /// The key as a line of base64.
    pub fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(BASE64.encode(*self.0) + "\n")
    }

    /// Identifies the key without disclosing it: the first half of a hash, in base64.
    pub fn fingerprint(&self) -> String {
        let hash = Sha256::new_with_prefix("zvaai-target key fingerprint")
            .chain_update(*self.0)
            .finalize();
        BASE64.encode(&hash[..16])
    }

    /// Seals `secret` for `purpose`.
    ///
    /// # Errors
    /// [`NoRandomBytes`].
    pub fn seal(
        &self,
        secret: &SecretText,
        purpose: &Purpose,
    ) -> Result<SealedSecret, NoRandomBytes> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|_| NoRandomBytes)?;
        let payload = Payload {
            msg: secret.expose(),
            aad: &purpose.bytes(),
        };
        // Fails only for more than 256 GiB.
        let sealed = self.cipher().encrypt(XNonce::from_slice(&nonce), payload);
        let sealed = sealed.unwrap_or_default();
        Ok(SealedSecret(BASE64.encode([&nonce[..], &sealed].concat())))
    }

    /// Unseals a secret that was sealed for exactly this `purpose`.
    ///
    /// # Errors
    /// [`UnsealError`].
    pub fn unseal(
        &self,
        sealed: &SealedSecret,
        purpose: &Purpose,
    ) -> Result<Zeroizing<Vec<u8>>, UnsealError> {
        let bytes = BASE64.decode(&sealed.0).map_err(|_| UnsealError)?;
        let (nonce, sealed) = bytes.split_at_checked(NONCE_BYTES).ok_or(UnsealError)?;
        let payload = Payload {
            msg: sealed,
            aad: &purpose.bytes(),
        };
        let secret = self.cipher().decrypt(XNonce::from_slice(nonce), payload);
        secret.map(Zeroizing::new).map_err(|_| UnsealError)
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new((&*self.0).into())
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SealingKey({})", self.fingerprint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: &str = "iqn.2026-11.example:a";

    fn secret() -> SecretText {
        SecretText::from("a secret nobody sees".to_owned())
    }

    #[test]
    fn a_secret_is_readable_where_it_was_sealed_for_and_nowhere_else() {
        let key = SealingKey::generate().unwrap();
        let purpose = Purpose {
            target: TARGET,
            direction: Direction::Incoming,
            account: "host",
            initiators: None,
        };
        let sealed = key.seal(&secret(), &purpose).unwrap();
        assert!(!format!("{sealed:?} {:?} {key:?}", secret()).contains("nobody"));
        let unsealed = key.unseal(&sealed, &purpose).unwrap();
        assert_eq!(unsealed.as_slice(), secret().expose());
        let single = ["iqn.2026-11.example:host".to_owned()];
        let both = [single[0].clone(), "iqn.2026-11.example:other".to_owned()];
        for elsewhere in [
            Purpose {
                target: "iqn.2026-11.example:b",
                ..purpose
            },
            Purpose {
                direction: Direction::Mutual,
                ..purpose
            },
            Purpose {
                account: "guest",
                ..purpose
            },
            Purpose {
                initiators: Some(&single),
                ..purpose
            },
            Purpose {
                initiators: Some(&both),
                ..purpose
            },
            Purpose {
                initiators: Some(&[]),
                ..purpose
            },
        ] {
            assert_eq!(key.unseal(&sealed, &elsewhere), Err(UnsealError));
        }
        let other_key = SealingKey::generate().unwrap();
        assert_ne!(other_key.fingerprint(), key.fingerprint());
        assert_eq!(other_key.unseal(&sealed, &purpose), Err(UnsealError));
    }

    #[test]
    fn an_altered_byte_anywhere_is_noticed() {
        let key = SealingKey::generate().unwrap();
        let purpose = Purpose {
            target: TARGET,
            direction: Direction::Mutual,
            account: "target",
            initiators: None,
        };
        let sealed = key.seal(&secret(), &purpose).unwrap();
        let bytes = BASE64.decode(&sealed.0).unwrap();
        for at in 0..bytes.len() {
            let mut altered = bytes.clone();
            altered[at] ^= 1;
            let altered = SealedSecret(BASE64.encode(altered));
            assert_eq!(key.unseal(&altered, &purpose), Err(UnsealError), "{at}");
        }
        for short in ["", "AAAA", "not base64"] {
            let short = SealedSecret(short.to_owned());
            assert_eq!(key.unseal(&short, &purpose), Err(UnsealError));
        }
        assert_ne!(key.seal(&secret(), &purpose).unwrap(), sealed, "the nonce");
    }

    #[test]
    fn a_key_is_a_line_of_text() {
        let key = SealingKey::generate().unwrap();
        let again = SealingKey::from_text(&key.to_text()).unwrap();
        assert_eq!(again.fingerprint(), key.fingerprint());
        for wrong in ["", "AAAA", "???", &BASE64.encode([0; 33])] {
            assert!(SealingKey::from_text(wrong).is_none(), "{wrong:?}");
        }
    }
}
