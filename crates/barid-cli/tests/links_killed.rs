//! The program is killed at each system call that changes something, while it makes a folder of
//! links and while it brings flags together; then it is run again.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use barid_testkit::peers::program;
use barid_testkit::skip_or_fail;
use rustix::process::Signal;

use crate::links::{SEARCH, file, flag, flags, world};
use crate::support::World;

/// The calls before which it is killed.
const CALLS: [&str; 16] = [
    "pwrite64",
    "write",
    "ftruncate",
    "fallocate",
    "fsync",
    "fdatasync",
    "rename",
    "renameat",
    "renameat2",
    "linkat",
    "symlinkat",
    "unlink",
    "unlinkat",
    "mkdirat",
    "setxattr",
    "fsetxattr",
];

/// Runs the program until its call number `nth` of this name, and kills it there. Returns `false`
/// if it came to its end.
fn kill_at(world: &World, strace: &Command, args: &[&str], (call, nth): (&str, usize)) -> bool {
    let program = world.command();
    let mut command = Command::new(strace.get_program());
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
    command.args(["-e", &format!("inject={call}:signal=KILL:when={nth}")]);
    command.arg(program.get_program()).args(args).env_clear().current_dir(world.path(""));
    for (name, value) in program.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let run = command.stdin(Stdio::null()).output().unwrap();
    let killed = run.status.signal() == Some(Signal::KILL.as_raw());
    let what = String::from_utf8_lossy(&run.stderr);
    assert!(killed || run.status.success(), "{call} {nth}: {} {what}", run.status);
    killed
}

/// Kills the program at each of [`CALLS`], each time in a new world, which `check` gets.
#[expect(clippy::print_stdout, reason = "the number of kills is worth a look")]
fn kill_everywhere(
    what: &str,
    make: &dyn Fn() -> World,
    args: &[&str],
    check: &dyn Fn(&World, &str),
) {
    let Some(strace) = program("strace") else {
        return skip_or_fail("strace (Debian package strace)");
    };
    let (strace, mut kills, mut names) = (Command::new(strace), 0, 0);
    for call in CALLS {
        let before = kills;
        for nth in 1.. {
            let world = make();
            let was_killed = kill_at(&world, &strace, args, (call, nth));
            check(&world, &format!("{what}, killed before {call} number {nth}"));
            if !was_killed {
                break;
            }
            kills += 1;
        }
        names += usize::from(kills > before);
    }
    println!("{what}: killed {kills} times at {names} different calls");
    assert!(kills >= 15 && names >= 5, "{what}: {kills} {names}");
}

/// The texts and flags of the messages behind the links, and of one that has none.
fn messages(world: &World) -> Vec<(String, String)> {
    let places = [("inbox", "1"), ("inbox", "2"), ("folder", "1"), ("archive.mbox", "1")];
    let message =
        |(mailbox, uid)| (world.ok(&["show", "--raw", mailbox, uid]), flags(world, mailbox, uid));
    places.map(message).into()
}

#[test]
fn bringing_flags_together_that_was_killed_is_completed() {
    let make = || {
        let world = world();
        flag(&world, 1, "FRS");
        world.ok(&["flag", "inbox", "2", "+draft"]);
        world.ok(&["flag", "folder", "1", "+answered"]);
        flag(&world, 3, "S");
        world.ok(&["flag", "archive.mbox", "1", "+flagged"]);
        world
    };
    let texts: Vec<String> = messages(&make()).into_iter().map(|(text, _)| text).collect();
    kill_everywhere("sync", &make, &["sync", "found", "-q"], &|world, what| {
        let run = world.run(&["sync", "found"]);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{what}");
        let (found, flags): (Vec<_>, Vec<_>) = messages(world).into_iter().unzip();
        assert_eq!(found, texts, "{what}");
        let expected =
            [r"\Seen", r"\Answered \Flagged \Seen \Draft", r"\Answered \Seen", r"\Flagged \Seen"];
        assert_eq!(flags, expected, "{what}");
        for (number, letters) in [(1, "DFRS"), (2, "RS"), (3, "FS")] {
            let name = file(world, number);
            assert!(name.ends_with(&format!(":2,{letters}")), "{what}: {name}");
            assert!(!world.read(&name).is_empty(), "{what}: {name}");
        }
        let told = world.ok(&["sync", "found"]);
        assert_eq!(told.matches("flagged 0 messages, 0 links").count(), 3, "{what}: {told}");
        assert_eq!(world.list("found/cur").len(), 3, "{what}");
        assert_eq!(world.list("found").len(), 4, "{what}: {:?}", world.list("found"));
    });
}

#[test]
fn a_folder_of_links_that_was_killed_is_made_anew() {
    let make = || {
        let world = world();
        world.remove("found");
        world
    };
    let before = messages(&make());
    let args = [&SEARCH[..], &["budget", "-q"]].concat();
    kill_everywhere("search --output links", &make, &args, &|world, what| {
        assert_eq!(messages(world), before, "{what}");
        if !world.has("found/.barid-links") {
            if world.has("found") {
                let run = world.run(&["sync", "found"]);
                assert!(run.code != 0 || !run.text().contains("links"), "{what}: {}", run.text());
                world.remove("found");
            }
            world.ok(&args);
        }
        let told = world.ok(&["sync", "found"]);
        assert_eq!(told.matches("flagged 0 messages, 0 links").count(), 3, "{what}: {told}");
        assert_eq!(messages(world), before, "{what}");
        for number in 1..=3 {
            assert!(!world.read(&file(world, number)).is_empty(), "{what}: {number}");
        }
    });
}
