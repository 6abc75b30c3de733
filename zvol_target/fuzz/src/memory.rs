// SPDX-License-Identifier: Apache-2.0
//! How much memory one input may cost.

use std::alloc::System;

use cap::Cap;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Runs `body`, which may hold `bytes` more than there are at its start at any moment: an allocation beyond aborts the process.
pub fn bounded<T>(bytes: usize, body: impl FnOnce() -> T) -> T {
    let limit = ALLOCATOR.allocated().saturating_add(bytes);
    // Refused only for a limit below what is allocated.
    ALLOCATOR
        .set_limit(limit)
        .expect("a limit above what is allocated");
    let result = body();
    ALLOCATOR
        .set_limit(usize::MAX)
        .expect("a limit above what is allocated");
    result
}
