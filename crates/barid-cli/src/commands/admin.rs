//! `barid admin`: questions and orders to a server that runs.

use std::path::{Path, PathBuf};

use barid::vfs::OsVfs;
use barid_serve::config::{CONFIG_PATH, ServerConfig};
use barid_serve::server::{AdminVerb, ask_server};
use clap::{Args, Subcommand, ValueHint};
use serde_json::Value;

use crate::context::Context;
use crate::exit::{Outcome, WithHint};
use crate::output::escape::visible;

const EXAMPLES: &str = "\
Examples:
  barid admin who                       the users who have sessions
  barid admin sessions --json           all sessions
  barid admin kick --user ann           end the sessions of Ann
  barid admin kick --session 17
  barid admin log --lines 20            the last lines of the log
  barid admin user ann                  the account, as the server sees it
  barid admin --socket /run/barid/admin.sock status";

/// Ask a server that runs
///
/// The server of `barid serve --config` answers on the Unix socket `server.admin_socket` of its
/// configuration: to root, and to the user who started it.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct AdminArgs {
    /// Configuration file of the server, which names its socket
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(default_value = CONFIG_PATH, conflicts_with = "socket")]
    config: PathBuf,
    /// Socket of the server
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    socket: Option<PathBuf>,
    #[command(subcommand)]
    verb: AdminCommand,
}

#[derive(Debug, Subcommand)]
enum AdminCommand {
    /// List the users who have sessions
    Who,
    /// List all sessions
    Sessions,
    /// End sessions; their clients get BYE
    Kick {
        /// All sessions of a user
        #[arg(long, required_unless_present = "session", conflicts_with = "session")]
        user: Option<String>,
        /// One session, by its number
        #[arg(long, value_name = "NUMBER")]
        session: Option<u64>,
    },
    /// Show the last lines of the log
    Log {
        /// Number of lines
        #[arg(long, value_name = "N", default_value_t = 100)]
        lines: usize,
    },
    /// Show the account of a user, as the server sees it
    User {
        /// The name
        name: String,
    },
    /// Show the processes of the server
    Status,
}

impl AdminCommand {
    /// Returns the request, the type of its lines in JSON, and the keys that are columns of text;
    /// without them each key has a line.
    fn request(&self) -> (AdminVerb, &'static str, &'static [&'static str]) {
        match self {
            Self::Who => (AdminVerb::Who, "who", &["user", "sessions", "peers"]),
            Self::Sessions => {
                let keys = &["session", "user", "peer", "tls", "mechanism", "worker", "seconds"];
                (AdminVerb::Sessions, "session", keys)
            }
            Self::Kick { user, session } => {
                let verb = match (user, session) {
                    (Some(user), _) => AdminVerb::KickUser(user.clone()),
                    (None, session) => AdminVerb::KickSession(session.unwrap_or_default()),
                };
                (verb, "kicked", &[])
            }
            Self::Log { lines } => {
                let keys = &["time", "level", "event", "user", "peer", "session", "text"];
                (AdminVerb::Log(*lines), "log", keys)
            }
            Self::User { name } => (AdminVerb::User(name.clone()), "user", &[]),
            Self::Status => (AdminVerb::Status, "server", &[]),
        }
    }
}

/// Asks, and prints the answer.
pub(crate) fn run(context: &mut Context, args: &AdminArgs) -> anyhow::Result<Outcome> {
    let socket = match &args.socket {
        Some(socket) => socket.clone(),
        None => socket_of(&args.config)?,
    };
    let (verb, type_name, keys) = args.verb.request();
    let lines = ask_server(&socket, verb).map_err(|error| {
        WithHint::error(error.to_string(), "is the server running, and may you ask it?")
    })?;
    let out = context.out.buffer();
    for line in &lines {
        if context.global.json {
            let object = line.to_string();
            let rest = object.strip_prefix('{').unwrap_or("}");
            let text = format!("{{\"v\":1,\"type\":\"{type_name}\",{rest}\n");
            out.extend_from_slice(text.as_bytes());
        } else {
            out.extend_from_slice(text_of(line, keys).as_bytes());
        }
    }
    let is_kicked = lines.first().and_then(|line| line.get("kicked")) != Some(&Value::from(0));
    Ok(if lines.is_empty() || !is_kicked { Outcome::NothingMatched } else { Outcome::Done })
}

fn socket_of(config: &Path) -> anyhow::Result<PathBuf> {
    let found = ServerConfig::load(&OsVfs, config).map_err(|errors| {
        WithHint::error(errors.to_string(), "name the server's socket with --socket PATH")
    })?;
    found.server.admin_socket.ok_or_else(|| {
        WithHint::error(
            format!("{}: there is no server.admin_socket", config.display()),
            "set it, and start the server again",
        )
    })
}

/// Returns the values of some keys in a line, or all keys with their values in a line each.
fn text_of(line: &Value, keys: &[&str]) -> String {
    let plain = |value: &Value| match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => visible(text.as_bytes()),
        Value::Array(all) if all.iter().all(Value::is_string) => {
            let texts: Vec<&str> = all.iter().filter_map(Value::as_str).collect();
            visible(texts.join(",").as_bytes())
        }
        value => visible(value.to_string().as_bytes()),
    };
    if keys.is_empty() {
        let all = line.as_object().into_iter().flatten();
        return all.map(|(key, value)| format!("{key} {}\n", plain(value))).collect();
    }
    let cells: Vec<String> = keys.iter().map(|key| plain(&line[*key])).collect();
    cells.join("  ") + "\n"
}
