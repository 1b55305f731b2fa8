//! `barid serve --check-config`: the problems of the configuration file, and its effects.

use std::path::Path;

use barid::vfs::OsVfs;
use barid_serve::config::{ConfigProblem, ServerConfig};

use crate::context::Context;
use crate::exit::Outcome;
use crate::output::escape::visible;
use crate::output::json::Json;

/// Prints the problems of a configuration file, or its effects and the problems of the files that
/// it names.
pub(super) fn run(context: &mut Context, path: &Path) -> anyhow::Result<Outcome> {
    let config = match ServerConfig::load(&OsVfs, path) {
        Ok(config) => config,
        Err(errors) => {
            errors.0.iter().try_for_each(|problem| print_problem(context, problem))?;
            return Ok(Outcome::Incomplete);
        }
    };
    for effect in config.effects() {
        if context.global.json {
            let mut json = Json::line(context.out.buffer(), "config_effect");
            json.key("section").str(effect.section);
            json.key("effect").str(&effect.text);
            json.end_line();
            context.out.settle()?;
        } else {
            context
                .out
                .line(&visible(format!("{}: {}", effect.section, effect.text).as_bytes()))?;
        }
    }
    let problems = config.problems_on_disk(&OsVfs);
    for message in &problems {
        if context.global.json {
            let mut json = Json::line(context.out.buffer(), "config_problem");
            json.key("message").str(message);
            json.end_line();
            context.out.settle()?;
        } else {
            context.error_line("error", &visible(message.as_bytes()));
        }
    }
    Ok(if problems.is_empty() { Outcome::Done } else { Outcome::Incomplete })
}

pub(super) fn print_problem(context: &mut Context, problem: &ConfigProblem) -> anyhow::Result<()> {
    let ConfigProblem { path, line, column, message } = problem;
    if !context.global.json {
        context.error_line("error", &visible(problem.to_string().as_bytes()));
        return Ok(());
    }
    let mut json = Json::line(context.out.buffer(), "config_problem");
    json.key("path").str(&path.to_string_lossy());
    json.key("line").number(*line as u64);
    json.key("column").number(*column as u64);
    json.key("message").str(message);
    json.end_line();
    context.out.settle()?;
    Ok(())
}
