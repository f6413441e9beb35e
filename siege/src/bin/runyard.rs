//! The siege with the runtime's allocator, in which no task is preempted.

#[global_allocator]
static ALLOCATOR: runyard::Allocator = runyard::Allocator::system();

fn main() -> std::process::ExitCode {
    runyard_siege::main()
}
