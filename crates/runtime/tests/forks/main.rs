//! Children of tasks, with the system's allocator.

#[path = "../trust/child.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod child;
mod children;
#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod common;
