#![no_main]
//! libFuzzer on [`fuzz::targets::configuration`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::configuration::run(data));
