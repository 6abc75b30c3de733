// SPDX-License-Identifier: Apache-2.0
//! Memory limit for one input.

use std::alloc::System;

use cap::Cap;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Runs `body` with `bytes` of additional memory at any moment: a larger allocation aborts the process.
pub fn bounded<T>(bytes: usize, body: impl FnOnce() -> T) -> T {
    let limit = ALLOCATOR.allocated().saturating_add(bytes);
    // Fails only for a limit below the allocated memory.
    ALLOCATOR
        .set_limit(limit)
        .expect("a limit above the allocated memory");
    let result = body();
    ALLOCATOR
        .set_limit(usize::MAX)
        .expect("a limit above the allocated memory");
    result
}
