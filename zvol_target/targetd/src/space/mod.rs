// SPDX-License-Identifier: Apache-2.0
//! Space: what LUNs use, what is reserved for their overwrites, and which of them may not allocate more.
//!
//! Every few seconds, more often near its end, [`monitor`] reads the figures of each pool. When less than the pool's headroom is
//! available, thin LUNs may not allocate more. What a zvol overwrites comes from a `reservation` of its own, which other writers of
//! the pool cannot take. The `refreservation` of a thick LUN is never changed here. Measurements and reasons: docs/space.md.

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
