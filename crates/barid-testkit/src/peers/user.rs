//! The user that peers run as.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use crate::disk;

/// An unprivileged user.
///
/// The test's own user, or, if that is root, `games`: every Debian has it, no service runs as it,
/// and c-client accepts it, while it treats `nobody` as anonymous and rejects it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerUser {
    /// The login name.
    pub name: String,
    /// The user id; never 0.
    pub uid: u32,
    /// The primary group id.
    pub gid: u32,
}

impl PeerUser {
    /// The candidates if the test runs as root.
    const CANDIDATES: [&str; 3] = ["games", "daemon", "bin"];

    /// Returns the user of this test run.
    pub fn get() -> io::Result<&'static Self> {
        static USER: OnceLock<Option<PeerUser>> = OnceLock::new();
        let user = USER.get_or_init(|| Self::choose(&disk::read_text(Path::new(PASSWD)).ok()?));
        user.as_ref().ok_or_else(|| io::Error::other("no unprivileged user in /etc/passwd"))
    }

    fn choose(passwd: &str) -> Option<Self> {
        let own_uid = rustix::process::getuid().as_raw();
        if own_uid != 0 {
            return passwd.lines().filter_map(Self::parse).find(|user| user.uid == own_uid);
        }
        let by_name = |name| passwd.lines().filter_map(Self::parse).find(|user| user.name == name);
        Self::CANDIDATES.into_iter().find_map(by_name)
    }

    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        Some(Self { name, uid, gid })
    }

    /// Makes a command run as this user, with `HOME` and `USER` set, in UTC.
    pub fn run_as(&self, command: &mut Command, home: &Path) {
        if rustix::process::getuid().is_root() {
            command.uid(self.uid).gid(self.gid);
        }
        command
            .env("HOME", home)
            .env("USER", &self.name)
            .env("LOGNAME", &self.name)
            .env("TZ", "UTC");
    }

    /// Makes this user the owner of a tree, if the test runs as root; files that they already own
    /// are unchanged.
    pub fn take(&self, path: &Path) -> io::Result<()> {
        if rustix::process::getuid().is_root() {
            disk::chown_tree(path, self.uid, self.gid)?;
        }
        Ok(())
    }
}

const PASSWD: &str = "/etc/passwd";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_not_root() {
        assert_ne!(PeerUser::get().unwrap().uid, 0);
    }

    #[test]
    fn a_line_of_passwd_is_read() {
        let user = PeerUser::parse("games:x:5:60:games:/usr/games:/usr/sbin/nologin").unwrap();
        assert_eq!((user.name.as_str(), user.uid, user.gid), ("games", 5, 60));
        assert_eq!(PeerUser::parse("+::::::"), None);
    }
}
