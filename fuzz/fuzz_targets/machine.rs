//! Any bytes are a life of a machine; see the driver for what they say and what is checked.
#![no_main]

#[path = "../../crates/smp/tests/driver/mod.rs"]
mod driver;

libfuzzer_sys::fuzz_target!(|life: &[u8]| driver::live(life));
