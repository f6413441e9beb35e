//! Guarantees for code that is not prepared for preemption: it hangs nothing, it inherits nothing, and the runtime
//! keeps working at the limits of the process. There is one test for each finding of an attack on the runtime, named
//! after the property that must hold.
//!
//! Code that may hang or end the process runs in a separate process, with a time limit.

#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod common;

mod child;
mod deaf;
mod foreign_code;
mod leaks;
mod limits;
mod machine;
mod neighbours;
mod observers;
mod sections;
mod standing;
mod steered;
mod stolen;
mod truths;
mod waits;

#[global_allocator]
static ALLOCATOR: runyard::trial::Strict = runyard::trial::Strict;
