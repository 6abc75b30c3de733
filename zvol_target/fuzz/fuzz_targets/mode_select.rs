#![no_main]
//! libFuzzer on [`fuzz::targets::parameter_lists::run_mode_select`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::parameter_lists::run_mode_select(data));
