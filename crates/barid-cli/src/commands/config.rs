//! `barid config`: shows the configuration of the program, and checks it.

use anyhow::anyhow;
use barid_serve::config::ConfigProblem;
use clap::{Args, Command, Subcommand};

use super::check_config::print_problem;

use crate::config::{FileState, Setting, SettingSource, UserConfig};
use crate::context::Context;
use crate::exit::{NotThere, Outcome};
use crate::lazy;
use crate::mail::query::QueryArgs;
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::table::{Align, Table};

const EXAMPLES: &str = "\
Examples:
  barid config                     what counts, and from where
  barid config check               all problems of the file, with line and column
  $EDITOR \"$(barid config path)\"

The file is TOML:
  mailbox = \"~/Maildir\"              of commands that name no mailbox, and of `@`
  [mailboxes]
  lists = \"mbox:~/mail/lists\"        `@lists` wherever a mailbox is named
  [account.work]
  root = \"~/work\"                    `@work/Projects` is a mailbox below it
  inbox = \"/var/mail/ann\"            `@work`; without it, the root
  [special]
  archive = \"@work/Archive\"          also sent, trash, drafts and junk
  [queries]
  todo = \"is:flagged or tag:todo\"    `query:todo` in a query
  [spam]
  wordlist = \"~/.bogofilter/wordlist.db\"
  [options]
  store = \"lmdb\"                     defaults of options of every command
  [options.ls]
  sort = [\"date\"]                    and of one

Options on the command line count before the environment (BARID_MAILBOX, BARID_CACHE_DIR,
BARID_STATE_DIR, BARID_STORE, BARID_COMPRESS, BARID_COLOR, BARID_WORDLIST), and that before the
file. A default that an option on the command line excludes is left out. `barid serve`, `admin`,
`deliver`, `lmtp` and bogofilter's programs do not read the file.

Exit status: 1 from `path` if the file does not exist, 2 if the file has problems.";

/// Show the configuration of the program: what counts, and from where
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: Option<ConfigCommand>,
}

/// The subcommands.
#[derive(Clone, Copy, Debug, Subcommand)]
enum ConfigCommand {
    /// Print the path of the file
    #[command(after_long_help = "\
Examples:
  barid config path
  $EDITOR \"$(barid config path)\"

Exit status: 1 if the file does not exist.")]
    Path,
    /// Print all problems of the file
    ///
    /// Checks the names of mailboxes, parses the saved queries, and compares the defaults of
    /// options with the options of the commands.
    #[command(after_long_help = "\
Examples:
  barid config check
  barid config check --config-file new.toml

Exit status: 2 if the file has problems.")]
    Check,
}

/// Prints the configuration; `program` defines the commands whose options have defaults.
pub(crate) fn run(
    context: &mut Context,
    args: &ConfigArgs,
    program: fn() -> Command,
) -> anyhow::Result<Outcome> {
    match args.command {
        None => show(context, program),
        Some(ConfigCommand::Path) => path(context),
        Some(ConfigCommand::Check) => check(context, program),
    }
}

fn no_home() -> anyhow::Error {
    NotThere::error(
        "no configuration file: neither XDG_CONFIG_HOME nor HOME is set",
        "name one with --config-file FILE",
    )
}

fn path(context: &mut Context) -> anyhow::Result<Outcome> {
    let path = context.config.path.clone().ok_or_else(no_home)?;
    let exists = !matches!(context.config.state, FileState::Missing);
    if context.global.json {
        let mut json = Json::line(context.out.buffer(), "config_path");
        json.key("path").bytes(path.as_os_str().as_encoded_bytes());
        json.key("exists").bool(exists);
        json.end_line();
    } else {
        context.out.buffer().extend_from_slice(path.as_os_str().as_encoded_bytes());
        context.out.buffer().push(b'\n');
    }
    Ok(if exists { Outcome::Done } else { Outcome::NothingMatched })
}

fn problems(context: &Context, program: fn() -> Command) -> Vec<ConfigProblem> {
    let mut root = lazy::whole(program);
    root.build();
    context.config.problems(&mut root, &|words| {
        // The texts of saved queries are expanded already.
        QueryArgs::default().parse(&UserConfig::default(), words).map(drop)
    })
}

fn check(context: &mut Context, program: fn() -> Command) -> anyhow::Result<Outcome> {
    let path = context.config.path.clone().ok_or_else(no_home)?;
    let problems = problems(context, program);
    problems.iter().try_for_each(|problem| print_problem(context, problem))?;
    if !problems.is_empty() {
        return Ok(Outcome::Incomplete);
    }
    if !context.global.json {
        let text = match context.config.state {
            FileState::Missing => "does not exist; the defaults count",
            _ => "no problems",
        };
        context.out.line(&format!("{}: {text}", visible(path.as_os_str().as_encoded_bytes())))?;
    }
    Ok(Outcome::Done)
}

fn show(context: &mut Context, program: fn() -> Command) -> anyhow::Result<Outcome> {
    let settings = context.config.settings(&context.global);
    if context.global.json {
        settings.iter().for_each(|setting| write_json(context, setting));
    } else {
        let mut table = Table::new(&[Align::Left, Align::Left, Align::Left]);
        for setting in &settings {
            let value = match setting.values.as_slice() {
                [] => "-".to_owned(),
                values => {
                    let shown = values.iter().map(|value| visible(value.as_encoded_bytes()));
                    shown.collect::<Vec<_>>().join(", ")
                }
            };
            let place = setting.source.place_in(&context.config);
            let is_missing =
                setting.key == "config-file" && matches!(context.config.state, FileState::Missing);
            let note = if is_missing { ", and does not exist" } else { "" };
            table.row([
                visible(setting.key.as_bytes()),
                value,
                format!("{}{note}", visible(place.as_bytes())),
            ]);
        }
        table.write(context.out.buffer(), "");
    }
    context.out.settle()?;
    let problems = problems(context, program);
    for problem in &problems {
        context.error_line("error", &visible(problem.to_string().as_bytes()));
    }
    match problems.is_empty() {
        true => Ok(Outcome::Done),
        false if matches!(context.config.state, FileState::Wrong(_)) => {
            Err(anyhow!("nothing of the file counts, because of its problems"))
        }
        false => Ok(Outcome::Incomplete),
    }
}

fn write_json(context: &mut Context, setting: &Setting) {
    let path = context.config.path.clone();
    let mut json = Json::line(context.out.buffer(), "config");
    json.key("key").str(&setting.key);
    json.key("values").open(b'[');
    setting.values.iter().for_each(|value| json.bytes(value.as_encoded_bytes()));
    json.close(b']');
    match &setting.source {
        SettingSource::Default => json.key("source").str("default"),
        SettingSource::Option(name) => {
            json.key("source").str("option");
            json.key("option").str(&format!("--{name}"));
        }
        SettingSource::Variable(name) => {
            json.key("source").str("environment");
            json.key("variable").str(name);
        }
        SettingSource::File(place) => {
            json.key("source").str("file");
            json.key("path").bytes(path.unwrap_or_default().as_os_str().as_encoded_bytes());
            json.key("line").number(place.line as u64);
            json.key("column").number(place.column as u64);
        }
    }
    json.end_line();
}
