//! The siege with the system's allocator. It ends the process if a worker calls it in the runtime's own code.

#[global_allocator]
static ALLOCATOR: runyard::trial::Strict = runyard::trial::Strict;

fn main() -> std::process::ExitCode {
    runyard_siege::main()
}
