//! The program `barid-bench`: measures what is fastest and smallest on this machine.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    // First, because a process that measures must be small.
    match barid_bench::launched(std::env::args_os()) {
        Some(code) => code,
        None => cli::run(),
    }
}
