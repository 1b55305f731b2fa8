//! The program `barid`: opens any mailbox at once, lists it and threads it.
//!
//! This file only assembles: `cli.rs` defines the command line, `config/` has its defaults,
//! `commands/` one file per subcommand, `output/` formats output, `exit.rs` ends the program.

mod choices;
mod cli;
mod commands;
mod completion;
mod config;
mod context;
mod dirs;
mod exit;
mod global;
mod hint;
mod hyphens;
mod lazy;
mod limits;
mod lines;
mod mail;
mod output;
mod signals;
mod startup;
mod usage;

use std::process::ExitCode;

use clap::CommandFactory as _;

fn main() -> ExitCode {
    let survives = signals::survive_size_limits();
    if let Some(code) = commands::bogo::called().or_else(commands::extract_text::called) {
        return code;
    }
    if completion::answer_shell(cli::Cli::command) {
        return ExitCode::SUCCESS;
    }
    let args: Vec<_> = std::env::args_os().collect();
    lazy::look_at::<cli::Command>(&args);
    let args = hyphens::separate(args, cli::Cli::command);
    let started = startup::start(&args);
    let started = started.unwrap_or_else(|error| usage::with_suggestion(error).exit());
    let startup::Startup { cli, config, problem } = started;
    let mut context = context::Context::new(cli.global, config);
    if let Some(problem) = problem {
        return exit::finish(&mut context, Err(problem));
    }
    if let Err(error) = survives {
        context.detail(&format!("SIGXFSZ ends the program: {error}"));
    }
    if let Err(error) = signals::ignore_requests_for_locks() {
        context.detail(&format!("SIGUSR2 ends the program: {error}"));
    }
    let mut result = cli.command.run(&mut context);
    for _ in 0..limits::RECOVERIES_MAX {
        match &result {
            Err(error) if cli.command.opens_mailboxes() && context.recovers(error) => {
                context.out.take_back();
            }
            _ => break,
        }
        result = cli.command.run(&mut context);
    }
    exit::finish(&mut context, result)
}
