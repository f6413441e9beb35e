//! What code that nobody prepared may expect: it hangs nothing, it inherits nothing, and the limits of
//! the process are met with grace. One test for each finding of an attack on the runtime, named after
//! what must hold.
//!
//! What may hang or end the process runs in a process of its own, with a time limit.

#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod common;

mod child;
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
