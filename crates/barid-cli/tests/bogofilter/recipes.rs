//! Recipes of procmail and maildrop, with the drop-in in place of bogofilter.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use barid_testkit::peers::{feed, program};
use barid_testkit::skip_or_fail;

use super::{Pair, Side, some};

const PROCMAIL: &str = "\
DEFAULT=$MAILDIR/inbox
LOGFILE=$MAILDIR/log

:0fw
| bogofilter -C -d ../list -u -e -p

:0e
{ EXITCODE=75 HOST }

:0:
* ^X-Bogosity: Spam, tests=bogofilter
spam

:0:
* ^X-Bogosity: Unsure, tests=bogofilter
unsure
";
const MAILDROP: &str = "
xfilter \"bogofilter -C -d ../list -u -e -p\"
if (/^X-Bogosity: Spam, tests=bogofilter/)
{
  to \"spam\"
}
if (/^X-Bogosity: Unsure, tests=bogofilter/)
{
  to \"unsure\"
}
to \"inbox\"
";

/// Makes a folder in which `bogofilter` is the program of the side.
fn programs(pair: &Pair, side: Side) -> String {
    let folder = format!("{}/bin", side.folder());
    pair.world.create_dir(&folder);
    let target = match side {
        Side::Ours => PathBuf::from(env!("CARGO_BIN_EXE_barid")),
        Side::Theirs => program("bogofilter").unwrap(),
    };
    symlink(target, pair.world.path(&folder).join("bogofilter")).unwrap();
    format!("{}:/usr/bin:/bin", pair.world.path(&folder).display())
}

/// Delivers messages with the command that `agent` makes of a path and a folder; returns the files
/// delivered to.
fn delivered(
    pair: &Pair,
    side: Side,
    messages: &[Vec<u8>],
    agent: impl Fn(&str, &str) -> Command,
) -> Vec<(String, Vec<u8>)> {
    let path = programs(pair, side);
    let mail = pair.world.create_dir(&format!("{}/mail", side.folder()));
    pair.world.create_dir(&format!("{}/list", side.folder()));
    for name in pair.world.list(side.folder()) {
        if name.starts_with("wordlist") {
            let name = |folder: &str| format!("{}{folder}/{name}", side.folder());
            pair.world.write(&name("/list"), &pair.world.read(&name("")));
        }
    }
    let mut agent = agent(&path, &mail);
    agent.env_clear().env("HOME", &mail).current_dir(&mail);
    for message in messages {
        let output = feed(&mut agent, message).unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{side:?}: {} {said}", output.status);
    }
    let read = |name: &str| {
        let bytes = pair.world.try_bytes(&format!("{}/mail/{name}", side.folder()));
        (name.to_owned(), without_from_lines(&bytes.unwrap_or_default()))
    };
    ["spam", "unsure", "inbox"].map(read).to_vec()
}

/// Returns an mbox without its From_ lines, which contain the time of delivery.
fn without_from_lines(mbox: &[u8]) -> Vec<u8> {
    let lines = mbox.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| !line.starts_with(b"From ")).flatten().copied().collect()
}

/// Returns messages with fixed From_ lines.
fn messages(seed: u64) -> Vec<Vec<u8>> {
    let with_line = |(_, message): (String, Vec<u8>)| {
        let line = b"From a@b.example Tue Mar  5 12:22:10 2024\n".to_vec();
        [line, without_from_lines(&message)].concat()
    };
    let all = some(seed, 30).unwrap().into_iter().map(with_line);
    // procmail does not deliver a blank message.
    all.filter(|message| message.len() > 200 && !message.contains(&0)).collect()
}

fn check(pair: &Pair, seed: u64, agent: impl Fn(&str, &str) -> Command + Copy) {
    let messages = messages(seed);
    let theirs = delivered(pair, Side::Theirs, &messages, agent);
    let ours = delivered(pair, Side::Ours, &messages, agent);
    for ((name, theirs), (_, ours)) in theirs.iter().zip(&ours) {
        assert!(theirs == ours, "{name}: {} and {} bytes", theirs.len(), ours.len());
    }
    let some = theirs.iter().filter(|(_, bytes)| bytes.len() > 1_000).count();
    assert!(some >= 2, "only one folder got mail");
    let args = ["-d", "@/list"];
    pair.same_of("bogoutil", &args, b"");
    assert!(messages.len() > 20, "{} messages", messages.len());
}

#[test]
fn a_procmail_recipe() {
    let Some(procmail) = program("procmail") else {
        return skip_or_fail("procmail (Debian package procmail)");
    };
    let Some(pair) = Pair::trained(20) else { return };
    check(&pair, 51, |path, mail| {
        let rc = format!("PATH={path}\nMAILDIR={mail}\n{PROCMAIL}");
        let name = format!("{}.rc", mail.rsplit('/').nth(1).unwrap());
        let rc = pair.world.write(&name, rc.as_bytes());
        let mut command = Command::new(&procmail);
        command.arg(rc);
        command
    });
}

#[test]
fn a_maildrop_recipe() {
    let Some(maildrop) = program("maildrop") else {
        return skip_or_fail("maildrop (Debian package maildrop)");
    };
    let Some(pair) = Pair::trained(20) else { return };
    check(&pair, 52, |path, mail| {
        let filter = format!("PATH=\"{path}\"\n{MAILDROP}");
        let name = format!("{}/mail/filter", mail.rsplit('/').nth(1).unwrap());
        pair.world.write(&name, filter.as_bytes());
        // maildrop rejects filter files that others can write.
        pair.world.set_mode(&name, 0o600);
        let mut command = Command::new(&maildrop);
        command.arg("./filter");
        command
    });
}
