//! `barid lmtp`: delivers what mail servers hand over by LMTP.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use barid::vfs::{Host, OsVfs};
use barid_serve::config::{CONFIG_PATH, LogLevel, LogTarget, ServerConfig};
use barid_serve::delivery::SpamCheck;
use barid_serve::lmtp::LmtpServer;
use barid_serve::log::{Log, LogEvent, Metrics, OpenLog};
use clap::{Args, ValueHint};

use super::deliver::OwnFilter;
use crate::context::Context;
use crate::exit::{Outcome, WithHint};
use crate::output::escape::visible;

const EXAMPLES: &str = "\
Examples:
  barid lmtp                                    as /etc/barid/barid.toml says
  barid lmtp --config barid.toml

  Postfix, main.cf:   virtual_transport = lmtp:unix:barid/lmtp
                      mailbox_transport = lmtp:unix:barid/lmtp
  Exim:               driver = lmtp, socket = /run/barid/lmtp.sock";

/// Deliver what mail servers hand over by LMTP
///
/// Listens on the addresses of the configuration with the protocol lmtp. Each recipient gets a
/// reply of his own, after the message is safe on the disk. Started by root, the program delivers
/// in a process of the user; otherwise it delivers to users whose mail belongs to its own uid.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct LmtpArgs {
    /// Configuration file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(default_value = CONFIG_PATH)]
    config: PathBuf,
}

/// Time between two looks for SIGHUP.
const HANGUP_PERIOD: Duration = Duration::from_secs(1);

/// Delivers for ever.
pub(crate) fn run(context: &mut Context, args: &LmtpArgs) -> anyhow::Result<Outcome> {
    let (config, config_text) = match ServerConfig::load_with_text(&OsVfs, &args.config) {
        Ok(config) => config,
        Err(errors) => {
            errors.0.iter().for_each(|problem| {
                context.error_line("error", &visible(problem.to_string().as_bytes()))
            });
            return Ok(Outcome::Incomplete);
        }
    };
    let host: Arc<dyn Host> = Arc::new(OsVfs);
    let log = Log::new(host, &config.log, open_log(&config.log.target)).map_err(|error| {
        WithHint::error(format!("the log: {error}"), "see [log] of the configuration")
    })?;
    let spam = config.delivery.spam.clone();
    let server = Arc::new(LmtpServer {
        config_text,
        program: std::env::current_exe()?,
        uid: rustix::process::geteuid().as_raw(),
        vfs: Arc::new(OsVfs),
        spam: spam.map(|spam| Arc::new(OwnFilter(spam)) as Arc<dyn SpamCheck>),
        log: Arc::new(log),
        metrics: Arc::new(Metrics::default()),
        config,
    });
    server.serve(&mut |addresses| {
        reopen_on_hangup(Arc::clone(&server))?;
        for address in addresses {
            context.out.line(&format!("lmtp on {address}"))?;
        }
        context.out.flush()
    })?;
    Ok(Outcome::Done)
}

/// Opens the log again after SIGHUP, within a second.
fn reopen_on_hangup(server: Arc<LmtpServer>) -> io::Result<()> {
    let hangup = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGHUP, Arc::clone(&hangup))?;
    std::thread::Builder::new().name("log".to_owned()).spawn(move || {
        loop {
            OsVfs.sleep(HANGUP_PERIOD);
            if hangup.swap(false, Ordering::AcqRel)
                && let Err(error) = server.log.reopen()
            {
                let text = error.to_string();
                server.log.write(&LogEvent::new(LogLevel::Error, "log").text("error", &text));
            }
        }
    })?;
    Ok(())
}

/// Returns a function that opens the place of the log.
fn open_log(target: &LogTarget) -> OpenLog {
    let target = target.clone();
    Box::new(move || match &target {
        LogTarget::Stderr => Ok(Box::new(io::stderr())),
        LogTarget::File(path) => Ok(Box::new(open_file(path)?)),
    })
}

fn open_file(path: &Path) -> io::Result<barid::vfs::Stream> {
    let opened = OsVfs.open_log(path, 0o640);
    opened.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}
