//! SPC and SBC: logical units on volumes.

pub mod sam;
