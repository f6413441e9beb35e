//! Children of tasks, with the runtime's allocator: a child calls it too, and at the end of its sections a worker acts
//! on requests.

#[path = "trust/child.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod child;
#[path = "forks/children.rs"]
mod children;
#[expect(dead_code, reason = "other tests use the rest")]
mod common;

#[global_allocator]
static ALLOCATOR: runyard::Allocator = runyard::Allocator::system();
