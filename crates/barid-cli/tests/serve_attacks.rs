//! The attacks that IMAP servers were known to fail on, against a running `barid serve`: each is
//! answered, in bounded time and memory, and the next session notices nothing.
#![expect(clippy::disallowed_methods, reason = "the memory of a process is read from /proc")]
#![expect(clippy::print_stdout, reason = "what was measured is printed")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use barid_imap_suites::wire::Connection;
use barid_imap_suites::{MailFormat, ProgramServer, Transport, open};

use crate::serve_qresync::serve;
use crate::test_server::{Server, wait_for};

/// The longest time that the answer to one command may take, in a build with checks.
const LONGEST: Duration = Duration::from_secs(30);
/// Memory that an attack of a message may add to the server, in KiB, besides some copies of it.
const MORE_KIB: u64 = 64 * 1024;
/// Copies of the message that may be in memory at once: the message, its text in Unicode, fields.
const COPIES: u64 = 12;
/// Memory that clients before login may leave behind, in KiB.
const LEFT_KIB: u64 = 16 * 1024;

/// Returns a figure of the status of a process, in KiB.
fn status_kib(pid: u32, field: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Returns a process and all that it has started.
fn with_children(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut at = 0;
    while let Some(pid) = all.get(at) {
        for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            all.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        at += 1;
    }
    all
}

fn sum_kib(pids: &[u32], field: &str) -> u64 {
    pids.iter().map(|pid| status_kib(*pid, field)).sum()
}

/// A message that is stored, and all commands that parse it.
fn attack_by_message(server: &ProgramServer, name: &str, message: &str) {
    let mut connection = open(server, 1, Transport::Tcp).unwrap();
    connection.set_timeout(LONGEST).unwrap();
    let _ = connection.command("DELETE attack");
    connection.ok("CREATE attack").unwrap();
    let pids = with_children(server.pid());
    let before = sum_kib(&pids, "VmRSS:");
    pids.iter().for_each(|pid| drop(fs::write(format!("/proc/{pid}/clear_refs"), "5")));
    let mut slowest = (Duration::ZERO, String::new());
    let mut timed = |command: &str, connection: &mut Connection| {
        let start = Instant::now();
        let reply =
            connection.command(command).unwrap_or_else(|e| panic!("{name}: {command}: {e}"));
        slowest = slowest.clone().max((start.elapsed(), command.to_owned()));
        reply
    };
    let start = Instant::now();
    assert!(connection.append("attack", "", message.as_bytes()).unwrap().is_ok(), "{name}");
    let appended = start.elapsed();
    assert!(timed("SELECT attack", &mut connection).is_ok(), "{name}");
    for command in [
        "FETCH 1 (ENVELOPE BODYSTRUCTURE RFC822.SIZE)",
        "FETCH 1 (BODY BODY.PEEK[1] BODY.PEEK[1.1] BODY.PEEK[1.MIME] BINARY.PEEK[1])",
        "FETCH 1 (BODY.PEEK[HEADER.FIELDS (SUBJECT TO X)] PREVIEW)",
        "SEARCH OR TEXT nosuch OR FROM nosuch OR SUBJECT nosuch BODY nosuch",
        "SEARCH HEADER X-None nosuch",
        "SORT (SUBJECT FROM TO CC DATE SIZE DISPLAYFROM) UTF-8 ALL",
        "THREAD REFERENCES UTF-8 ALL",
        "FETCH 1 BODY.PEEK[]",
    ] {
        let reply = timed(command, &mut connection);
        assert!(reply.is_ok() || reply.condition() == "NO", "{name}: {command}");
        if reply.is_ok() && command.ends_with("BODY.PEEK[]") {
            let len = reply.untagged.iter().map(Vec::len).max();
            assert!(len >= Some(message.len()), "{name}: {len:?}");
        }
    }
    let peak = sum_kib(&pids, "VmHWM:").saturating_sub(before);
    let size = message.len() as u64 / 1024;
    println!(
        "{name}: {size} KiB, stored in {appended:.1?}; slowest {:.1?} ({}); {peak} KiB more memory",
        slowest.0, slowest.1
    );
    assert!(appended < LONGEST && slowest.0 < LONGEST, "{name}: {slowest:?}");
    assert!(peak < MORE_KIB + COPIES * size, "{name}: {peak} KiB for {size} KiB");
    assert!(open(server, 2, Transport::Tcp).unwrap().ok("SELECT INBOX").is_ok());
}

fn header(lines: &str) -> String {
    format!("From: a@example.org\r\nSubject: s\r\nMIME-Version: 1.0\r\n{lines}\r\nbody\r\n")
}

fn many(count: usize, of: impl Fn(usize) -> String) -> String {
    (0..count).map(of).collect()
}

#[test]
fn messages_with_floods_of_parameters_and_addresses_are_bounded() {
    let server = serve(MailFormat::Maildir);
    let attack = |name: &str, lines: String| attack_by_message(&server, name, &header(&lines));
    let sections = many(100_000, |n| format!(";\r\n\tx*{n}*=%41%42"));
    attack("sections of a parameter", format!("Content-Type: text/plain{sections}\r\n"));
    let backwards = many(100_000, |n| format!(";\r\n\tx*{}=a", 100_000 - n));
    attack("sections backwards", format!("Content-Type: text/plain{backwards}\r\n"));
    let different = many(100_000, |n| format!(";\r\n\tx{n}=\"a\""));
    attack("parameters", format!("Content-Disposition: attachment{different}\r\n"));
    let addresses = many(200_000, |n| format!("\r\n\tu{n}@example.org,"));
    attack("addresses", format!("To:{addresses} x@y\r\n"));
    let groups = many(100_000, |n| format!("\r\n\tg{n}: a@b, c@d;,"));
    attack("groups", format!("Cc:{groups} x@y\r\n"));
    attack("comments", format!("To: {}a@b\r\n", "(".repeat(1_000_000)));
    attack("open quotes", format!("To: {}\r\n", "\"a <".repeat(300_000)));
    let words = many(60_000, |n| format!(" =?utf-8?q?{n}?="));
    attack("encoded words", format!("To: {words} <a@b>\r\nX: {words}\r\n"));
    let ids = many(100_000, |n| format!("\r\n\t<{n}@example.org>"));
    attack("message ids", format!("References:{ids}\r\nIn-Reply-To:{ids}\r\n"));
}

#[test]
fn messages_with_huge_headers_are_bounded() {
    let server = serve(MailFormat::Maildir);
    let attack = |name: &str, lines: String| attack_by_message(&server, name, &header(&lines));
    attack("a line of a header", format!("X: {}\r\n", "a".repeat(20 << 20)));
    attack("a folded field", format!("X: {}\r\n", "a\r\n ".repeat(2 << 20)));
    attack("fields", many(500_000, |n| format!("X-{n}: {n}\r\n")));
    attack("the same field", "Subject: Re: Re: Re:\r\n".repeat(300_000));
    attack("marks of replies", format!("Subject: {}x\r\n", "Re: [a] ".repeat(500_000)));
    attack("lines without a colon", "x\r\n".repeat(1_000_000));
}

#[test]
fn messages_with_many_parts_are_bounded() {
    let server = serve(MailFormat::Maildir);
    let attack = |name: &str, text: String| {
        let start = "From: a@example.org\r\nSubject: s\r\nMIME-Version: 1.0\r\n";
        attack_by_message(&server, name, &format!("{start}{text}"));
    };
    let of_parts = "Content-Type: multipart/mixed; boundary=b\r\n\r\n";
    attack("parts", format!("{of_parts}{}--b--\r\n", "--b\r\n\r\nx\r\n".repeat(200_000)));
    attack("empty parts", format!("{of_parts}{}", "--b\r\n".repeat(500_000)));
    let nested =
        many(20_000, |n| format!("Content-Type: multipart/mixed; boundary=b{n}\r\n\r\n--b{n}\r\n"));
    attack("nested parts", format!("{nested}\r\nx\r\n"));
    let messages = "Content-Type: message/rfc822\r\n\r\n".repeat(30_000);
    attack("nested messages", format!("{messages}Subject: last\r\n\r\nx\r\n"));
    let same = "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n".repeat(20_000);
    attack("the same boundary", format!("{same}\r\nx\r\n"));
    let long = "b".repeat(1 << 20);
    let starts = format!("--{}\r\n", &long[..long.len() - 1]).repeat(8);
    attack(
        "long boundaries",
        format!("Content-Type: multipart/x; boundary={long}\r\n\r\n{starts}"),
    );
    let base64 = "=".repeat(1 << 20) + &"\r\n!".repeat(1 << 20);
    attack("bad base64", format!("Content-Transfer-Encoding: base64\r\n\r\n{base64}\r\n"));
}

/// Bytes that no command may have; each is answered, and the session goes on.
#[test]
fn zero_and_high_bytes_in_strings_are_refused() {
    let server = serve(MailFormat::Maildir);
    let mut connection = open(&server, 1, Transport::Tcp).unwrap();
    connection.ok("SELECT INBOX").unwrap();
    for bytes in [&b"\0"[..], b"\xff", b"a\0b", b"\xc3\x28", b"\x80\x80", b"\xed\xa0\x80"] {
        let quoted = [b"\"", bytes, b"\""].concat();
        let literal = [format!("{{{}+}}\r\n", bytes.len()).as_bytes(), bytes].concat();
        for string in [bytes, &quoted, &literal] {
            for command in ["SELECT ", "CREATE ", "LIST \"\" ", "SEARCH SUBJECT ", "STORE 1 FLAGS "]
            {
                let reply =
                    connection.command_bytes(&[command.as_bytes(), string].concat()).unwrap();
                let is_search = command.starts_with("SEARCH");
                let shown = string.escape_ascii();
                assert!(!reply.is_ok() || is_search, "{command}{shown}");
                // A long run of them ends a session.
                connection.ok("NOOP").unwrap();
            }
        }
    }
}

#[test]
fn clients_before_login_leave_nothing_behind() {
    let server = Server::start();
    let pids = ["front", "auth"].map(|part| server.pid(part) as u32);
    let attack = |name: &str, rounds: usize, attack: &dyn Fn(usize)| {
        // Once, so that what is kept for good is there.
        (0..rounds.div_ceil(10)).for_each(attack);
        let before = sum_kib(&pids, "VmRSS:");
        let start = Instant::now();
        (0..rounds).for_each(attack);
        let time = start.elapsed();
        let more = sum_kib(&pids, "VmRSS:").saturating_sub(before);
        println!("{name}: {rounds} in {time:.1?}, {more} KiB more memory");
        assert!(more < LEFT_KIB, "{name}: {more} KiB");
        server.admin(&["status"]);
    };
    attack("parentheses", 300, &|_| {
        let mut client = server.client();
        let answer = client.command(&format!("LIST {}", "(".repeat(30_000)));
        assert!(answer.contains("t BAD") || answer.contains("BYE"), "{answer}");
    });
    attack("aborted exchanges", 1000, &|round| {
        let mut client = server.client();
        client.send("t AUTHENTICATE PLAIN\r\n");
        let line = client.line();
        assert!(line.starts_with('+'), "{line}");
        // Half of them say so, the others are gone.
        if round % 2 == 0 {
            client.send("*\r\n");
            assert!(client.answer("t").contains("t BAD"));
        }
    });
    attack("names of servers", 1000, &|round| {
        let mut stream = TcpStream::connect(server.imaps).unwrap();
        stream.set_read_timeout(Some(LONGEST)).unwrap();
        stream.write_all(&client_hello(&format!("host{round}.example.org"))).unwrap();
        let mut first = [0; 5];
        stream.read_exact(&mut first).unwrap();
        // A handshake goes on: it has chosen a certificate.
        assert_eq!(first[..2], [22, 3], "{first:?}");
    });
    // Last: an address with failures has to wait.
    attack("invalid base64", 4, &|round| {
        let mut client = server.client();
        let answer =
            client.command(&format!("AUTHENTICATE PLAIN {}", ["!!!", "AA=A", "A"][round % 3]));
        assert!(answer.contains("t BAD") || answer.contains("t NO"), "{answer}");
        client.send("t AUTHENTICATE PLAIN\r\n");
        let mut answer = client.line();
        if answer.starts_with('+') {
            client.send("=====\r\n");
            answer = client.answer("t");
        }
        assert!(answer.contains("t BAD") || answer.contains("t NO"), "{answer}");
    });
    wait_for("the end of all connections", || server.admin(&["sessions"]).is_empty().then_some(()));
}

/// Returns the first message of a handshake of TLS 1.2, with the name of a server.
fn client_hello(name: &str) -> Vec<u8> {
    let with_len = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat();
    let extension = |kind: u16, bytes: &[u8]| [&kind.to_be_bytes()[..], &with_len(bytes)].concat();
    let host = [&[0][..], &with_len(name.as_bytes())].concat();
    let extensions = [
        extension(0, &with_len(&host)),
        // The groups x25519 and secp256r1, uncompressed points.
        extension(10, &with_len(&[0, 0x1d, 0, 0x17])),
        extension(11, &[1, 0]),
        // Signatures by ECDSA and RSA.
        extension(13, &with_len(&[4, 3, 5, 3, 8, 4, 4, 1])),
    ];
    let suites = [0xc0, 0x2b, 0xc0, 0x2c, 0xc0, 0x2f, 0xc0, 0x30];
    let body =
        [&[3, 3][..], &[7; 32], &[0], &with_len(&suites), &[1, 0], &with_len(&extensions.concat())]
            .concat();
    let len = (body.len() as u32).to_be_bytes();
    let message = [&[1][..], &len[1..], &body].concat();
    [&[22, 3, 1][..], &with_len(&message)].concat()
}
