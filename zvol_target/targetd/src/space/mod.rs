//! Space: what LUNs take, what is held for them, and who is refused when it ends.
//!
//! Every few seconds, more often near its end, each pool is looked at ([`keep`]). Thin LUNs may take no more when less than the
//! headroom is left, and what they overwrite is held by a `reservation` of their own, which other writers of the pool can't
//! take. Thick LUNs have a `refreservation`, kept by a [`Ledger`]. What was measured, and why it is so: docs/space.md.

mod act;
mod backoff;
mod keeper;
mod ledger;
mod look;
mod policy;
mod release;
mod report;
mod zvol;

pub use keeper::{Keeper, keep};
pub use ledger::{ThickError, closed_ledger, make_thick};
pub use release::release;
pub use report::{LunSpace, PoolSpace, SpaceReport};
