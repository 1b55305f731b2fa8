//! `barid serve`: mailboxes over IMAP.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid::OpenOptions;
use barid::vfs::{OsVfs, Vfs as _};
use barid_serve::config::{CONFIG_PATH, Quota};
use barid_serve::mail::{UserMail, UserOptions};
use barid_serve::server::{ServerStart, run_role, serve_config};
use barid_serve::{FolderOptions, TryAddress, TryOptions, serve_stdio, serve_try};
use clap::{Args, ValueHint};

use super::check_config;
use super::deliver::OwnFilter;
use crate::context::Context;
use crate::exit::{Outcome, WithHint};

const EXAMPLES: &str = "\
Examples:
  barid serve --stdio                          one session over standard input and output
  barid serve --stdio --mail ~/Maildir
  ssh host barid serve --stdio                 the same from another machine: as `Tunnel` of
                                               mbsync, `tunnel` of NeoMutt
  barid serve --config /etc/barid/barid.toml   the users of a configuration file
  barid serve --try ~/users                    a first look: each folder in ~/users is a user
  barid serve --try ~/users --port 1143 --password secret
  barid serve --check-config                   the problems of /etc/barid/barid.toml";

/// Serve mailboxes over IMAP
///
/// With `--stdio` the program serves one session over standard input and output, without a login:
/// whoever can start it can read the mail. It is made for tunnels of mail programs.
///
/// With `--try` each folder in DIR is the mail of the user of its name, served on the loopback
/// interface only, in clear and over TLS with a certificate made for it. All users have the same
/// password, which is printed.
///
/// With `--config` it is a server of many users. SIGHUP makes it read the configuration and the
/// certificates again, SIGTERM ends it; `barid admin` asks it what it does.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Serve one session over standard input and output
    #[arg(
        long,
        required_unless_present_any = ["try_dir", "config", "role", "check_config"],
        conflicts_with_all = ["try_dir", "config", "check_config"]
    )]
    stdio: bool,
    /// Folder of the mailboxes for --stdio; ~/Maildir by default
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, requires = "stdio")]
    mail: Option<PathBuf>,
    /// Serve every folder in DIR to the user of its name, on this machine only
    #[arg(long = "try", value_name = "DIR", value_hint = ValueHint::DirPath)]
    try_dir: Option<PathBuf>,
    /// Serve the users of a configuration file, or the file for --check-config
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with = "try_dir")]
    config: Option<PathBuf>,
    /// Run a part of a server, which the server itself starts
    #[arg(long, value_name = "NAME", hide = true)]
    role: Option<String>,
    /// Hierarchy separator of mailbox names; by default `.` for Maildir++, else `/`
    #[arg(long, value_name = "CHAR")]
    separator: Option<char>,
    /// Port for --try; 0 for any that is free
    #[arg(long, value_name = "PORT", default_value_t = 0, requires = "try_dir")]
    port: u16,
    /// Password of all users for --try; a random one by default
    #[arg(long, value_name = "PASSWORD", requires = "try_dir")]
    password: Option<String>,
    /// Report all problems of the configuration file, and the effects of one without problems
    #[arg(long, conflicts_with = "try_dir")]
    check_config: bool,
}

/// Serves until the client ends the session, or for ever.
pub(crate) fn run(context: &mut Context, args: &ServeArgs) -> anyhow::Result<Outcome> {
    if let Some(role) = &args.role {
        run_role(role, |spam| Box::new(OwnFilter(spam)))?;
        return Ok(Outcome::Done);
    }
    if args.check_config {
        let config = args.config.as_deref().unwrap_or(Path::new(CONFIG_PATH));
        return check_config::run(context, config);
    }
    if let Some(config) = &args.config {
        return run_config(config);
    }
    let open = context.open_options()?;
    match &args.try_dir {
        Some(dir) => run_try(context, args, dir, open),
        None => {
            let root = args.mail.clone().map_or_else(default_mail, Ok)?;
            let options = user_options(root, args.separator, &open);
            serve_stdio(UserMail::open(Arc::new(OsVfs), options)?)?;
            Ok(Outcome::Done)
        }
    }
}

fn run_config(path: &Path) -> anyhow::Result<Outcome> {
    serve_config(ServerStart {
        config: std::path::absolute(path)?,
        sockets: passed_sockets(),
        notify_socket: std::env::var_os("NOTIFY_SOCKET"),
        open_stderr: || Box::new(io::stderr()),
    })?;
    Ok(Outcome::Done)
}

/// Returns the number of sockets that the service manager has passed to this process.
fn passed_sockets() -> i32 {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<i32>().ok());
    let is_own = number("LISTEN_PID") == i32::try_from(std::process::id()).ok();
    number("LISTEN_FDS").filter(|_| is_own).unwrap_or(0)
}

fn user_options(root: PathBuf, separator: Option<char>, open: &OpenOptions) -> UserOptions {
    // A folder with a name is the user's of that name.
    let name = root.file_name().map_or_else(|| "me".into(), |name| name.to_string_lossy());
    UserOptions {
        name: name.replace([' ', '"'], "_"),
        folders: FolderOptions { separator, ..FolderOptions::new(root, open.clone()) },
        spool_dir: open.cache_dir.clone().unwrap_or_else(std::env::temp_dir),
        open: open.clone(),
        append_limit: None,
        quota: Quota::default(),
        watches: true,
    }
}

fn default_mail() -> anyhow::Result<PathBuf> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let home = home.ok_or_else(|| {
        WithHint::error("no mailboxes: HOME is not set", "name a folder with --mail DIR")
    })?;
    Ok(PathBuf::from(home).join("Maildir"))
}

fn run_try(
    context: &mut Context,
    args: &ServeArgs,
    dir: &Path,
    open: OpenOptions,
) -> anyhow::Result<Outcome> {
    drop_root(dir)?;
    let separator = args.separator;
    let options = TryOptions {
        dir: dir.to_owned(),
        port: args.port,
        password: args.password.clone(),
        certificate: open.state_dir.join("try-certificate.pem"),
        options_of: Box::new(move |root| user_options(root, separator, &open)),
    };
    serve_try(options, &mut |address| announce(context, address))?;
    Ok(Outcome::Done)
}

fn announce(context: &mut Context, address: &TryAddress) -> io::Result<()> {
    let TryAddress { imap, imaps, certificate, password, .. } = address;
    let line = format!(
        "imap on {imap}, imaps on {imaps}, certificate {}, password {password}\n",
        certificate.display()
    );
    context.out.buffer().extend_from_slice(line.as_bytes());
    context.out.settle().map_err(io::Error::other)?;
    context.out.flush()
}

/// Starts the program again as the owner of a folder, if it runs as root.
fn drop_root(dir: &Path) -> anyhow::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let metadata = OsVfs.metadata(dir).map_err(|error| {
        WithHint::error(format!("{}: {error}", dir.display()), "name a folder of users")
    })?;
    let (uid, gid) = (metadata.uid, metadata.gid);
    if uid == 0 {
        return Err(WithHint::error(
            format!("{}: belongs to root, who serves no mail", dir.display()),
            "run it as the owner of the mail, or give the folder to that user",
        ));
    }
    // Its owner cannot write into the folders of root. A name with a dot is not a user's.
    let home = std::path::absolute(dir)?;
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command.args(std::env::args_os().skip(1)).uid(uid).gid(gid).env("HOME", home);
    Err(command.exec().into())
}
