//! Headers, good and broken.

use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::Profile;
use super::body::{Body, put};
use super::names::{AGENTS, HOSTS, PEOPLE};
use super::random::{self, Random};
use super::text::push_base64;
use super::threads::Threads;
use crate::calendar::Calendar;

/// The most ids in `References`: the first and the nearest ones, as many programs do.
const REFERENCES_MAX: usize = 20;

/// Data of a message that its header needs.
pub(crate) struct Facts {
    pub(crate) threads: Threads,
    pub(crate) number: u64,
    pub(crate) date: i64,
    pub(crate) profile: Profile,
    pub(crate) list: &'static str,
}

/// A person's names.
#[derive(Clone, Copy)]
struct Person {
    name: &'static str,
    local: &'static str,
    host: &'static str,
}

impl Person {
    fn choose(random: &mut Random) -> Self {
        let (name, local) = PEOPLE[random.below(PEOPLE.len() as u64) as usize];
        Self { name, local, host: random.pick(&HOSTS) }
    }

    /// Returns the author of a message, which depends only on its number, so that answers can name
    /// the author of the message that they answer.
    fn author(threads: Threads, number: u64) -> Self {
        Self::choose(&mut Random::new(threads.seed, number, random::AUTHOR))
    }
}

/// Appends the header without the blank line, and returns the envelope sender.
pub(crate) fn write(facts: &Facts, body: &Body, random: &mut Random, out: &mut Vec<u8>) -> String {
    let author = Person::author(facts.threads, facts.number);
    let list = facts.list;
    let sender = if random.per_mille(500) {
        format!("{list}-bounces+{}@lists.example.org", facts.number)
    } else {
        format!("{}@{}", author.local, author.host)
    };
    put(out, format_args!("Return-Path: <{sender}>\n"));
    trace(facts, author, random, out);
    message_headers(facts, author, random, out);
    list_headers(facts, random, out);
    body.write_headers(out);
    oddities(random, out);
    sender
}

/// Appends the fields that relays put before the message's own header.
fn trace(facts: &Facts, author: Person, random: &mut Random, out: &mut Vec<u8>) {
    let list = facts.list;
    put(out, format_args!("Delivered-To: reader+{list}@example.org\n"));
    let hops = match facts.profile {
        Profile::Modern => 2 + random.below(2),
        Profile::Classic => 1 + random.below(2),
    };
    for hop in 0..hops {
        let stamp = Calendar::rfc5322(facts.date - hop as i64 * 2, 0);
        let (id, port) = (random.u64(), random.below(250));
        let from = random.pick(&HOSTS);
        put(
            out,
            format_args!(
                "Received: from {from} ({from} [192.0.2.{port}])\n\
                 \tby mx{hop}.example.org (Postfix) with ESMTPS id {:012X}\n\
                 \tfor <{list}@lists.example.org>; {stamp} (UTC)\n",
                id >> 16
            ),
        );
    }
    if facts.threads.modern() {
        authentication(facts, author, random, out);
    }
}

/// Appends signatures of hosts: ARC on a quarter of the mail, DKIM on most.
fn authentication(facts: &Facts, author: Person, random: &mut Random, out: &mut Vec<u8>) {
    let (date, host) = (facts.date, author.host);
    put(
        out,
        format_args!(
            "Authentication-Results: mx0.example.org;\n\
             \tdkim=pass (2048-bit key) header.d={host} header.i=@{host} header.b=\"{:08x}\"\n",
            random.u64() as u32
        ),
    );
    if random.per_mille(180) {
        let (seal, hash, signature) =
            (digits(random, 171), digits(random, 43), digits(random, 171));
        put(
            out,
            format_args!(
                "ARC-Seal: i=1; a=rsa-sha256; d=example.org; s=arc-20240116;\n\
                 \tt={date}; cv=none; b={seal}=\n\
                 ARC-Message-Signature: i=1; a=rsa-sha256; d=example.org;\n\
                 \ts=arc-20240116; t={date}; c=relaxed/simple;\n\tbh={hash}=;\n\
                 \th=From:To:Cc:Subject:Date:Message-ID:References:MIME-Version;\n\
                 \tb={signature}=\n\
                 ARC-Authentication-Results: i=1; mx0.example.org; dkim=pass header.d={host}\n"
            ),
        );
    }
    if random.per_mille(900) {
        put(
            out,
            format_args!(
                "DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/simple; d={host};\n\
                 \ts=k20201202; t={date};\n\tbh={}=;\n\
                 \th=Date:From:To:Cc:Subject:References:In-Reply-To:From;\n\tb=",
                digits(random, 43)
            ),
        );
        for _ in 0..5 {
            put(out, format_args!("{}\n\t ", digits(random, 67)));
        }
        put(out, format_args!("{}==\n", digits(random, 7)));
    }
}

fn digits(random: &mut Random, len: usize) -> String {
    let mut text = String::with_capacity(len);
    push_base64(random, len, &mut text);
    text
}

/// Appends the fields that the author's program writes.
fn message_headers(facts: &Facts, author: Person, random: &mut Random, out: &mut Vec<u8>) {
    let Facts { threads, number, list, .. } = *facts;
    date(facts, random, out);
    out.extend_from_slice(b"From: ");
    address(author, random, out);
    out.push(b'\n');
    if random.per_mille(8) {
        out.extend_from_slice(b"To: undisclosed-recipients:;\n");
    } else {
        recipients("To", 1 + random.below(2), Some(list), random, out);
    }
    let copies = if facts.threads.modern() { random.below(7) } else { random.below(2) };
    if copies > 0 {
        recipients("Cc", copies, None, random, out);
    }
    if random.per_mille(50) {
        put(out, format_args!("Reply-To: {list}@lists.example.org\n"));
    }
    if !random.per_mille(4) {
        subject(&threads.subject(number, list), random, out);
    }
    if !random.per_mille(3) {
        let name = if random.per_mille(700) { "Message-ID" } else { "Message-Id" };
        put(out, format_args!("{name}: {}\n", threads.message_id(number)));
    }
    references(facts, random, out);
    put(out, format_args!("{}\n", random.pick(&AGENTS)));
}

/// Appends `Date`, nearly always: a little before arrival, in some zone; sometimes late, obsolete
/// or broken.
fn date(facts: &Facts, random: &mut Random, out: &mut Vec<u8>) {
    let delay = match random.below(200) {
        0 => random.below(400_000) as i64,
        1 => -(random.below(90_000) as i64),
        _ => random.below(120) as i64,
    };
    let sent = facts.date - delay;
    let zone = [0, 0, 60, 120, -300, -420, 330, 540][random.below(8) as usize];
    let Calendar { year, month, day, hour, minute, second, .. } = Calendar::new(sent);
    match random.below(1000) {
        0..=4 => {}
        5 => put(out, format_args!("Date: Mon, 32 Foo 20xx 25:61:00 +0000\n")),
        6 => put(out, format_args!("Date: {}\n", Calendar::asctime(sent))),
        7 => put(
            out,
            format_args!("Date: {day} {month} {:02} {hour:02}:{minute:02} GMT\n", year % 100),
        ),
        8 => put(
            out,
            format_args!("Date: {day} {month} {year} {hour:02}:{minute:02}:{second:02} EST\n"),
        ),
        9 => put(out, format_args!("Date:\t{} (comment)\n", Calendar::rfc5322(sent, zone))),
        _ => put(out, format_args!("Date: {}\n", Calendar::rfc5322(sent, zone))),
    }
}

/// Appends an address list, folded after every second address.
fn recipients(name: &str, count: u64, list: Option<&str>, random: &mut Random, out: &mut Vec<u8>) {
    put(out, format_args!("{name}: "));
    for i in 0..count {
        if i > 0 {
            out.extend_from_slice(if i % 2 == 0 { b",\n\t" } else { b", " });
        }
        match list {
            Some(list) if i + 1 == count => put(out, format_args!("{list}@lists.example.org")),
            _ => address(Person::choose(random), random, out),
        }
    }
    out.push(b'\n');
}

/// Appends a mailbox; the name as encoded words where it needs them, rarely as raw 8-bit text.
fn address(person: Person, random: &mut Random, out: &mut Vec<u8>) {
    let Person { name, local, host } = person;
    if name.is_empty() {
        return put(out, format_args!("{local}@{host}"));
    }
    if random.per_mille(20) {
        return put(out, format_args!("{local}@{host} ({})", name.replace(['(', ')'], "")));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || " -".contains(c);
    if name.chars().all(plain) {
        put(out, format_args!("{name} "));
    } else if name.is_ascii() {
        put(out, format_args!("\"{}\" ", name.replace('"', "\\\"")));
    } else if random.per_mille(20) {
        put(out, format_args!("{name} "));
    } else {
        encoded_words(name, random, out);
        out.push(b' ');
    }
    put(out, format_args!("<{local}@{host}>"));
}

/// Appends `Subject`, encoded where necessary, folded where long, sometimes broken.
fn subject(subject: &str, random: &mut Random, out: &mut Vec<u8>) {
    out.extend_from_slice(b"Subject: ");
    if !subject.is_ascii() && !random.per_mille(30) {
        encoded_words(subject, random, out);
    } else if random.per_mille(3) {
        put(out, format_args!("=?utf-8?Q?{subject}"));
    } else {
        let mut column = 9;
        for (i, word) in subject.split(' ').enumerate() {
            if i > 0 {
                out.extend_from_slice(if column > 64 { b"\n " } else { b" " });
                column = if column > 64 { 1 } else { column + 1 };
            }
            out.extend_from_slice(word.as_bytes());
            column += word.len();
        }
    }
    out.push(b'\n');
}

/// Appends encoded words (RFC 2047) of at most 75 characters, as B or as Q.
fn encoded_words(text: &str, random: &mut Random, out: &mut Vec<u8>) {
    let base64 = random.per_mille(500);
    let mut rest = text;
    let mut first = true;
    while !rest.is_empty() {
        let cut = rest.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|at| *at <= 18);
        let (chunk, tail) = rest.split_at(cut.last().unwrap_or(rest.len()));
        if !first {
            out.extend_from_slice(b"\n ");
        }
        first = false;
        if base64 {
            out.extend_from_slice(b"=?UTF-8?B?");
            out.extend_from_slice(BASE64_STANDARD.encode(chunk).as_bytes());
        } else {
            out.extend_from_slice(b"=?utf-8?q?");
            for byte in chunk.bytes() {
                match byte {
                    b' ' => out.push(b'_'),
                    b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => out.push(byte),
                    _ => put(out, format_args!("={byte:02X}")),
                }
            }
        }
        out.extend_from_slice(b"?=");
        rest = tail;
    }
}

/// Appends the reference fields of an answer: mostly both, one of them, or neither.
fn references(facts: &Facts, random: &mut Random, out: &mut Vec<u8>) {
    let ancestors = facts.threads.ancestors(facts.number);
    let Some(parent) = ancestors.first() else { return };
    let parent_id = facts.threads.message_id(*parent);
    let style = random.below(100);
    if style < 93 {
        if style == 0 {
            let author = Person::author(facts.threads, *parent);
            let name = author.local;
            put(out, format_args!("In-Reply-To: Message from {name} of \"today\" {parent_id}\n"));
        } else {
            put(out, format_args!("In-Reply-To: {parent_id}\n"));
        }
    }
    if (5..97).contains(&style) {
        out.extend_from_slice(b"References:");
        let kept = ancestors.len().min(REFERENCES_MAX);
        if kept < ancestors.len() {
            let root = ancestors[ancestors.len() - 1];
            put(out, format_args!(" {}\n", facts.threads.message_id(root)));
        }
        for (i, ancestor) in ancestors[..kept].iter().rev().enumerate() {
            let fold = if i == 0 && kept == ancestors.len() { "" } else { "\n" };
            let fold = if out.ends_with(b"\n") { "" } else { fold };
            put(out, format_args!("{fold} {}", facts.threads.message_id(*ancestor)));
        }
        out.push(b'\n');
    }
}

/// Appends the fields that the list adds.
fn list_headers(facts: &Facts, random: &mut Random, out: &mut Vec<u8>) {
    let list = facts.list;
    put(
        out,
        format_args!("Precedence: list\nList-Id: The {list} list <{list}.lists.example.org>\n"),
    );
    if facts.threads.modern() {
        put(
            out,
            format_args!(
                "List-Unsubscribe: <https://lists.example.org/options/{list}>,\n\
                 \t<mailto:{list}-request@lists.example.org?subject=unsubscribe>\n\
                 List-Archive: <https://lists.example.org/pipermail/{list}/>\n\
                 List-Post: <mailto:{list}@lists.example.org>\n\
                 X-Spam-Status: No, score=-{}.{} required=5.0 tests=BAYES_00,\n\
                 \tDKIM_SIGNED,DKIM_VALID autolearn=ham version=4.0.0\n",
                random.below(5),
                random.below(10)
            ),
        );
    }
}

/// Appends invalid lines.
fn oddities(random: &mut Random, out: &mut Vec<u8>) {
    match random.below(500) {
        0 => out.extend_from_slice(b"this line is no header\n"),
        1 => out.extend_from_slice(b"X-Eight-Bit: caf\xe9 \xff\n"),
        2 => out.extend_from_slice(b"X-Empty:\nX-Space-Before-Colon : yes\n"),
        3 => {
            out.extend_from_slice(b"X-Long: ");
            out.resize(out.len() + 3_000, b'x');
            out.push(b'\n');
        }
        4 => out.extend_from_slice(b"Subject: a second subject\n"),
        _ => {}
    }
}
