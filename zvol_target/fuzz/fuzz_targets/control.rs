#![no_main]
//! libFuzzer on [`fuzz::targets::control`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::control::run(data));
