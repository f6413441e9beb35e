//! The siege with the system's allocator.

fn main() -> std::process::ExitCode {
    runyard_siege::main()
}
