#![no_main]
//! libFuzzer on [`fuzz::targets::login`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::login::run(data));
