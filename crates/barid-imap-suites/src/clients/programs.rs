//! The clients, and what they need.

use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;

use barid_testkit::disk;
use barid_testkit::peers::program;

use super::context::ClientContext;
use super::{
    aerc, alpine, curl, fetchmail, getmail, go_imap, imapclient, imapfilter, imapflow, imaplib,
    mbsync, mutt, offlineimap, perl, roundcube, thunderbird,
};
use crate::server::Server;

/// Environment variable that allows clients to be downloaded: `yes`.
const DOWNLOADS: &str = "BARID_IMAP_DOWNLOADS";

/// A thing without which a client cannot run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// A program, and the Debian package that has it.
    Program(&'static str, &'static str),
    /// A file, and the Debian package that has it.
    File(&'static str, &'static str),
    /// A program that downloads the client.
    Download(&'static str),
}

/// A client.
#[derive(Clone, Copy)]
pub struct Client {
    /// The name.
    pub name: &'static str,
    /// All that it needs.
    pub needs: &'static [Requirement],
    run: fn(&ClientContext<'_>) -> io::Result<()>,
}

/// Result of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientOutcome {
    /// Everything was as it must be.
    Pass,
    /// A Debian package is missing.
    Missing(String),
    /// The client is optional, and was not run; the reason.
    Skip(String),
    /// The first thing that went wrong, with the output of the client.
    Fail(String),
}

/// The clients.
pub const CLIENTS: &[Client] = &[
    Client { name: "curl", needs: &[Requirement::Program("curl", "curl")], run: curl::run },
    Client { name: "mbsync", needs: &[Requirement::Program("mbsync", "isync")], run: mbsync::run },
    Client {
        name: "neomutt",
        needs: &[Requirement::Program("neomutt", "neomutt")],
        run: mutt::neomutt,
    },
    Client { name: "mutt", needs: &[Requirement::Program("mutt", "mutt")], run: mutt::mutt },
    Client {
        name: "offlineimap",
        needs: &[Requirement::Program("offlineimap", "offlineimap3")],
        run: offlineimap::run,
    },
    Client {
        name: "getmail",
        needs: &[Requirement::Program("getmail", "getmail6")],
        run: getmail::run,
    },
    Client {
        name: "fetchmail",
        needs: &[Requirement::Program("fetchmail", "fetchmail")],
        run: fetchmail::run,
    },
    Client {
        name: "imapfilter",
        needs: &[Requirement::Program("imapfilter", "imapfilter")],
        run: imapfilter::run,
    },
    Client {
        name: "imaplib",
        needs: &[Requirement::File(imaplib::PYTHON, "python3")],
        run: imaplib::run,
    },
    Client { name: "imapclient", needs: &[Requirement::Download("pip")], run: imapclient::run },
    Client {
        name: "Mail::IMAPClient",
        needs: &[Requirement::File(perl::MODULE, "libmail-imapclient-perl")],
        run: perl::run,
    },
    Client { name: "aerc", needs: &[Requirement::Program("aerc", "aerc")], run: aerc::run },
    Client { name: "alpine", needs: &[Requirement::Program("alpine", "alpine")], run: alpine::run },
    Client {
        name: "thunderbird",
        needs: &[
            Requirement::Program("thunderbird", "thunderbird"),
            Requirement::File(imaplib::PYTHON, "python3"),
        ],
        run: thunderbird::run,
    },
    Client {
        name: "roundcube",
        needs: &[
            Requirement::File(roundcube::INDEX, "roundcube-core"),
            Requirement::File(roundcube::TABLES, "roundcube-core"),
            Requirement::Program("php", "php-cli"),
            Requirement::Program("chromium", "chromium"),
            Requirement::Program("chromedriver", "chromium-driver"),
            Requirement::File(roundcube::SELENIUM, "python3-selenium"),
        ],
        run: roundcube::run,
    },
    Client { name: "imapflow", needs: &[Requirement::Download("npm")], run: imapflow::run },
    Client { name: "go-imap", needs: &[Requirement::Download("go")], run: go_imap::run },
];

/// Clients that run at the same time: most of the time they wait for disks and screens.
const AT_ONCE: usize = 4;

/// Runs all clients whose name is `only`, or all, several at a time: each with a user of its own,
/// numbered from `first_user`, whose mail is replaced. `report` is called at the end of each.
pub fn run_clients(
    server: &dyn Server,
    first_user: u32,
    only: Option<&str>,
    report: &(dyn Fn(&Client, ClientOutcome) + Sync),
) {
    let is_wanted = |client: &Client| only.is_none_or(|only| client.name == only);
    let clients = CLIENTS.iter().zip(first_user..).filter(|(client, _)| is_wanted(client));
    let next = Mutex::new(clients);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let client = next.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some((client, user)) = client else { break };
                    report(client, run_client(client, server, user));
                }
            });
        }
    });
}

/// Runs a client; the mail of `user` is replaced.
pub fn run_client(client: &Client, server: &dyn Server, user: u32) -> ClientOutcome {
    for need in client.needs {
        match need {
            Requirement::Program(name, package) if program(name).is_none() => {
                return ClientOutcome::Missing(format!("{name} (Debian package {package})"));
            }
            Requirement::File(name, package) if !disk::exists(Path::new(name)) => {
                return ClientOutcome::Missing(format!("{name} (Debian package {package})"));
            }
            Requirement::Download(name) => {
                if std::env::var(DOWNLOADS).as_deref() != Ok("yes") {
                    return ClientOutcome::Skip(format!("{DOWNLOADS} is not yes"));
                }
                if program(name).is_none() {
                    return ClientOutcome::Skip(format!("no {name}"));
                }
            }
            _ => {}
        }
    }
    let context = match ClientContext::new(server, user, client.name) {
        Ok(context) => context,
        Err(error) => return ClientOutcome::Fail(format!("preparation: {error}")),
    };
    match (client.run)(&context) {
        Ok(()) => ClientOutcome::Pass,
        Err(error) => ClientOutcome::Fail(format!("{error}\n{}", context.record())),
    }
}
