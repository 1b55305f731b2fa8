//! Tests that the superuser can work on another user's mail: every file that is made or replaced
//! belongs to that user, whose next command works.
#![expect(clippy::disallowed_methods, reason = "the program is tested from outside, on real files")]

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::World;

/// A user that does not exist.
const OWNER: u32 = 54_321;
const GROUP: u32 = 54_322;

const MESSAGE: &str = "From: a@b.example\nSubject: one\nMessage-ID: <1@b>\n\nbody\n";

/// The mailboxes of the test.
const BOXES: [&str; 5] = ["maildir", "mh", "mbox", "mix", "mbx"];

struct Owned {
    world: World,
}

impl Owned {
    /// Makes mailboxes of the user; `None` if the test does not run as superuser.
    fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            barid_testkit::skip_or_fail("owners of files: only the superuser can give files away");
            return None;
        }
        let world = World::new();
        let message = world.write("message", MESSAGE.as_bytes());
        world.create_dir("home");
        for format in BOXES {
            let path = world.path(format);
            let spec = format!("{format}:{}", path.display());
            world.ok(&["append", "--create", &spec, &message, &message, "--flags", "flagged"]);
        }
        let owned = Self { world };
        owned.each(&owned.world.path(""), &mut |path| {
            chown(path, Some(OWNER), Some(GROUP)).unwrap();
            // Others may search the folders, and the group may use the mail.
            let mode = if path.is_dir() { 0o770 } else { 0o660 };
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        });
        Some(owned)
    }

    fn each(&self, path: &Path, act: &mut dyn FnMut(&Path)) {
        act(path);
        if path.is_dir() {
            let entries = std::fs::read_dir(path).unwrap();
            let paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
            paths.iter().for_each(|path| self.each(path, act));
        }
    }

    fn spec(&self, format: &str) -> String {
        format!("{format}:{}", self.world.path(format).display())
    }

    /// Checks that everything belongs to the user, and that the group can access mailbox files.
    fn check(&self, when: &str) {
        let mut count = 0;
        self.each(&self.world.path(""), &mut |path| {
            let found = std::fs::symlink_metadata(path).unwrap();
            assert_eq!((found.uid(), found.gid()), (OWNER, GROUP), "{when}: {}", path.display());
            count += 1;
            let in_mailbox = BOXES.iter().any(|name| path.starts_with(self.world.path(name)));
            if in_mailbox && found.is_file() {
                assert_eq!(found.mode() & 0o7777, 0o660, "{when}: {}", path.display());
            }
        });
        assert!(count > 20, "{count}");
    }

    /// Runs a command as the user.
    fn as_owner(&self, args: &[&str]) {
        let mut command = Command::new("setpriv");
        let (uid, gid) = (OWNER.to_string(), GROUP.to_string());
        command.args(["--reuid", &uid, "--regid", &gid, "--clear-groups"]);
        let program = self.world.command();
        command.arg(program.get_program()).args(args).env("HOME", self.world.path("home"));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.is_empty(), "{args:?}: {said}");
    }
}

#[test]
fn files_of_the_superuser_belong_to_the_user() {
    let Some(owned) = Owned::new() else { return };
    let message = owned.world.path("message").to_str().unwrap().to_owned();
    for format in BOXES {
        let spec = owned.spec(format);
        let keyword = if format == "mbox" { "+seen" } else { "+todo" };
        for args in [
            vec!["ls", &spec],
            vec!["append", &spec, &message],
            vec!["flag", &spec, "1", keyword, "+answered"],
            vec!["expunge", &spec, "2"],
            vec!["undo", &spec],
            vec!["sync", &spec],
            vec!["check", "--repair", &spec],
            vec!["copy", &spec, "1", &owned.spec("maildir")],
        ] {
            if args[0] == "copy" && format == "maildir" {
                continue;
            }
            let run = owned.world.run(&args);
            assert!([0, 1].contains(&run.code), "{args:?}: {}", run.stderr);
            owned.check(&format!("{args:?}"));
        }
    }
}

#[test]
fn the_next_command_of_the_user_works() {
    let Some(owned) = Owned::new() else { return };
    let message = owned.world.path("message").to_str().unwrap().to_owned();
    for format in BOXES {
        let spec = owned.spec(format);
        for (verb, more) in [("append", message.as_str()), ("expunge", "1")] {
            owned.world.ok(&[verb, &spec, more]);
        }
        owned.as_owner(&["append", &spec, &message]);
        owned.as_owner(&["flag", "--write-through", &spec, "2", "+answered"]);
        owned.as_owner(&["expunge", &spec, "3"]);
        owned.as_owner(&["ls", &spec]);
        owned.check(format);
    }
}

#[test]
fn a_link_is_not_followed() {
    let Some(owned) = Owned::new() else { return };
    let victim = owned.world.path("victim");
    for name in ["dovecot-uidlist.tmp", "dovecot-keywords.lock"] {
        let link = owned.world.path("maildir").join(name);
        std::os::unix::fs::symlink(&victim, &link).unwrap();
    }
    let spec = owned.spec("maildir");
    owned.world.remove("maildir/dovecot-uidlist");
    owned.world.ok(&["ls", &spec]);
    owned.world.ok(&["flag", &spec, "1", "+one", "+two"]);
    assert!(!victim.exists(), "the link was followed");
}
