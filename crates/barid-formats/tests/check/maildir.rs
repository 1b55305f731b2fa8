//! Damage of a Maildir.

use std::time::Duration;

use barid_vfs::{Host as _, Vfs};
use fastrand::Rng;

use super::world::{Box_, Case, Expected, View, expect, texts};

const UIDLIST: &str = "dovecot-uidlist";
const KEYWORDS: &str = "dovecot-keywords";
/// Age at which nobody is still writing a file.
const DAY: Duration = Duration::from_secs(24 * 3600);
type Damage = fn(&mut Box_, &mut Rng) -> Expected;

fn build(rng: &mut Rng) -> Box_ {
    let texts = texts(rng, "\n");
    let mailbox = Box_::new("maildir:/mail/box", "/mail/box", texts);
    for folder in ["new", "cur", "tmp"] {
        mailbox.disk.create_dir(&mailbox.path(folder), 0o700).unwrap();
    }
    let mut list = "3 V1700000000 N100 G0123456789abcdef0123456789abcdef\n".to_owned();
    for (number, text) in mailbox.texts.iter().enumerate() {
        mailbox.put(&name(number), text);
        list.push_str(&format!("{} :{}\n", 2 * number + 2, base(number)));
    }
    mailbox.put(UIDLIST, list.as_bytes());
    mailbox.put(KEYWORDS, b"0 todo\n1 Junk\n");
    mailbox
}

fn base(number: usize) -> String {
    format!("1546336800.M{number}P7.host")
}

fn name(number: usize) -> String {
    match number % 3 {
        0 => format!("new/{}", base(number)),
        1 => format!("cur/{}:2,FSa", base(number)),
        _ => format!("cur/{}:2,", base(number)),
    }
}

/// Returns the index of a message in `cur`.
fn some(mailbox: &Box_, rng: &mut Rng) -> usize {
    let number = rng.usize(..mailbox.texts.len() - 1);
    if number.is_multiple_of(3) { number + 1 } else { number }
}

fn rename(mailbox: &Box_, from: &str, to: &str) {
    mailbox.disk.rename(&mailbox.path(from), &mailbox.path(to)).unwrap();
}

/// Returns the offset of a line of the list of UIDs.
fn line(mailbox: &Box_, number: usize) -> usize {
    mailbox.find(UIDLIST, &format!("\n{} :", 2 * number + 2)) + 1
}

const CASES: &[(&str, Damage)] = &[
    ("no folder for what is delivered", |mailbox, _| {
        mailbox.disk.remove_dir(&mailbox.path("tmp")).unwrap();
        expect("folder-missing", "tmp", None)
    }),
    ("empty message", |mailbox, rng| {
        let number = some(mailbox, rng);
        mailbox.put(&name(number), b"");
        mailbox.disk.sleep(DAY);
        expect("empty", &name(number), None).lost([number])
    }),
    ("message of zeros", |mailbox, rng| {
        let number = some(mailbox, rng);
        mailbox.put(&name(number), &vec![0; rng.usize(1..9000)]);
        mailbox.disk.sleep(DAY);
        expect("zeros", &name(number), None).lost([number])
    }),
    ("name without `:2,`", |mailbox, rng| {
        let number = some(mailbox, rng);
        let to = format!("cur/{}", base(number));
        rename(mailbox, &name(number), &to);
        expect("no-info", &to, None)
    }),
    ("flags in `new`", |mailbox, rng| {
        let number = some(mailbox, rng);
        let to = format!("new/{}:2,S", base(number));
        rename(mailbox, &name(number), &to);
        expect("flags-in-new", &to, None)
    }),
    ("flags out of order", |mailbox, rng| {
        let number = some(mailbox, rng);
        let to = format!("cur/{}:2,SFS", base(number));
        rename(mailbox, &name(number), &to);
        expect("flags-order", &to, None)
    }),
    ("name without a base", |mailbox, rng| {
        let number = some(mailbox, rng);
        rename(mailbox, &name(number), "cur/:2,S");
        expect("name", "cur/:2,S", None)
    }),
    ("name with a line end", |mailbox, rng| {
        let number = some(mailbox, rng);
        let to = format!("cur/{}\nx:2,S", base(number));
        rename(mailbox, &name(number), &to);
        expect("name", &to, None)
    }),
    ("size in a name", |mailbox, rng| {
        let number = some(mailbox, rng);
        let to = format!("cur/{},S=7:2,S", base(number));
        rename(mailbox, &name(number), &to);
        expect("size-in-name", &to, None).hopeless()
    }),
    ("message with two names", |mailbox, rng| {
        let number = some(mailbox, rng);
        let to = format!("cur/{}:2,ST", base(number));
        mailbox.disk.hard_link(&mailbox.path(&name(number)), &mailbox.path(&to)).unwrap();
        let last = name(number).max(to);
        expect("linked", &last, None).hopeless()
    }),
    ("two messages of one name", |mailbox, rng| {
        let number = some(mailbox, rng);
        let text = b"Message-ID: <twin@example.org>\n\ntwin\n".to_vec();
        mailbox.put(&format!("new/{}", base(number)), &text);
        mailbox.texts.push(text);
        expect("same-name", &format!("new/{}", base(number)), None)
    }),
    ("never delivered", |mailbox, _| {
        mailbox.put("tmp/1.2.host", b"half of it");
        mailbox.disk.sleep(Duration::from_secs(48 * 3600));
        expect("tmp-old", "tmp/1.2.host", None)
    }),
    ("first line of the UIDs", |mailbox, _| {
        mailbox.patch(UIDLIST, 2, b"?");
        expect("uidlist-header", UIDLIST, 0)
    }),
    ("line of the UIDs", |mailbox, rng| {
        let number = some(mailbox, rng);
        let at = line(mailbox, number);
        mailbox.patch(UIDLIST, at as u64, b"\0");
        expect("uidlist-line", UIDLIST, at as u64)
    }),
    ("last line of the UIDs", |mailbox, _| {
        let at = line(mailbox, mailbox.texts.len() - 1);
        mailbox.patch(UIDLIST, at as u64, b"\0");
        expect("uidvalidity", UIDLIST, 0)
    }),
    ("next UID is no number", |mailbox, _| {
        mailbox.patch(UIDLIST, 15, b"x");
        expect("uidlist-header", UIDLIST, 0)
    }),
    ("UIDs cut in a UID", |mailbox, _| {
        let at = line(mailbox, mailbox.texts.len() - 1);
        let len = mailbox.get(UIDLIST).len();
        mailbox.splice(UIDLIST, at + 1..len, b"");
        expect("uidvalidity", UIDLIST, 0)
    }),
    ("UID twice", |mailbox, rng| {
        let number = some(mailbox, rng);
        let at = line(mailbox, number);
        let len = mailbox.get(UIDLIST)[at..].iter().position(|byte| *byte == b' ').unwrap();
        mailbox.splice(UIDLIST, at..at + len, format!("{}", 2 * number).as_bytes());
        expect("uidlist-order", UIDLIST, None)
    }),
    ("name twice", |mailbox, rng| {
        let number = some(mailbox, rng);
        let len = mailbox.get(UIDLIST).len();
        mailbox.patch(UIDLIST, len as u64, format!("99 :{}\n", base(number)).as_bytes());
        expect("uidlist-twice", UIDLIST, line(mailbox, number) as u64)
    }),
    ("field that is none", |mailbox, rng| {
        let number = some(mailbox, rng);
        let at = line(mailbox, number);
        let field = at + mailbox.get(UIDLIST)[at..].iter().position(|b| *b == b':').unwrap();
        mailbox.splice(UIDLIST, field..field, b"x7 ");
        expect("uidlist-field", UIDLIST, at as u64)
    }),
    ("UIDs cut", |mailbox, _| {
        let len = mailbox.get(UIDLIST).len();
        let at = line(mailbox, mailbox.texts.len() - 1);
        mailbox.splice(UIDLIST, len - 4..len, b"");
        expect("uidlist-end", UIDLIST, at as u64)
    }),
    ("line of the keywords", |mailbox, _| {
        mailbox.patch(KEYWORDS, 0, b"\0\0");
        expect("keywords-line", KEYWORDS, 0)
    }),
    ("letter of two keywords", |mailbox, _| {
        mailbox.patch(KEYWORDS, 14, b"0 later\n");
        expect("keywords-twice", KEYWORDS, 14)
    }),
    ("keyword twice", |mailbox, _| {
        mailbox.patch(KEYWORDS, 14, b"7 todo\n");
        expect("keywords-twice", KEYWORDS, 14)
    }),
    ("keyword without a name", |mailbox, rng| {
        let number = some(mailbox, rng);
        rename(mailbox, &name(number), &format!("cur/{}:2,Sz", base(number)));
        expect("keyword-name", KEYWORDS, None).hopeless()
    }),
    ("folder among the messages", |mailbox, _| {
        mailbox.disk.create_dir(&mailbox.path("cur/folder"), 0o700).unwrap();
        expect("not-a-file", "cur/folder", None).hopeless()
    }),
];

pub(super) fn cases() -> Vec<Case> {
    let case = |(name, damage): &(&'static str, Damage)| Case {
        format: "maildir",
        name,
        build,
        damage: *damage,
    };
    CASES.iter().map(case).collect()
}

#[test]
fn what_was_just_begun_is_left_alone() {
    let mut rng = Rng::with_seed(1);
    for bytes in [b"".as_slice(), &[0; 9]] {
        let mailbox = build(&mut rng);
        mailbox.put(&name(1), bytes);
        let view = View::of(&mailbox.disk, &mailbox.spec);
        assert_eq!(view.check().unwrap().damages, []);
        assert_eq!(view.repair().unwrap().kept, None);
        assert_eq!(mailbox.get(&name(1)), bytes);
    }
}
