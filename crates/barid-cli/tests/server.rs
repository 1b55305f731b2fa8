//! `barid serve --config`: the processes of a server, as its users and administrators see them.
#![expect(clippy::disallowed_methods, reason = "the program is tested from outside, on real files")]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::send;
use crate::test_server::{ANN, Client, Server, http, is_root, kill, status, wait_for};

#[test]
fn sessions_of_a_user_have_one_worker_and_its_death_is_theirs_alone() {
    let server = Server::start();
    let (mut ann, mut ann_too, mut bob) =
        (server.login("ann"), server.login("ann"), server.login("bob"));
    let workers = server.workers();
    assert_eq!(workers.iter().map(|(user, _)| user.as_str()).collect::<Vec<_>>(), ["ann", "bob"]);
    ann.ok("SELECT INBOX");
    bob.ok("SELECT INBOX");
    ann_too.ok("SELECT INBOX");
    ann_too.send("t APPEND INBOX {12}\r\n");
    assert!(ann_too.line().starts_with("+ "));
    ann_too.send("Subject: x\r\n\r\n");
    assert!(ann_too.answer("t").contains("APPENDUID"));
    assert!(ann.ok("NOOP").contains("* 1 EXISTS"));
    kill(workers[0].1);
    assert_eq!(ann.rest(), "");
    assert_eq!(ann_too.rest(), "");
    bob.ok("NOOP");
    let mut again = server.login("ann");
    assert!(again.ok("SELECT INBOX").contains("* 1 EXISTS"));
    assert_ne!(server.workers()[0].1, workers[0].1);
    assert_eq!(server.workers()[1], workers[1]);
    bob.ok("NOOP");
    // Repeated deaths delay the user, and nobody else.
    kill(server.workers()[0].1);
    assert_eq!(again.rest(), "");
    wait_for("the end of the worker", || server.workers().len().eq(&1).then_some(()));
    let refused = server.client().command("LOGIN ann secret");
    assert!(refused.contains("NO [UNAVAILABLE]"), "{refused}");
    bob.ok("NOOP");
    wait_for("another worker", || {
        server.client().command("LOGIN ann secret").contains("t OK").then_some(())
    });
}

#[test]
fn front_and_auth_are_started_again() {
    let server = Server::start();
    let mut ann = server.login("ann");
    let auth = server.pid("auth");
    kill(auth);
    ann.ok("NOOP");
    let mut bob = server.login("bob");
    assert_ne!(server.pid("auth"), auth);
    let front = server.pid("front");
    kill(front);
    assert_eq!(ann.rest(), "");
    assert_eq!(bob.rest(), "");
    wait_for("the end of the sessions", || server.admin(&["sessions"]).is_empty().then_some(()));
    server.login("ann").ok("SELECT INBOX");
    assert_ne!(server.pid("front"), front);
    assert!(server.has_logged("front ended: signal: 9"));
    assert!(server.has_logged("auth ended: signal: 9"));
}

#[test]
fn events_are_pushed_between_commands() {
    let server = Server::start();
    let (mut one, mut two) = (server.login("ann"), server.login("ann"));
    two.ok("CREATE Other");
    one.ok("SELECT INBOX");
    let events = "(MessageNew MessageExpunge MailboxName)";
    one.ok(&format!("NOTIFY SET (selected (MessageNew MessageExpunge)) (personal {events})"));
    two.ok("APPEND INBOX {8+}\r\nA: b\r\n\r\n");
    assert_eq!((one.line(), one.line()), ("* 1 EXISTS\r\n".into(), "* 1 RECENT\r\n".into()));
    two.ok("APPEND Other {8+}\r\nA: b\r\n\r\n");
    let status = |line: String, messages: u32| {
        let start = format!("* STATUS Other (MESSAGES {messages} ");
        assert!(line.starts_with(&start), "{line}");
    };
    status(one.line(), 1);
    // Another program delivers into a mailbox that is not selected.
    let folder = server.world.path("ann/Maildir/.Other");
    fs::write(folder.join("tmp/1.a.b"), "A: b\n\nc\n").unwrap();
    fs::rename(folder.join("tmp/1.a.b"), folder.join("new/1.a.b")).unwrap();
    status(one.line(), 2);
    two.ok("CREATE Third");
    assert_eq!(one.line(), "* LIST (\\HasNoChildren) \".\" Third\r\n");
    // In IDLE, too; a command in between is answered as ever.
    one.ok("NOOP");
    one.send("i IDLE\r\n");
    assert_eq!(one.line(), "+ idling\r\n");
    two.ok("DELETE Third");
    assert_eq!(one.line(), "* LIST (\\NonExistent) \".\" Third\r\n");
    one.send("DONE\r\n");
    assert!(one.answer("i").starts_with("i OK"));
    one.ok("NOTIFY NONE");
    two.ok("APPEND INBOX {8+}\r\nA: b\r\n\r\n");
    assert_eq!(one.ok("NOOP").lines().count(), 1);
}

#[test]
fn a_connection_can_be_given_to_another_user() {
    let server = Server::start_with("", "[imap]\nunauthenticate = true\n");
    let mut client = server.login("ann");
    assert!(client.ok("CAPABILITY").contains(" UNAUTHENTICATE "));
    client.ok("APPEND INBOX {8+}\r\nA: b\r\n\r\n");
    client.ok("SELECT INBOX");
    assert_eq!(client.ok("UNAUTHENTICATE"), "t OK Unauthenticated\r\n");
    assert!(client.command("SELECT INBOX").starts_with("t BAD"));
    assert!(client.command("LOGIN bob wrong").starts_with("t NO [AUTHENTICATIONFAILED]"));
    client.ok("LOGIN bob secret");
    assert!(client.ok("STATUS INBOX (MESSAGES)").contains("(MESSAGES 0)"));
    // The next commands are sent ahead.
    for (user, messages) in [("ann", 1), ("bob", 0), ("bob", 0), ("ann", 1)] {
        client.send(&format!(
            "u UNAUTHENTICATE\r\nl LOGIN {user} secret\r\ns STATUS INBOX (MESSAGES)\r\n"
        ));
        assert_eq!(client.line(), "u OK Unauthenticated\r\n");
        let answer = client.answer("l");
        assert!(answer.ends_with("Logged in\r\n"), "{answer}");
        assert!(client.answer("s").contains(&format!("(MESSAGES {messages})")), "{user}");
    }
    client.ok("LOGOUT");
    assert_eq!(client.rest(), "");
    wait_for("the end of the session", || server.admin(&["sessions"]).is_empty().then_some(()));
}

#[test]
fn quotas_hold_for_sessions() {
    let server = Server::start_with("", "[quota]\nmessages = 2\n");
    let mut ann = server.login("ann");
    assert!(ann.ok("CAPABILITY").contains(" QUOTA QUOTA=RES-MESSAGE "));
    ann.ok("APPEND INBOX {8+}\r\nA: b\r\n\r\n {8+}\r\nA: c\r\n\r\n");
    let refused = ann.command("APPEND INBOX {8+}\r\nA: d\r\n\r\n");
    assert!(refused.starts_with("t NO [OVERQUOTA]"), "{refused}");
    assert!(ann.ok("GETQUOTAROOT INBOX").contains("* QUOTA user (MESSAGE 2 2)"));
    let mut bob = server.login("bob");
    assert!(bob.ok("GETQUOTAROOT INBOX").contains("* QUOTA user (MESSAGE 0 2)"));
}

#[test]
fn a_reload_keeps_sessions_and_uses_the_new_files() {
    let mut server = Server::start_with("connections_per_user = 1", "");
    let mut ann = server.login("ann");
    let refused = server.client().command("LOGIN ann secret");
    assert!(refused.contains("NO [LIMIT]"), "{refused}");
    let before =
        server.curl(&format!("imaps://localhost:{}/", server.imaps.port()), &["-ubob:secret"]);
    assert!(before.0, "{before:?}");
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    server.world.write("cert.pem", made.cert.pem().as_bytes());
    server.world.write("key.pem", made.signing_key.serialize_pem().as_bytes());
    Server::write_config(&server.world, "[limits]\nconnections_per_user = 2\n");
    send(&server.running, Signal::HUP);
    wait_for("the reload", || server.has_logged("was read again").then_some(()));
    ann.ok("NOOP");
    server.login("ann").ok("NOOP");
    let url = format!("imaps://localhost:{}/", server.imaps.port());
    wait_for("the new certificate", || server.curl(&url, &["-ubob:secret"]).0.then_some(()));
    // A configuration with an error changes nothing.
    Server::write_config(&server.world, "[limits]\nconnections_per_user = 0\n");
    send(&server.running, Signal::HUP);
    wait_for("the error", || server.has_logged("stays as it was").then_some(()));
    ann.ok("NOOP");
    // At the end clients are told.
    send(&server.running, Signal::TERM);
    let bye = ann.rest();
    assert!(bye.starts_with("* BYE "), "{bye}");
    let status = wait_for("the end", || server.running.try_wait().unwrap());
    assert!(status.success(), "{status}: {:#?}", server.log.lock().unwrap());
    assert!(!server.world.has("control/socket"));
}

#[test]
fn idle_workers_end() {
    let server = Server::start_with("worker_idle = \"1 s\"", "");
    let mut ann = server.login("ann");
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(server.workers().len(), 1);
    ann.ok("LOGOUT");
    wait_for("the end of the worker", || server.workers().is_empty().then_some(()));
    assert!(!server.has_logged("died"));
    server.login("ann").ok("SELECT INBOX");
}

#[test]
fn limits_hold_before_and_after_login() {
    let server = Server::start_with("connections = 16", "");
    let mut ann = server.login("ann");
    // Slow clients lose their places to others: 8 are allowed before login.
    let mut slow: Vec<Client> = (0..8).map(|_| server.client()).collect();
    let mut bob = server.login("bob");
    assert_eq!(slow[0].rest(), "");
    assert!(slow[7].command("NOOP").contains("t OK"));
    ann.ok("NOOP");
    bob.ok("NOOP");
    let metrics = http(server.metrics, "/metrics");
    assert!(metrics.contains("\nbarid_sessions 2\n"), "{metrics}");
    assert!(http(server.metrics, "/health").ends_with("\r\n\r\nok\n"));
    assert!(http(server.metrics, "/else").starts_with("HTTP/1.1 404"));
}

#[test]
fn an_address_has_a_number_of_connections() {
    let server = Server::start_with("connections_per_address = 3", "");
    let mut all: Vec<Client> = (0..3).map(|_| server.login("ann")).collect();
    let refused = server.client();
    assert!(refused.greeting.contains("BYE [UNAVAILABLE]"), "{}", refused.greeting);
    all.pop();
    wait_for("a place", || server.client().greeting.starts_with("* OK").then_some(()));
}

#[test]
fn a_front_without_descriptors_refuses_one_client_and_goes_on() {
    let server = Server::start();
    let mut ann = server.login("ann");
    let front = server.pid("front");
    // Nothing is left for the session of another client.
    let mut client = server.client();
    let open = |number: &u64| fs::read_link(format!("/proc/{front}/fd/{number}")).is_ok();
    let first_free = (0..).find(|number| !open(number)).unwrap();
    limit_descriptors(front, first_free);
    let refused = client.command("LOGIN ann secret");
    assert!(refused.contains("NO [UNAVAILABLE]"), "{refused}");
    ann.ok("NOOP");
    limit_descriptors(front, first_free + 100);
    assert!(client.command("LOGIN ann secret").contains("t OK"));
    ann.ok("NOOP");
    assert_eq!(server.pid("front"), front);
    let is_alone = || (server.admin(&["sessions"]).len() == 2).then_some(());
    wait_for("the end of the refused session", is_alone);
    assert!(server.has_logged("front: no free descriptor for a session"));
}

/// Sets the limit of descriptors of a process, as the user of the process.
fn limit_descriptors(pid: i32, count: u64) {
    let mut prlimit = Command::new("prlimit");
    prlimit.args([format!("--pid={pid}"), format!("--nofile={count}:")]);
    if is_root() {
        let id = |field| status(pid, field).split(' ').next().unwrap().parse().unwrap();
        prlimit.uid(id("Uid:")).gid(id("Gid:"));
    }
    assert!(prlimit.status().unwrap().success());
}

#[test]
fn limits_of_open_files_limit_connections() {
    let server = Server::start();
    limit_descriptors(server.pid("front"), 80);
    send(&server.running, Signal::HUP);
    // 64 descriptors are kept, and each connection may need two.
    let text = "the limit of open files (LimitNOFILE) suffices for 8";
    wait_for("the warning", || server.has_logged(text).then_some(()));
    let mut clients: Vec<Client> = (0..8).map(|_| server.login("ann")).collect();
    let refused = server.client();
    assert!(refused.greeting.contains("BYE [UNAVAILABLE]"), "{}", refused.greeting);
    clients[0].ok("NOOP");
}

#[test]
fn what_a_process_prints_is_logged_with_its_name() {
    let server = Server::start();
    let _ann = server.login("ann");
    let worker = server.workers()[0].1;
    // The system prints for the process what this test lets it: nothing but its own pipe.
    let stderr = fs::read_link(format!("/proc/{worker}/fd/2")).unwrap();
    let front = fs::read_link(format!("/proc/{}/fd/2", server.pid("front"))).unwrap();
    assert_ne!(stderr, front);
    assert!(stderr.to_str().unwrap().starts_with("pipe:"), "{}", stderr.display());
    if !is_root() {
        println!("skipped: only root can write to a pipe of another process");
        return;
    }
    let path = format!("/proc/{worker}/fd/2");
    let (flags, mode) = (rustix::fs::OFlags::WRONLY, rustix::fs::Mode::empty());
    let mut pipe = fs::File::from(rustix::fs::open(path, flags, mode).unwrap());
    pipe.write_all(b"2026-11-24T10:00:00Z info login text=\"root\"\nmore\n").unwrap();
    wait_for("the line", || server.has_logged(&format!("worker {worker}: more")).then_some(()));
    let log = server.log.lock().unwrap();
    let line = log.iter().find(|line| line.contains(&format!("worker {worker}: 2026"))).unwrap();
    assert!(line.contains(" warn stderr user=ann "), "{line}");
}

#[test]
fn failures_are_delayed_for_the_address() {
    let server = Server::start();
    let mut ann = server.login("ann");
    let mut answers = String::new();
    // The eighth failure costs 4 seconds, of which the client has waited one for its answer.
    while answers.matches("NO [AUTHENTICATIONFAILED]").count() < 8 {
        let mut client = server.client();
        let answer = client.command("LOGIN bob wrong");
        assert!(!answer.contains("t OK"), "{answer}");
        answers.push_str(&answer);
    }
    // The right password does not help meanwhile, and sessions go on.
    let refused = server.client().command("LOGIN bob secret");
    assert!(refused.contains("NO [UNAVAILABLE]"), "{refused}");
    ann.ok("NOOP");
    assert!(answers.contains("NO [UNAVAILABLE] Too many failed attempts"), "{answers}");
    assert!(server.has_logged("login_failed user=bob peer=127.0.0.1 text=\"wrong password\""));
}

#[test]
fn administrators_see_and_end_sessions() {
    let server = Server::start();
    let (mut ann, mut bob) = (server.login("ann"), server.login("bob"));
    let who = server.admin(&["who"]);
    let users: Vec<&str> = who.iter().map(|line| line["user"].as_str().unwrap()).collect();
    assert_eq!(users, ["ann", "bob"]);
    let sessions = server.admin(&["sessions"]);
    assert_eq!(sessions.len(), 2);
    assert_eq!(sessions[0]["mechanism"], "PLAIN");
    assert_eq!(server.admin(&["kick", "--user", "ann"])[0]["kicked"], 1);
    assert_eq!(ann.rest(), "* BYE Ended by the administrator\r\n");
    bob.ok("NOOP");
    let number = sessions[1]["session"].to_string();
    assert_eq!(server.admin(&["kick", "--session", &number])[0]["kicked"], 1);
    assert!(bob.rest().contains("BYE"));
    assert_eq!(server.admin(&["kick", "--user", "carl"])[0]["kicked"], 0);
    let user = server.admin(&["user", "ann"]).remove(0);
    assert_eq!(user["home"].as_str(), server.world.path("ann").to_str());
    assert!(user["refused"].is_null());
    let log = server.admin(&["log", "--lines", "3"]);
    assert_eq!(log.len(), 3);
    let socket = server.world.path("control/socket");
    let run = server.world.run(&["admin", "--socket", socket.to_str().unwrap(), "who"]);
    assert_eq!((run.code, run.text().as_str()), (1, ""));
    let config = server.world.path("barid.toml");
    let text = server.world.ok(&["admin", "--config", config.to_str().unwrap(), "user", "bob"]);
    assert!(text.contains("user bob\n"), "{text}");
    let run = server.world.run(&["admin", "--socket", "/nonexistent", "who"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("/nonexistent"), "{}", run.stderr);
}

#[test]
fn protocols_are_logged_for_who_has_made_the_folder() {
    let server = Server::start_with("", "[rawlog]\nfolder = \"~/rawlog\"\n");
    server.world.create_dir("ann/rawlog");
    // A link is not followed.
    let link = server.world.path("bob/rawlog");
    std::os::unix::fs::symlink(server.world.path("ann/rawlog"), link).unwrap();
    if is_root() {
        chown(server.world.path("ann/rawlog"), Some(ANN), Some(ANN)).unwrap();
    }
    let mut client = server.client();
    client.send("a LOGIN ann secret\r\nb CAPABILITY\r\nc COMPRESS DEFLATE\r\n");
    assert!(client.answer("c").contains("c OK"));
    server.login("bob").ok("SELECT INBOX");
    let read = |end: &str| {
        let name = server.world.list("ann/rawlog").into_iter().find(|name| name.ends_with(end))?;
        Some(
            String::from_utf8_lossy(&server.world.read(&format!("ann/rawlog/{name}"))).into_owned(),
        )
    };
    let input = wait_for("the log", || read(".in").filter(|text| text.contains("c COMPRESS")));
    assert_eq!(input, "b CAPABILITY\r\nc COMPRESS DEFLATE\r\n");
    let output = read(".out").unwrap();
    assert!(output.starts_with("a OK ") && output.contains("\r\nc OK "), "{output}");
    assert_eq!(server.world.list("ann/rawlog").len(), 2);
}

#[test]
fn extensions_follow_the_configuration_and_the_client() {
    let more = "[imap]\nuid_only = true\nmessage_limit = 1000\n\
                [[disable]]\ncapabilities = [\"IDLE\"]\n\
                [[disable]]\ncapabilities = [\"CONDSTORE\"]\nclients = [\"Old*\"]\n\
                [[disable]]\ncapabilities = [\"MOVE\"]\nusers = [\"bob\"]\n";
    let server = Server::start_with("", more);
    let has = |text: &str, name: &str| text.split([' ', ']', '\r']).any(|word| word == name);
    let mut ann = server.client();
    assert!(has(&ann.greeting, "ID") && !has(&ann.greeting, "IDLE"), "{}", ann.greeting);
    let answer = ann.ok("LOGIN ann secret");
    for name in ["UIDONLY", "MESSAGELIMIT=1000", "CONDSTORE", "QRESYNC", "MOVE"] {
        assert!(has(&answer, name), "{name}: {answer}");
    }
    assert!(!has(&answer, "IDLE"), "{answer}");
    assert!(ann.command("IDLE").starts_with("t BAD"));
    assert!(ann.ok("SELECT INBOX").contains("HIGHESTMODSEQ"));
    assert!(ann.ok("ENABLE UIDONLY").contains("* ENABLED UIDONLY"));
    // ID comes before the login.
    let mut bob = server.client();
    bob.ok("ID (\"version\" \"1\" \"name\" \"OldMail\")");
    let answer = bob.ok("LOGIN bob secret");
    for name in ["CONDSTORE", "QRESYNC", "MOVE", "IDLE"] {
        assert!(!has(&answer, name), "{name}: {answer}");
    }
    assert!(!bob.ok("SELECT INBOX").contains("HIGHESTMODSEQ"));
    assert!(bob.command("UID MOVE 1 INBOX").starts_with("t BAD"));
    assert!(bob.command("STATUS INBOX (HIGHESTMODSEQ)").starts_with("t BAD"));
    bob.ok("ID (\"name\" \"NewMail\")");
    assert!(bob.ok("STATUS INBOX (HIGHESTMODSEQ)").contains("(HIGHESTMODSEQ "));
}
