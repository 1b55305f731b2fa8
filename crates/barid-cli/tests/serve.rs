//! `barid serve` beside the scripts that every IMAP server is put through.

#![expect(clippy::print_stdout, reason = "what was compared is printed")]

use std::path::Path;

use barid_imap_suites::scripts::{Report, RunOptions, run_folder, script_names};
use barid_imap_suites::{
    ConfiguredServer, MailFormat, ProgramArgs, ProgramServer, Server as _, Transport,
};
use barid_testkit::{corpora, disk};

use crate::support::World;

/// The folder of imaptest's scripts in the corpora.
const IMAPTEST: &str = "torture/dovecot-imaptest/raw/src/tests";
/// Scripts of imaptest that need a capability which is not there.
const SKIPPED: [&str; 3] = ["urlauth", "urlauth-binary", "urlauth2"];
/// Scripts of imaptest that begin before login.
const BEFORE_LOGIN: [&str; 2] = ["id", "logout"];
fn server(format: MailFormat) -> ProgramServer {
    let program = Path::new(env!("CARGO_BIN_EXE_barid"));
    ProgramServer::start(program, ProgramArgs::default(), format).unwrap()
}

fn run(folder: &Path, format: MailFormat, transport: Transport) -> Report {
    let server = server(format);
    let options = RunOptions { transport, user: 1 };
    let report = run_folder(&server, folder, options, &|_| true).unwrap();
    println!("{}, {transport:?}: {report}", format.name());
    report
}

fn check_imaptest(format: MailFormat, transport: Transport, before_login: &[&str]) {
    let Some(folder) = corpora::find(IMAPTEST) else { return };
    let report = run(&folder, format, transport);
    let mut skipped: Vec<&str> = report.skipped().iter().map(|(name, _)| *name).collect();
    skipped.retain(|name| !before_login.contains(name));
    assert_eq!(skipped, SKIPPED);
    assert!(report.failed().is_empty());
    let all = script_names(&folder).unwrap().len();
    assert_eq!(report.passed(), all - SKIPPED.len() - before_login.len());
}

#[test]
fn scripts_of_imaptest_pass_on_a_maildir() {
    check_imaptest(MailFormat::Maildir, Transport::Tcp, &[]);
}

#[test]
fn scripts_of_imaptest_pass_on_an_mbox() {
    check_imaptest(MailFormat::Mbox, Transport::Tcp, &[]);
}

#[test]
fn scripts_of_imaptest_pass_on_maildirs_in_folders() {
    check_imaptest(MailFormat::Nested, Transport::Tcp, &[]);
}

#[test]
fn scripts_of_imaptest_pass_on_an_mbx() {
    check_imaptest(MailFormat::Mbx, Transport::Tcp, &[]);
}

#[test]
fn scripts_of_imaptest_pass_on_a_mix() {
    check_imaptest(MailFormat::Mix, Transport::Tcp, &[]);
}

#[test]
fn scripts_of_imaptest_pass_over_stdio() {
    check_imaptest(MailFormat::Maildir, Transport::Stdio, &BEFORE_LOGIN);
}

/// Workers may use few system calls, and few files.
#[test]
fn scripts_of_imaptest_pass_in_confined_workers() {
    let Some(folder) = corpora::find(IMAPTEST) else { return };
    for format in [MailFormat::Maildir, MailFormat::Mbox, MailFormat::Mbx, MailFormat::Mix] {
        let program = Path::new(env!("CARGO_BIN_EXE_barid"));
        let server = ConfiguredServer::start(program, format).unwrap();
        let options = RunOptions { transport: Transport::Tcp, user: 1 };
        let report = run_folder(&server, &folder, options, &|_| true).unwrap();
        println!("{} in workers: {report}", format.name());
        let skipped: Vec<&str> = report.skipped().iter().map(|(name, _)| *name).collect();
        assert_eq!(skipped, SKIPPED);
        assert!(report.failed().is_empty());
        assert!(!server.log().contains(" stderr "), "{}", server.log());
    }
}

#[test]
fn dialogues_of_rfcs_are_as_they_are_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../barid-imap-suites/rfc");
    let report = run(&folder, MailFormat::Maildir, Transport::Tcp);
    assert!(report.failed().is_empty());
    assert!(report.skipped().is_empty());
}

#[test]
fn identifiers_are_kept_in_every_format() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../barid-imap-suites/rfc");
    let options = RunOptions { transport: Transport::Tcp, user: 1 };
    for format in [MailFormat::Nested, MailFormat::Mbox, MailFormat::Mbx, MailFormat::Mix] {
        let is_wanted = |name: &str| name == "rfc8474-objectid";
        let report = run_folder(&server(format), &folder, options, &is_wanted).unwrap();
        println!("{}: {report}", format.name());
        assert_eq!((report.passed(), report.failed().len()), (1, 0));
    }
}

#[test]
fn wrong_arguments_are_explained() {
    let world = World::new();
    let missing = world.path("missing");
    for (args, expected) in [
        (vec!["serve"], "--stdio"),
        (vec!["serve", "--stdio", "--try", "/"], "cannot be used with"),
        (vec!["serve", "--port", "1"], "--try"),
        (vec!["serve", "--try", missing.to_str().unwrap()], "missing"),
    ] {
        let run = world.run(&args);
        assert_eq!(run.code, 2, "{args:?}");
        assert!(run.stderr.contains(expected), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn a_configuration_is_checked() {
    let world = World::new();
    world.write("bad.toml", b"[limit]\n[[listen]]\nprotocol = \"imap\"\nadress = \"x\"\n");
    let args = ["serve", "--check-config", "--config", "bad.toml"];
    let run = world.run(&args);
    let expected = "\
error: bad.toml:1:2: unknown section `limit`; did you mean `limits`?
error: bad.toml:2:1: [listen]: `address` or `socket` is missing
error: bad.toml:4:1: unknown key in [listen]: `adress`; did you mean `address`?
";
    assert_eq!((run.code, run.stderr.as_str(), run.text().as_str()), (2, expected, ""));
    let run = world.run(&[&args[..], &["--json"]].concat());
    let lines = crate::support::parse_lines(&run.text());
    assert_eq!((run.code, lines.len()), (2, 3));
    assert_eq!((&lines[2]["line"], &lines[2]["column"]), (&4.into(), &1.into()));
    world.write(
        "good.toml",
        b"[[listen]]\nprotocol = \"lmtp\"\naddress = \"127.0.0.1:24\"\n\
          [[users.passwd_file]]\npath = \"/nowhere/users\"\n",
    );
    let run = world.run(&["serve", "--check-config", "--config", "good.toml"]);
    assert!(run.text().contains("listen: lmtp on 127.0.0.1:24\n"), "{}", run.text());
    assert_eq!(run.code, 2);
    assert!(run.stderr.starts_with("error: /nowhere/users: "), "{}", run.stderr);
}

/// A large Maildir is first answered from its names. A session that only selects it leaves it as
/// another one would that reads the messages.
#[test]
fn a_short_session_on_a_large_maildir_is_not_repeated() {
    const MESSAGES: u32 = 2_100;
    let world = World::new();
    for number in 0..MESSAGES {
        let name = format!("box/new/{}.M{number}P1.host", 1_700_000_000 + number);
        world.write(&name, format!("Subject: {number}\n\n{number}\n").as_bytes());
    }
    for folder in ["cur", "tmp"] {
        disk::create_dir_all(&world.path("box").join(folder)).unwrap();
    }
    let location = world.path("box");
    let selected = || {
        let args = ["serve", "--stdio", "--mail", location.to_str().unwrap()];
        let run = world.run_with_input(&args, b"a SELECT INBOX\r\nb LOGOUT\r\n");
        let text = run.text();
        let value = |name: &str| {
            let line = text.lines().find(|line| line.contains(name));
            line.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
        };
        (value(" EXISTS"), value(" RECENT"))
    };
    let exists = format!("* {MESSAGES} EXISTS");
    assert_eq!(selected(), (exists.clone(), format!("* {MESSAGES} RECENT")));
    assert_eq!(selected(), (exists, "* 0 RECENT".to_owned()));
}
