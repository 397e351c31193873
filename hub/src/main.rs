//! The `capabilities` program.

fn main() -> std::process::ExitCode {
    hub::cli::main()
}
