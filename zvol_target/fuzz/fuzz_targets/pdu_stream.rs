#![no_main]
//! libFuzzer on [`fuzz::targets::pdu_stream`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::pdu_stream::run(data));
