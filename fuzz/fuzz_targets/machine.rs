//! Runs any bytes as a life of a machine. The driver documents their meaning and the checks.
#![no_main]

#[path = "../../crates/smp/tests/driver/mod.rs"]
mod driver;

libfuzzer_sys::fuzz_target!(|life: &[u8]| driver::live(life));
