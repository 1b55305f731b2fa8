//! The program `bogofilter`, also started under its other names.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use barid_bogofilter::{Foreign, Program};

fn main() -> ExitCode {
    // With the handler a write beyond the file size limit fails instead of killing the program
    // halfway. If the handler cannot be installed, the list is repaired when it is next opened.
    let is_beyond = Arc::new(AtomicBool::new(false));
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, is_beyond);
    let mut args = std::env::args_os();
    let own = args.next().unwrap_or_default();
    let program = Path::new(&own).file_name().and_then(Program::named).unwrap_or(Program::Filter);
    // A statically linked program cannot load libraries.
    let foreign = match cfg!(target_feature = "crt-static") {
        true => Foreign::HandOver,
        false => Foreign::Refuse,
    };
    ExitCode::from(program.run(args.collect(), foreign))
}
