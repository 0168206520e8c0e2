#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quorate_fuzz::config(bytes));
