//! Property tests: mutated messages never cause a panic, and satisfy the assertions of `exercise`.

use super::exercise;

const ROUNDS: u32 = 50_000;

/// Pieces of mail from which messages are put together.
const PIECES: [&str; 70] = [
    "=?utf-7?b?K0FQWS0=?=",
    "=?cp437?q?=FF?=",
    "; charset=utf-7",
    "; charset=utf-16",
    "; charset=x",
    "&#x41;<b",
    "\n",
    "\r\n",
    "\n\n",
    " ",
    "\t",
    ":",
    ";",
    ",",
    "\"",
    "\\",
    "(",
    ")",
    "<",
    ">",
    "@",
    "[",
    "]",
    "=",
    "?=",
    "=?utf-8?q?",
    "=?iso-2022-jp?b?GyRCRnwbKEI=?=",
    "=?utf-8?b?w6k=?=",
    "=C3=A9",
    "=\n",
    "\0",
    "\u{e9}",
    "\u{1f600}",
    "From: ",
    "To: ",
    "Subject: ",
    "Date: ",
    "Message-ID: ",
    "References: ",
    "In-Reply-To: ",
    "Status: RO\n",
    "X-UID : 4\n",
    "Content-Length: 9\n",
    "Re:",
    "Fwd:",
    "(fwd)",
    "[x]",
    "[fwd:",
    "Mon, 1 Jan 2001 10:00:00 +0100",
    "Jan",
    "GMT",
    "<a@b>",
    "<\"a\"@[b]>",
    "A Group:;",
    "Content-Type: multipart/mixed; boundary=b\n\n",
    "Content-Type: multipart/digest; boundary=c\n\n",
    "Content-Type: message/rfc822\n\n",
    "Content-Type: text/html\n\n",
    "--b\n",
    "--b--\n",
    "--c\n",
    "--c--\n",
    "Content-Transfer-Encoding: base64\n",
    "Content-Transfer-Encoding: quoted-printable\n",
    "aGVsbG8=",
    "filename*0*=utf-8''%C3;",
    "filename*1=x;",
    "Content-Disposition: attachment;",
    "<p>&eacute;",
    "x",
];

fn piece(random: &mut fastrand::Rng) -> &'static [u8] {
    PIECES[random.usize(..PIECES.len())].as_bytes()
}

#[test]
fn mutated_messages_keep_their_promises() {
    let mut random = fastrand::Rng::with_seed(5322);
    let mut message = Vec::new();
    for round in 0..ROUNDS {
        if round % 20 == 0 {
            message = (0..random.usize(..60)).flat_map(|_| piece(&mut random).to_vec()).collect();
        }
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..=message.len());
            let to = (at + random.usize(..8)).min(message.len());
            match random.u8(..3) {
                0 => drop(message.splice(at..to, piece(&mut random).iter().copied())),
                1 => drop(message.drain(at..to)),
                _ if at < to => message[at] = random.u8(..),
                _ => message.push(random.u8(..)),
            }
        }
        exercise(&message);
    }
}

/// Bytes with a meaning in the grammars of fields, and a little text.
const SIGNS: &[u8] = b"()()\\\\\"\"<<>>@@,,;;::..[]=?_*'%-+ \t\r\n\0\xe9\xc3\xa912aZT/&#";

/// The fields that have a grammar.
const NAMES: [&str; 12] = [
    "Date",
    "From",
    "To",
    "Cc",
    "Sender",
    "Subject",
    "Message-ID",
    "References",
    "In-Reply-To",
    "Content-Type",
    "Content-Disposition",
    "Content-Language",
];

#[test]
fn fields_made_of_signs_keep_their_promises() {
    let mut random = fastrand::Rng::with_seed(2047);
    for _ in 0..ROUNDS {
        let mut message = Vec::new();
        for name in NAMES {
            message.extend_from_slice(name.as_bytes());
            message.extend_from_slice(match random.u8(..8) {
                0 => b": =?utf-8?q?",
                1 => b": 1 Jan 2001",
                2 => b": text/html; a*0*=utf-8''",
                3 => b": a@b, <",
                _ => b": ",
            });
            message.extend((0..random.usize(..24)).map(|_| SIGNS[random.usize(..SIGNS.len())]));
            message.push(b'\n');
        }
        exercise(&message);
    }
}
