// SPDX-License-Identifier: Apache-2.0
//! Settings of pools.

use super::{Service, ServiceError};
use crate::configuration::PoolSettings;

impl Service {
    /// Sets the headroom and threshold of a pool or file system. Absent values have their defaults. Takes effect with the next
    /// scan.
    ///
    /// # Errors
    /// [`ServiceError::Invalid`], [`ServiceError::NotStored`].
    pub fn set_pool(&mut self, settings: PoolSettings) -> Result<(), ServiceError> {
        let mut candidate = self.configuration.clone();
        candidate.pools.retain(|pool| pool.name != settings.name);
        let is_default = settings.headroom_bytes.is_none() && settings.soft_threshold.is_none();
        if !is_default || settings.name.is_empty() {
            candidate.pools.push(settings);
        }
        candidate.pools.sort_by(|a, b| a.name.cmp(&b.name));
        candidate.validate()?;
        self.store(candidate)
    }
}
