//! Token streams of damaged mail, equal to `bogolexer -p`: real messages into which lines, tags,
//! encodings and the like were put, cut and shuffled.

use barid_bayes::{Options, Profile, Tokenizer};
use barid_testkit::corpora;
use barid_testkit::peers::Bogofilter;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use fastrand::Rng;

use crate::peer;

/// Number of mutated messages to compare.
const MUTATIONS: usize = 10_000;
/// Number of large messages to compare.
const LARGE: u64 = 100;
/// The arguments of bogolexer with which the messages are read in turn.
const ARGS: [&[&str]; 10] = [
    &[],
    &[],
    &[],
    &[],
    &[],
    &["-n"],
    &["--unicode=no"],
    &["-H"],
    &["--block-on-subnets=yes"],
    &["--multi-token-count=2"],
];
/// Longer messages are cut off, so that the changes are not lost in them.
const MESSAGE_LEN_MAX: usize = 6_000;

const HEADERS: &[&str] = &[
    "Subject: =?utf-8?q?caf=C3=A9_gratis?= and =?iso-8859-1?B?Y2Fm6Q==?=\n =?ISO-8859-15?q?=A4uro?= end\n",
    "Subject: pre=?us-ascii?q?joined?= =?koi8-r?b?8NLJ18XU?=\t=?x-none?q?wor=e4d?= =?utf-8?q?broken\n",
    "Subject: =?iso-2022-jp?B?GyRCJDMkcyRLJEEkTxsoQiBoZWxsbw==?= =?gb2312?B?xOO6ww==?=\n",
    "Subject: =?big5?B?p0GmbqFB?= =?utf-8?q?=3D=3Futf-8=3Fq=3Finner=5Fword=3F=3D?= tail\n",
    "Received: from mx.example.org ([192.168.1.20]) by host (8.9) id ABC123.x-y for <a@b>;\n\tMon, 1 Jan\n",
    "Received: from x ([127.0.0.1])\n id\n\t<queue.id-99> 10.0.0.300 1.2.3.4\n",
    "Return-Path: <bounce-12345-user=example.org@lists.example.com>\n",
    "Return-Path: <a-1#b-2c-user.name=exa-mple.org@l.com> x-y-z=q@r b-#12#-c=d@e-f\n",
    "Content-Type: text/html; charset=\"iso-8859-1\"\n",
    "Content-Type: text/html;\n charset=windows-1251; name=\"file name.txt\"\n",
    "Content-Type: multipart/mixed; boundary=\"xx=_yy (1)\"\n",
    "Content-Type: multipart/alternative; boundary=abc def; charset=utf-8\n",
    "Content-Type: application/octet-stream; name=x.bin\nContent-Disposition: attachment; filename=\"x y\"\n",
    "Content-type:TEXT/plain; Charset=US-ASCII\n",
    "Content-Type: message/rfc822\n",
    "Content-Type: x-strange/thing\n",
    "Content-Transfer-Encoding: base64\n",
    "Content-Transfer-Encoding: quoted-printable\n",
    "Content-Transfer-Encoding: x-uuencode\n",
    "CONTENT-TRANSFER-ENCODING:\tbase64 (comment)\n",
    "Content-Disposition: inline; filename=abc.txt\n",
    "X-Bogosity: Ham, tests=bogofilter\n folded line\n\tmore\n",
    "Message-Id: <abc.def@example.org>\n",
    "References: <1@x> <2@y>\n <3@z>\nIn-Reply-To: <q@w>\nDate: Mon, 1 Jan 2001\n",
    "X-Very-Long-Header-Name-That-Is-Longer-Than-Thirty: abcdefghijklmnopqrstuvwxyz0123456789\n",
    "To: caf\u{e9} <user.name+tag@example.co.uk>, \"Q. Uoted\" <x@y.z>\nCC: a--b, c..d\n",
    " \t\n",
    "continued without a field\n  folded text here $100.50 $5x\n",
    "\n",
];

const HTML: &[&str] = &[
    "<html><body><p>Some<b>bold</b>text <br/>line<br>next</p>word<i></i>",
    "Via<b>g</b>r<!-- x -->a che<font color=red size=2>ap</font>er ",
    "V<x>i<y>a<z>g<w>r<q>a <a href=\"http://ex%61mple.org/p%61th%2fto/%3cfoo%3e?x=%41%4\">link</a>",
    "&#86;&#105;&#97;&#103;&#114;&#x61; word&#32;next a&#300;b c&#x41zz; d&#xabcdef; e&#4294967361;",
    "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.0//EN\" \"http://www.w3.org/TR/\">after <more> text\n",
    "<!DOCTYPE HTML PUBLIC broken\nnext line > words\n",
    "<img src=\"cid:abc\" alt='pic ture'>after<img \n width=10>more",
    "word<unclosed tag with words\nand more\n",
    "word<b>x</b>\nword2<b></b> <i>word3</i><table border=0>cell</td>next<td>x",
    "<!-- comment with words and -- dashes\nover lines --><!loose comment>tail-->",
    "x<<y>>z<a>b<c <d>e</f>g abc<p>def abc<P ALIGN=left>def abc<pre>def abc</pre>def abc<pr>def",
    "word.<b>x a-<i>b c!<u>d</u> 1.2.3.4<b>5 $3<i>.50</i> wow!!!<h1>big</h1>",
    "\u{e9}t\u{e9}<b>\u{e9}</b>&eacute;&amp;&nbsp;x",
    "<font\tface=arial>ab<span style='x:y'>cd</span>ef</font>\n<a>gh</a><div>ij",
    "one<b\nclass=x>two<br\n>three<br >four",
];

const BODY: &[&str] = &[
    "-----BEGIN PGP SIGNATURE-----\nVersion: GnuPG v1\n\niD8DBQE9abc 1.2.3.4 $50 words\n=ab12\n-----END PGP SIGNATURE-----\n",
    "--xx=_yy (1)\n",
    "--xx=_yy (1)--\n",
    "--abc\n",
    "--abc--\nepilogue words here\n",
    "--not-a-boundary\n--abcde\n---\n-- \nsignature\n",
    "dGhpcyBpcyBiYXNlNjQgdGV4dCB3aXRoIHdvcmRz\r\n",
    "dGhpcyBpcyBiYXNlNjQgdGV4dCB3aXRoIHdvcmRzIHNwbGl0IGlu\nIHR3byBsaW5lcyB3b3Jk\nYWJj\nQQ==\nQUI=\nQ===x\n====\n",
    "PGI+Ym9sZDwvYj53b3JkIGFuZCA8aT5p\ndGFsaWM8L2k+IGVuZA==\n",
    "M=&AI<R!I<R!A('5U96YC;V1E9\"!L:6YE('=I=&@@=V]R9',@:6X@:70L(&%N\n begin 644 x\nend\n",
    "soft=\nbreak =3Db=C3=A9 =\nend=20 =zz=4 tail=3\n=\n=20\n",
    "192.168.1.300 1192.168.1.1 [10.0.0.1] 256.1.1.1 1.2.3.4.5 0001.2.3.4 25.255.249.199\n",
    "$1 $12.34 $.5 $1.x $1000000000000000000000000000000000 US$50 $20-25\n",
    "a.b.c don't wow!!! under_score a--b v14gra e-mail tail..end 'quoted' `tick` ~tilde~ x. y- z_ q'\n",
    "\u{4f60}\u{597d} \u{e9}\u{e8} na\u{ef}ve \u{1f600} mixed\u{e9}123\n",
    "nul\0byte\x01control\x7fdel\x0bvt\x0cff\rcr\n",
    ">From escaped\nXFrom not\n",
    "verylongwordthatislongerthanthirtycharacters short verylongwordthatislongerthanthirtycharacter.\n",
];

struct Source {
    messages: Vec<Vec<u8>>,
}

impl Source {
    fn load() -> Option<Self> {
        let mut messages = Vec::new();
        for (name, every) in [("spamassassin", 60_usize), ("dev-torture", 8), ("csdmc2010", 60)] {
            let every = corpora::either(name, every, every.div_ceil(10));
            for file in corpora::files(name)?.iter().step_by(every) {
                let mut message = corpora::read(file).unwrap();
                message.truncate(MESSAGE_LEN_MAX);
                messages.push(message);
            }
        }
        Some(Self { messages })
    }

    fn mutated(&self, rng: &mut Rng) -> Vec<u8> {
        let mut message = self.messages[rng.usize(..self.messages.len())].clone();
        if rng.u8(..4) == 0 {
            message.clear();
        }
        for _ in 0..rng.usize(1..12) {
            mutate(&mut message, rng);
        }
        // Files that begin like this are read as batches of messages.
        if message.starts_with(b"F") || message.starts_with(b"#") || message.starts_with(b"M") {
            message.insert(0, b'X');
        }
        // A count file in the place of mail.
        if is_count_file(&message) { b"Subject: words\n\nwords\n".to_vec() } else { message }
    }
}

fn is_count_file(message: &[u8]) -> bool {
    message.windows(10).any(|window| window.eq_ignore_ascii_case(b".MSG_COUNT"))
}

fn mutate(message: &mut Vec<u8>, rng: &mut Rng) {
    let at = rng.usize(..=message.len());
    let line = message[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let header_end = message.windows(2).position(|pair| pair == b"\n\n").unwrap_or(message.len());
    let in_header = message[..line.min(header_end)].iter().rposition(|byte| *byte == b'\n');
    let in_header = in_header.map_or(0, |end| end + 1);
    let pick = |list: &[&str], rng: &mut Rng| bytes(list[rng.usize(..list.len())], rng);
    match rng.u8(..16) {
        0..=2 => insert(message, in_header, &pick(HEADERS, rng)),
        3 => insert(message, line, &pick(HEADERS, rng)),
        4..=6 => insert(message, at, &pick(HTML, rng)),
        7..=8 => insert(message, line, &pick(BODY, rng)),
        9 => insert(message, at, &pick(BODY, rng)),
        10 => {
            let end = (at + rng.usize(..80)).min(message.len());
            drop(message.drain(at..end));
        }
        11 => {
            for _ in 0..rng.usize(1..6) {
                if let Some(byte) = message.get_mut(at + rng.usize(..40)) {
                    *byte = *rng
                        .choice(b"<>=?-_.&#;%/\n\n \t\"'$[]:@!0aA\x00\x80\xC3\xE9\xFF")
                        .unwrap();
                }
            }
        }
        12 => {
            let end = (at + rng.usize(..200)).min(message.len());
            let copy = message[at..end].to_vec();
            insert(message, line, &copy);
        }
        13 => *message = encoded(message, line, rng),
        14 => {
            let mut lines: Vec<_> = message.split_inclusive(|byte| *byte == b'\n').collect();
            let (first, second) =
                (rng.usize(..lines.len().max(1)), rng.usize(..lines.len().max(1)));
            if !lines.is_empty() {
                lines.swap(first, second);
            }
            *message = lines.concat();
        }
        _ => {
            let replaced = rng.bool();
            let ends: Vec<_> = message.split(|byte| *byte == b'\n').collect();
            *message = ends.join(if replaced { &b"\r\n"[..] } else { b"\n" });
        }
    }
}

/// Returns a fragment in UTF-8, in Latin-1 or with changed case.
fn bytes(fragment: &str, rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..6) {
        0 => fragment.chars().map(|character| u8::try_from(character).unwrap_or(b'?')).collect(),
        1 => fragment.to_ascii_uppercase().into_bytes(),
        2 => fragment.to_ascii_lowercase().into_bytes(),
        _ => fragment.as_bytes().to_vec(),
    }
}

fn insert(message: &mut Vec<u8>, at: usize, text: &[u8]) {
    message.splice(at..at, text.iter().copied());
}

/// Returns the message with up to 1,000 bytes from `start` on in a transfer encoding.
fn encoded(message: &[u8], start: usize, rng: &mut Rng) -> Vec<u8> {
    let mut to = message[..start].to_vec();
    let end = (start + rng.usize(..1000)).min(message.len());
    if rng.bool() {
        let width = 3 * rng.usize(1..30);
        for line in message[start..end].chunks(width) {
            to.extend_from_slice(BASE64_STANDARD.encode(line).as_bytes());
            to.push(b'\n');
        }
    } else {
        for byte in &message[start..end] {
            match byte {
                b'\n' if rng.u8(..3) == 0 => to.extend_from_slice(b"=\n"),
                b'\n' => to.push(b'\n'),
                _ if rng.u8(..6) == 0 => to.extend_from_slice(format!("={byte:02X}").as_bytes()),
                byte => to.push(*byte),
            }
        }
    }
    to.extend_from_slice(&message[end..]);
    to
}

#[test]
fn mutated_messages() {
    let Some(peer) = Bogofilter::new() else { return };
    let Some(source) = Source::load() else { return };
    let mut tokens = 0;
    let seeds = std::env::var("BARID_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = seeds.map_or(0..MUTATIONS, |seed: usize| seed..seed + 1);
    for seed in seeds.clone() {
        let mut rng = Rng::with_seed(seed as u64);
        let message = source.mutated(&mut rng);
        let args = ARGS[seed % (2 * ARGS.len()) / 2];
        tokens += peer::check(&peer, args, &message, &format!("seed {seed}"));
    }
    eprintln!("{} mutated messages, {tokens} tokens, all equal", seeds.len());
    assert!(seeds.len() == 1 || tokens > MUTATIONS * 100, "only {tokens} tokens");
}

/// The modern profile accepts any bytes, and the length of its tokens is bounded.
#[test]
fn modern_tokens() {
    let Some(source) = Source::load() else { return };
    let mut tokenizer = Tokenizer::new(Options::new(Profile::Modern));
    let (mut tokens, mut longest) = (0, 0);
    for seed in 0..MUTATIONS as u64 {
        let message = source.mutated(&mut Rng::with_seed(seed));
        tokenizer.tokens(&message, &mut |token| {
            tokens += 1;
            longest = longest.max(token.len());
            assert!(!token.is_empty() && !token.contains(&b'\n'), "seed {seed}");
        });
    }
    // A pair of words and its prefix, or a host and its prefix.
    assert!(longest <= 30 + 1 + 30 + 5, "{longest}");
    assert!(tokens > MUTATIONS * 100, "only {tokens} tokens");
}

/// Pieces of large messages, many of them without an end.
const PIECES: &[&[u8]] = &[
    b"alpha",
    b"caf\xE9",
    b"x.y.z",
    b"\n",
    b" ",
    b"$12.50",
    b"1.2.3.4",
    b"&#65;",
    b"&amp;",
    b"longlonglonglonglonglonglonglonglong",
    b"na\xC3\xAFve",
    b"\n--b\n",
    b"<",
    b"<!--",
    b"=3D",
    b"=\n",
    b"a=41=",
    b"\"",
    b"\n\n",
];
const ENDS: &[&[u8]] = &[b"<b>", b"</b>", b"-->", b">"];

/// Returns about `len` bytes of pieces.
fn pieces(rng: &mut Rng, len: usize, lists: &[&[&[u8]]]) -> Vec<u8> {
    let all: Vec<_> = lists.iter().flat_map(|list| list.iter()).collect();
    let mut text = Vec::new();
    while text.len() < len {
        text.extend_from_slice(all[rng.usize(..all.len())]);
        text.extend_from_slice([&b" "[..], b"", b"", b"\n"][rng.usize(..4)]);
    }
    text
}

/// Returns a message with a tag, a line or a word that just fits, or does not fit, in bogofilter's
/// buffer.
fn large(rng: &mut Rng) -> Vec<u8> {
    let subject = [&b"Subject: "[..], &pieces(rng, 5_000, &[PIECES])].concat();
    let head = [
        &b"Content-Type: text/html"[..],
        b"Content-Type: text/html; charset=windows-1251",
        b"Content-Type: text/html; charset=utf-8\nContent-Transfer-Encoding: quoted-printable",
        b"Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/html",
        b"Content-Type: text/html; charset=gb2312",
        &subject,
    ][rng.usize(..6)];
    let repeated =
        |rng: &mut Rng, byte: u8, min: usize, max: usize| vec![byte; rng.usize(min..max)];
    let body = match rng.u8(..6) {
        0 => [&b"word<"[..], &pieces(rng, 40_000, &[PIECES]), b">after "].concat(),
        1 => [&b"word<b"[..], &repeated(rng, b'x', 15_000, 40_000), b">joined "].concat(),
        2 => {
            let line = pieces(rng, rng.clone().usize(12_000..18_000), &[PIECES]);
            let line: Vec<u8> = line.into_iter().filter(|byte| *byte != b'\n').collect();
            [&repeated(rng, b'a', 100, 50_000)[..], b" tag<i ", &line, b">end\n"].concat()
        }
        3 => [&b"<b "[..], &repeated(rng, 0xE9, 1_000, 20_000), b">", &b"word<i>".repeat(2_000)]
            .concat(),
        4 => {
            let tag = pieces(rng, rng.clone().usize(14_000..17_000), &[PIECES]);
            let (one, two) = (repeated(rng, b'y', 50, 3_000), repeated(rng, b'z', 2_000, 2_001));
            [&b"x<u "[..], &tag, &one, b"\n", &two, b"\n", &pieces(rng, 3_000, &[PIECES]), b">"]
                .concat()
        }
        _ => {
            let one = repeated(rng, b'q', 14_000, 16_500);
            let (two, three) = (repeated(rng, b'r', 60, 4_000), repeated(rng, b's', 60, 2_000));
            [&b"w<"[..], &one, b"\n", &two, b"\n", &three, b" \n", &pieces(rng, 3_000, &[PIECES])]
                .concat()
        }
    };
    let tail = pieces(rng, 3_000, &[PIECES, ENDS]);
    [head, b"\n\n", &body, &tail].concat()
}

#[test]
fn large_messages() {
    let Some(peer) = Bogofilter::new() else { return };
    let mut tokens = 0;
    for seed in 0..LARGE {
        let message = large(&mut Rng::with_seed(seed));
        tokens += peer::check(&peer, &[], &message, &format!("seed {seed}"));
    }
    eprintln!("{LARGE} large messages, {tokens} tokens, all equal");
    assert!(tokens > 10_000, "{tokens}");
}
