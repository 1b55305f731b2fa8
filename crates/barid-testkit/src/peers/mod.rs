//! The peers: other mail programs, run as processes of their own.
//!
//! Each is started in a folder of the test, without a daemon except for [`DovecotMaster`], with a
//! deadline on everything, and ended by its own process id. Some refuse to run as root: if the test
//! runs as root, peers run as an unprivileged user ([`PeerUser`]), who first becomes the owner of
//! the folders.

mod barriers;
mod bogofilter;
mod cclient;
mod dovecot;
mod dovecot_server;
mod iconv;
mod imap;
mod neomutt;
mod user;

pub use barriers::BarrierLog;
pub use bogofilter::{Bogofilter, feed};
pub use cclient::CClient;
pub use dovecot::Dovecot;
pub use dovecot_server::{CertificateKey, DOVECOT_IMAP, DovecotMaster, DovecotSettings};
pub use iconv::Iconv;
pub use imap::{Imap, Reply, imap_literal_len, read_imap_response};
pub use neomutt::{NeoMutt, NeoMuttEnd, NeoMuttRun, NeoMuttSettings};
pub use user::PeerUser;

use std::path::{Path, PathBuf};

/// The time limit for one answer of a peer, in seconds. Generous: the slowest case measured is
/// c-client's expunge of every third message of a 1.4 GB mbox, which takes four minutes on an idle
/// machine.
pub const ANSWER_TIMEOUT_S: u64 = 900;

/// Returns the path of a program, searched in `PATH` and in the folders for administrators'
/// programs.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(["/usr/sbin", "/usr/bin", "/sbin"].map(PathBuf::from));
    let mut candidates = folders.iter().map(|folder| folder.join(name));
    candidates.find(|candidate| is_program(candidate))
}

fn is_program(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && crate::disk::exists(path)
}
