#![no_main]
//! libFuzzer on [`fuzz::targets::connection`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::connection::run(data));
