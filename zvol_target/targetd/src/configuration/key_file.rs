// SPDX-License-Identifier: Apache-2.0
//! The file the sealing key is in, and what becomes of accounts when it is not there.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::document::{Account, Configuration, Holder};
use super::file::{sync_directory_of, with_suffix};
use super::sealing::{Direction, NoRandomBytes, Purpose, SealingKey, SecretText, UnsealError};

/// Why a key that secrets are sealed with is not to be had; with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MissedKey {
    /// Its file is gone.
    #[error(
        "{} is not there, and CHAP secrets are sealed with the key that was in it: put it back and start the daemon again, or \
         delete all CHAP accounts and set them anew", path.display()
    )]
    Lost {
        /// The key file.
        path: PathBuf,
    },
    /// Its file has another key.
    #[error(
        "{} holds another key than the one CHAP secrets are sealed with (its fingerprint is {found}, not {expected}): put the \
         right one back and start the daemon again, or delete all CHAP accounts and set them anew", path.display()
    )]
    Other {
        /// The key file.
        path: PathBuf,
        /// Fingerprint of the key in it.
        found: String,
        /// Fingerprint of the key that is needed.
        expected: String,
    },
}

/// Why the sealing key, or a secret sealed with it, cannot be used; with the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// It is not there, though secrets are sealed with it.
    #[error(transparent)]
    Missed(#[from] MissedKey),
    /// The file given on the command line is not there.
    #[error("{} is not there; make it once: openssl rand -base64 32 > FILE, mode 0600", path.display())]
    Missing {
        /// The key file.
        path: PathBuf,
    },
    /// The file's content is no key.
    #[error("{} does not hold a key: it must be 32 bytes in base64, one line", path.display())]
    Malformed {
        /// The key file.
        path: PathBuf,
    },
    /// Others can read the file.
    #[error("{} can be read by everybody; chmod 600 it, and set the CHAP accounts anew if others had access", path.display())]
    Exposed {
        /// The key file.
        path: PathBuf,
    },
    /// The file cannot be read or written.
    #[error("{}: {error}", path.display())]
    System {
        /// The key file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// A secret is sealed with the right key, and cannot be unsealed.
    #[error(
        "the sealed secret of account {account:?} cannot be read: {error}; set the account anew"
    )]
    Unreadable {
        /// `CHAP_N`.
        account: String,
        /// Why.
        #[source]
        error: UnsealError,
    },
    /// No random bytes.
    #[error(transparent)]
    Random(#[from] NoRandomBytes),
}

/// Where the key is.
#[derive(Clone, Debug)]
pub struct KeyFile {
    path: PathBuf,
    /// Made by the daemon when it is not there; one named on the command line never is.
    own: bool,
}

impl KeyFile {
    /// The file named on the command line, else the one next to the configuration file.
    pub fn new(given: Option<&Path>, configuration: &Path) -> Self {
        match given {
            Some(path) => Self {
                path: path.to_owned(),
                own: false,
            },
            None => Self {
                path: with_suffix(configuration, ".key"),
                own: true,
            },
        }
    }

    /// The key, if the file is there.
    fn read(&self) -> Result<Option<SealingKey>, KeyError> {
        const OTHERS: u32 = 0o007;
        let path = || self.path.clone();
        let system = |error| KeyError::System {
            path: path(),
            error,
        };
        let mode = match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.own => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(KeyError::Missing { path: path() });
            }
            Err(error) => return Err(system(error)),
            Ok(found) => found.permissions().mode(),
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

    /// Makes a key. It is on stable storage when this returns.
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
        tracing::info!(path = %self.path.display(), "a key for CHAP secrets was made");
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
    /// Reads the key, or makes one where there was none and none is missed.
    ///
    /// A key that is lost or another than the accounts were sealed with is no error here: it is one of
    /// [`Vault::unseal`], so that only what needs the key is not served.
    ///
    /// # Errors
    /// [`KeyError`] when the file cannot be read or made, or holds no key.
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
                    found: key.fingerprint(),
                    expected: expected.clone(),
                })
            }
            (Some(key), _) => Ok(key),
        };
        Ok(Self { file, key })
    }

    /// Takes whatever key there is now, or makes one: for a configuration that has no sealed secret any more.
    fn renew(&mut self) -> Result<(), KeyError> {
        self.key = Ok(match self.file.read()? {
            Some(key) => key,
            None => self.file.make()?,
        });
        Ok(())
    }

    /// The key, to seal what is in no configuration yet.
    ///
    /// # Errors
    /// [`MissedKey`].
    pub fn key(&self) -> Result<&SealingKey, MissedKey> {
        self.key.as_ref().map_err(MissedKey::clone)
    }

    /// Why nothing can be unsealed, if so.
    pub fn missed(&self) -> Option<&MissedKey> {
        self.key.as_ref().err()
    }

    /// Makes an account of `secret` for `configuration`, which does not have it yet.
    ///
    /// # Errors
    /// [`KeyError::Missed`] as long as the configuration has accounts that need the right key.
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

    /// The secret of an account.
    ///
    /// # Errors
    /// [`KeyError::Unreadable`]; [`Vault::missed`] says more when all are.
    pub fn unseal(
        &self,
        holder: &Holder,
        direction: Direction,
        account: &Account,
    ) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        let purpose = Purpose {
            holder,
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
