//! Generated spam: the features that filters examine, in every encoding and half a dozen charsets.

use base64::{Engine as _, prelude::BASE64_STANDARD};

use crate::corpus::{Calendar, Corpus, Random, WORDS};

/// Words of spam.
const SPAM_WORDS: [&str; 32] = [
    "free",
    "money",
    "pills",
    "cheap",
    "offer",
    "guaranteed",
    "click",
    "winner",
    "casino",
    "loan",
    "mortgage",
    "refinance",
    "viagra",
    "V1AGRA",
    "discount",
    "limited",
    "urgent",
    "million",
    "dollars",
    "account",
    "password",
    "verify",
    "unsubscribe",
    "weight",
    "loss",
    "degree",
    "diploma",
    "replica",
    "watches",
    "software",
    "luxury",
    "bonus",
];
/// Beginnings of sentences.
const OPENINGS: [&str; 6] = [
    "Dear friend,",
    "Congratulations!!!",
    "ACT NOW -",
    "You have been selected:",
    "This is not spam.",
    "100% FREE $$$",
];
const AGENTS: [&str; 4] = [
    "X-Mailer: The Bat! (v1.52f) Business",
    "X-Mailer: Microsoft Outlook Express 5.50.4133.2400",
    "X-Priority: 1 (Highest)",
    "User-Agent: mailer/0.1",
];
/// Russian words in windows-1251 and Chinese ones in GB 2312, with their charsets.
const FOREIGN: [(&str, &[u8]); 2] = [
    (
        "windows-1251",
        b"\xc1\xe5\xf1\xef\xeb\xe0\xf2\xed\xee \xe4\xe5\xed\xfc\xe3\xe8 \xf1\xe5\xe9\xf7\xe0\xf1",
    ),
    (
        "gb2312",
        b"\xc3\xe2\xb7\xd1 \xb7\xa2\xc6\xb1 \xb4\xfa\xbf\xaa\xa3\xac\xc7\xeb\xc1\xaa\xcf\xb5",
    ),
];

/// Returns a message, which depends only on the seed and the number.
pub(super) fn message(seed: u64, number: u64) -> Vec<u8> {
    let mut random = Random::new(seed, number, 0);
    let random = &mut random;
    let mut out = Vec::new();
    header(seed, number, random, &mut out);
    match number % 8 {
        0 => add(&mut out, &["\n", &plain(random)]),
        1 => add(&mut out, &[HTML, "\n", &html(random)]),
        2 => add(
            &mut out,
            &[HTML, "Content-Transfer-Encoding: quoted-printable\n\n", &quoted(&html(random))],
        ),
        3 => {
            add(&mut out, &[HTML, "Content-Transfer-Encoding: base64\n\n"]);
            encoded(html(random).as_bytes(), &mut out);
        }
        4 => {
            add(&mut out, &["Content-Type: multipart/alternative; boundary=\"b=_1\"\n\n--b=_1\n"]);
            add(&mut out, &["Content-Type: text/plain\n\n", &plain(random), "\n--b=_1\n"]);
            add(&mut out, &[HTML, "\n", &html(random), "\n--b=_1--\n"]);
        }
        5 | 6 => {
            let (charset, text) = FOREIGN[(number % 2) as usize];
            add(&mut out, &["Content-Type: text/html; charset=", charset, "\n\n<p>"]);
            out.extend_from_slice(text);
            add(&mut out, &["</p>\n", &html(random), "<br>"]);
            out.extend_from_slice(&text.repeat(3));
            out.push(b'\n');
        }
        _ => {
            let (prices, address) = (1 + random.below(999), random.below(250));
            let text = plain(random);
            let text = format!(
                "V.I.A.G.R.A f.r.e.e only ${prices}.99!\nhttp://192.0.2.{address}/?id=%41%42\n{text}"
            );
            add(&mut out, &["\n", &text]);
        }
    }
    out
}

const HTML: &str = "MIME-Version: 1.0\nContent-Type: text/html; charset=\"iso-8859-1\"\n";

fn add(out: &mut Vec<u8>, texts: &[&str]) {
    texts.iter().for_each(|text| out.extend_from_slice(text.as_bytes()));
}

fn header(seed: u64, number: u64, random: &mut Random, out: &mut Vec<u8>) {
    let date = Calendar::rfc5322(Corpus::FIRST_DATE + (number * 7_200) as i64, 0);
    let (host, from) = (random.below(250), random.pick(&SPAM_WORDS));
    let mut subject = sentence(random, 5);
    if random.per_mille(300) {
        subject = subject.to_uppercase();
    }
    let agent = random.pick(&AGENTS);
    let text = format!(
        "Return-Path: <{from}{number}@bulk.example.com>\n\
         Received: from [203.0.113.{host}] (unknown [203.0.113.{host}])\n\
         \tby mx.example.org (8.11.6/8.11.6) with SMTP id s{seed}x{number}; {date}\n\
         From: \"{from} {number}\" <{from}{number}@bulk.example.com>\nTo: reader@example.org\n\
         Subject: {subject}\nDate: {date}\nMessage-ID: <{seed}.{number}@bulk.example.com>\n{agent}\n"
    );
    add(out, &[&text]);
}

fn sentence(random: &mut Random, words: usize) -> String {
    let mut text = String::new();
    for at in 0..words {
        let is_spam = random.per_mille(600);
        text.push_str(if at > 0 { " " } else { "" });
        text.push_str(if is_spam { random.pick(&SPAM_WORDS) } else { random.pick(&WORDS) });
    }
    text
}

fn plain(random: &mut Random) -> String {
    let mut text = format!("{}\n\n", random.pick(&OPENINGS));
    for _ in 0..3 + random.below(20) {
        text.push_str(&sentence(random, 9));
        text.push_str(if random.per_mille(200) { "!!!\n" } else { ".\n" });
    }
    text
}

/// Returns a page with the markup that spammers insert between the letters of words.
fn html(random: &mut Random) -> String {
    let mut page = String::from("<html><body bgcolor=\"#ffffff\">\n");
    for line in 0..3 + random.below(15) {
        let text = sentence(random, 8);
        page.push_str(&match random.below(6) {
            0 => format!("<p><b>{text}</b></p>\n"),
            1 => {
                format!("<a href=\"http://pills.example.com/buy?{line}&amp;x=1\">{text}</a><br>\n")
            }
            2 => format!("<!-- {text} -->{}\n", sentence(random, 2)),
            3 => format!("<font color=red size=+2>{}</font>\n", text.replace('a', "<x>a</x>")),
            4 => format!("{}&nbsp;&#36;{line}&#x21;\n", text.replace('e', "&#101;")),
            _ => format!("<img src=\"cid:{line}\" alt='{text}'>\n"),
        });
    }
    page.push_str("</body></html>\n");
    page
}

fn quoted(text: &str) -> String {
    let mut quoted = String::new();
    for line in text.lines() {
        let line = line.replace('=', "=3D");
        for (at, byte) in line.bytes().enumerate() {
            quoted.push_str(if at > 0 && at % 70 == 0 { "=\n" } else { "" });
            quoted.push(char::from(byte));
        }
        quoted.push('\n');
    }
    quoted
}

fn encoded(bytes: &[u8], out: &mut Vec<u8>) {
    for line in bytes.chunks(57) {
        out.extend_from_slice(BASE64_STANDARD.encode(line).as_bytes());
        out.push(b'\n');
    }
}
