#![no_main]
//! libFuzzer on [`fuzz::targets::commands`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::commands::run(data));
