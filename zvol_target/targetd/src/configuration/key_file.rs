// SPDX-License-Identifier: Apache-2.0
//! The file with the sealing key, and the handling of accounts without it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::document::{Account, Configuration};
use super::file::{sync_directory_of, with_suffix};
use super::sealing::{Direction, NoRandomBytes, Purpose, SealingKey, SecretText, UnsealError};

/// Why the key for the secrets is not available, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts name the fields")]
pub enum MissedKey {
    /// Its file is missing.
    #[error(
        "{} is missing, and its key is needed for the CHAP secrets: restore the file and restart the daemon, or \
         delete all CHAP accounts and set them again", path.display()
    )]
    Lost { path: PathBuf },
    /// Its file contains a different key.
    #[error(
        "{} contains a different key than the CHAP secrets need (its fingerprint is {actual}, not {expected}): restore the \
         right key and restart the daemon, or delete all CHAP accounts and set them again", path.display()
    )]
    Other {
        path: PathBuf,
        /// Fingerprint of the key in the file.
        actual: String,
        /// Fingerprint of the required key.
        expected: String,
    },
}

/// Why the sealing key or a sealed secret cannot be used, with the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error texts name the fields")]
pub enum KeyError {
    /// The key is missing, although secrets are sealed with it.
    #[error(transparent)]
    Missed(#[from] MissedKey),
    /// The file does not contain a key.
    #[error("{} does not contain a key: it must be 32 bytes in base64, one line", path.display())]
    Malformed { path: PathBuf },
    /// Others can read the file.
    #[error("{} can be read by other users; set its mode to 600, and set the CHAP accounts again if others had access", path.display())]
    Exposed { path: PathBuf },
    /// The file cannot be read or written.
    #[error("{}: {error}", path.display())]
    System {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    /// A secret cannot be unsealed with the right key.
    #[error(
        "the sealed secret of account {account:?} cannot be read: {error}; set the account again"
    )]
    Unreadable {
        account: String,
        #[source]
        error: UnsealError,
    },
    /// The system returned no random bytes.
    #[error(transparent)]
    Random(#[from] NoRandomBytes),
}

/// Location of the key.
#[derive(Clone, Debug)]
pub struct KeyFile {
    path: PathBuf,
}

impl KeyFile {
    /// The file next to the configuration file.
    pub fn next_to(configuration: &Path) -> Self {
        Self {
            path: with_suffix(configuration, ".key"),
        }
    }

    /// Reads the key; `None` if the file does not exist.
    fn read(&self) -> Result<Option<SealingKey>, KeyError> {
        const OTHERS: u32 = 0o007;
        let path = || self.path.clone();
        let system = |error| KeyError::System {
            path: path(),
            error,
        };
        let mode = match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(system(error)),
            Ok(metadata) => metadata.permissions().mode(),
        };
        if mode & OTHERS != 0 {
            return Err(KeyError::Exposed { path: path() });
        }
        let text = Zeroizing::new(fs::read(&self.path).map_err(system)?);
        let key = std::str::from_utf8(&text)
            .ok()
            .and_then(SealingKey::from_text);
        match key {
            Some(key) => Ok(Some(key)),
            None => Err(KeyError::Malformed { path: path() }),
        }
    }

    /// Creates a key. It is on stable storage when this returns.
    fn make(&self) -> Result<SealingKey, KeyError> {
        let key = SealingKey::generate()?;
        let write = || {
            let temporary = with_suffix(&self.path, ".new");
            let mut file = OpenOptions::new()
                .create(true)
                .truncate(true)
                .write(true)
                .mode(0o600)
                .open(&temporary)?;
            file.write_all(key.to_text().as_bytes())?;
            file.sync_all()?;
            fs::rename(&temporary, &self.path)?;
            sync_directory_of(&self.path)
        };
        write().map_err(|error| KeyError::System {
            path: self.path.clone(),
            error,
        })?;
        tracing::info!(path = %self.path.display(), "created a key for CHAP secrets");
        Ok(key)
    }
}

/// Seals and unseals the accounts of one configuration.
#[derive(Debug)]
pub struct Vault {
    file: KeyFile,
    key: Result<SealingKey, MissedKey>,
}

impl Vault {
    /// Reads the key, or creates one if no secret needs the old one.
    ///
    /// A missing or different key is not an error here but of [`Vault::unseal`], so that everything that needs no key is still
    /// served.
    ///
    /// # Errors
    /// [`KeyError`] if the file cannot be read or created, or does not contain a key.
    pub fn open(file: KeyFile, configuration: &Configuration) -> Result<Self, KeyError> {
        let sealed = configuration.has_accounts();
        let key = match (file.read()?, &configuration.key_fingerprint) {
            (None, _) if sealed => Err(MissedKey::Lost {
                path: file.path.clone(),
            }),
            (None, _) => Ok(file.make()?),
            (Some(key), Some(expected)) if sealed && *expected != key.fingerprint() => {
                Err(MissedKey::Other {
                    path: file.path.clone(),
                    actual: key.fingerprint(),
                    expected: expected.clone(),
                })
            }
            (Some(key), _) => Ok(key),
        };
        Ok(Self { file, key })
    }

    /// Uses the present key, or creates one, for a configuration without sealed secrets.
    fn renew(&mut self) -> Result<(), KeyError> {
        self.key = Ok(match self.file.read()? {
            Some(key) => key,
            None => self.file.make()?,
        });
        Ok(())
    }

    /// The key, for new secrets.
    ///
    /// # Errors
    /// [`MissedKey`].
    pub fn key(&self) -> Result<&SealingKey, MissedKey> {
        self.key.as_ref().map_err(MissedKey::clone)
    }

    /// Why no secret can be unsealed, if that is so.
    pub fn missed(&self) -> Option<&MissedKey> {
        self.key.as_ref().err()
    }

    /// Creates an account of `secret` for `configuration`, which does not contain it yet.
    ///
    /// # Errors
    /// [`KeyError::Missed`] while the configuration has accounts that need another key.
    pub fn seal(
        &mut self,
        configuration: &mut Configuration,
        secret: &SecretText,
        purpose: &Purpose,
    ) -> Result<Account, KeyError> {
        if self.key.is_err() && !configuration.has_accounts() {
            self.renew()?;
        }
        let key = self.key()?;
        configuration.key_fingerprint = Some(key.fingerprint());
        Ok(Account {
            name: purpose.account.to_owned(),
            sealed_secret: key.seal(secret, purpose)?,
            initiators: purpose.initiators.map(<[String]>::to_vec),
        })
    }

    /// Unseals the secret of an account.
    ///
    /// # Errors
    /// [`KeyError::Unreadable`]. If no secret can be read, [`Vault::missed`] has the reason.
    pub fn unseal(
        &self,
        target: &str,
        direction: Direction,
        account: &Account,
    ) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        let purpose = Purpose {
            target,
            direction,
            account: &account.name,
            initiators: account.initiators.as_deref(),
        };
        let unsealed = match &self.key {
            Ok(key) => key.unseal(&account.sealed_secret, &purpose),
            Err(_) => Err(UnsealError),
        };
        unsealed.map_err(|error| KeyError::Unreadable {
            account: account.name.clone(),
            error,
        })
    }
}
