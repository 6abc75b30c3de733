// SPDX-License-Identifier: Apache-2.0
//! Space: usage of LUNs, reservations for their overwrites, and the decision which LUNs may not allocate more.
//!
//! [`monitor`] reads the figures of each pool every few seconds, and more often when it is nearly full. If less than the headroom
//! is available, thin LUNs may not allocate more. A zvol's overwrites use its `reservation`, which other writers of the pool
//! cannot take. The `refreservation` of a thick LUN is never changed here. Measurements and reasons: docs/space.md.

mod monitor;
mod policy;
mod report;
mod reservation;
mod store;
mod update;
mod usage;

pub use monitor::monitor;
pub use report::{LunSpace, PoolSpace, SpaceReport};
pub use usage::{Counted, LunUsage, Usage, usage};
