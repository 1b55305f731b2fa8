//! The program `bogofilter`, and those of its other names.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use barid_bogofilter::{Foreign, Program};

fn main() -> ExitCode {
    // Beyond a limit of file sizes a write fails, and does not end the program in the middle of it.
    // Where that cannot be had the list is mended when it is opened next.
    let is_beyond = Arc::new(AtomicBool::new(false));
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, is_beyond);
    let mut args = std::env::args_os();
    let own = args.next().unwrap_or_default();
    let program = Path::new(&own).file_name().and_then(Program::named).unwrap_or(Program::Filter);
    // No library can be loaded into a program that is linked statically.
    let foreign = match cfg!(target_feature = "crt-static") {
        true => Foreign::HandOver,
        false => Foreign::Refuse,
    };
    ExitCode::from(program.run(args.collect(), foreign))
}
