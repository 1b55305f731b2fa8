//! A mail server's exchange with the milter, byte for byte: the packets of Postfix 3.7 with
//! `milter_protocol=6` for one message.

use std::io::{Read as _, Write as _};

use super::Daemon;

/// Returns a packet.
fn packet(letter: u8, data: &[u8]) -> Vec<u8> {
    let len = u32::try_from(data.len() + 1).unwrap().to_be_bytes();
    [&len[..], &[letter], data].concat()
}

/// Sends bytes, and checks the answer.
fn exchange(stream: &mut std::net::TcpStream, said: &[u8], expected: &[u8]) {
    stream.write_all(said).unwrap();
    let mut answer = vec![0; expected.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer.escape_ascii().to_string(), expected.escape_ascii().to_string());
}

/// The offer of Postfix: all actions, and all steps that it knows.
const OFFERED: [u32; 3] = [6, 0x1FF, 0x1F_FFFF];
/// The agreement: fields are added and changed; connections, HELO, recipients, DATA and unknown
/// commands are left out; all other steps except body chunks are not answered; chunks may be
/// skipped, and values keep their leading space.
const AGREED: [u32; 3] = [6, 0x11, 0x17_F78B];

fn numbers(numbers: [u32; 3]) -> Vec<u8> {
    packet(b'O', &numbers.map(u32::to_be_bytes).concat())
}

/// Returns the packets of one message, up to its end.
fn message(word: &str, own_fields: &[&str]) -> Vec<u8> {
    let mut said = packet(b'D', b"Mi\x004C2YBk0\0{mail_addr}\0a@b.example\0");
    said.extend(packet(b'M', b"<a@b.example>\0SIZE=400\0"));
    for field in own_fields {
        said.extend(packet(b'L', format!("{field}\0 Ham, tests=bogofilter\n\tmine\0").as_bytes()));
    }
    said.extend(packet(b'L', format!("Subject\0 {word} 3\0").as_bytes()));
    said.extend(packet(b'L', b"From\0 a@b.example\0"));
    said.extend(packet(b'N', b""));
    said
}

fn changed(own_fields: u32, line: &str) -> Vec<u8> {
    let mut expected = Vec::new();
    for number in (1..=own_fields).rev() {
        expected.extend(packet(b'm', &[&number.to_be_bytes()[..], b"X-Bogosity\0\0"].concat()));
    }
    expected.extend(packet(b'h', format!("X-Bogosity\0 {line}\0").as_bytes()));
    expected
}

/// Returns the line with the filter's result for such a message.
fn line_of(daemon: &Daemon, word: &str) -> String {
    let text = format!(
        "Return-Path: <a@b.example>\nSubject: {word} 3\nFrom: a@b.example\n\nsome {word} of day3\n"
    );
    let args = ["spam", "classify", "--wordlist", "wordlist.db", "--json"];
    let run = daemon.world.run_with_input(&args, text.as_bytes());
    let found: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    let name = match found["status"].as_str().unwrap() {
        "spam" => "Spam",
        "ham" => "Ham",
        _ => "Unsure",
    };
    let spamicity = found["spamicity"].as_f64().unwrap();
    format!("{name}, tests=bogofilter, spamicity={spamicity:.6}, version=1.2.5")
}

#[test]
fn a_mail_servers_messages_get_our_field() {
    let daemon = Daemon::start(&["--milter", "inet:127.0.0.1:0"]);
    let (spam, ham) = (line_of(&daemon, "pills"), line_of(&daemon, "minutes"));
    assert!(spam.starts_with("Spam, ") && ham.starts_with("Ham, "), "{spam}; {ham}");
    let mut stream = daemon.milter();
    exchange(&mut stream, &numbers(OFFERED), &numbers(AGREED));
    let goes_on = packet(b'c', b"");
    // A spoofed field, twice, in different case.
    stream.write_all(&message("pills", &["X-Bogosity", "x-bogosity"])).unwrap();
    exchange(&mut stream, &packet(b'B', b"some pills of day3\r\n"), &goes_on);
    let expected = [changed(2, &spam), goes_on.clone()].concat();
    exchange(&mut stream, &packet(b'E', b""), &expected);
    // An aborted message, and another on the same connection; the end packet contains the body.
    stream.write_all(&message("pills", &["X-Bogosity"])).unwrap();
    stream.write_all(&packet(b'A', b"")).unwrap();
    stream.write_all(&message("minutes", &[])).unwrap();
    let expected = [changed(0, &ham), goes_on.clone()].concat();
    exchange(&mut stream, &packet(b'E', b"some minutes of day3\r\n"), &expected);
    // Another client over the same connection.
    stream.write_all(&packet(b'K', b"")).unwrap();
    stream.write_all(&message("minutes", &[])).unwrap();
    exchange(&mut stream, &packet(b'E', b"some minutes of day3\r\n"), &expected);
    stream.write_all(&packet(b'Q', b"")).unwrap();
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
    assert_eq!(daemon.end(), "");
}

#[test]
fn a_mail_server_of_few_words_is_answered_each() {
    let daemon = Daemon::start(&["--milter", "inet:127.0.0.1:0", "--reject-spam"]);
    let mut stream = daemon.milter();
    // An old sendmail: no step can be left out.
    exchange(&mut stream, &numbers([2, 0x3F, 0]), &numbers([2, 0x11, 0]));
    let goes_on = packet(b'c', b"");
    let connect = packet(b'C', b"host.example\x004\x00\x19127.0.0.1\0");
    for said in [connect, packet(b'H', b"host\0"), packet(b'M', b"<a@b.example>\0")] {
        exchange(&mut stream, &said, &goes_on);
    }
    exchange(&mut stream, &packet(b'R', b"<c@d.example>\0"), &goes_on);
    exchange(&mut stream, &packet(b'L', b"Subject\0pills 3\0"), &goes_on);
    exchange(&mut stream, &packet(b'L', b"From\0a@b.example\0"), &goes_on);
    exchange(&mut stream, &packet(b'N', b""), &goes_on);
    exchange(&mut stream, &packet(b'B', b"some pills of day3\r\n"), &goes_on);
    let rejected = packet(b'y', b"550 5.7.1 This message looks like spam\0");
    exchange(&mut stream, &packet(b'E', b""), &rejected);
    assert_eq!(daemon.end(), "");
}
