//! No answer depends on the content of the cache: every question, in every format, to caches that
//! were filled in different ways.

use std::path::Path;
use std::sync::Arc;

use barid::fetch::FetchItems;
use barid::query::parse_imap;
use barid::{
    ChangeOptions, ChangeRequest, CreateOptions, Flag, FlagSet, Format, FormatName, InternalDate,
    Mailbox, MailboxSpec, NewMessage, OpenOptions, SortProgram, ThreadAlgorithm, Uid, UidSet,
    Window,
};
use barid_testkit::corpus::Corpus;
use barid_vfs::{Host as _, MemVfs, Timestamp, Vfs};
use fastrand::Rng;

use crate::arena::{add, expunge, flag, memory};

fn formats() -> impl Iterator<Item = Format> {
    let own_names = FormatName::all().filter(|name| name.name() == name.format().name());
    own_names.map(FormatName::format)
}

const KEYS: [&str; 9] =
    ["arrival", "cc", "date", "from", "size", "subject", "to", "displayfrom", "displayto"];

/// Requests of an IMAP client for a message; the mod-sequence is the cache's own.
const ITEMS: [&str; 16] = [
    "FLAGS INTERNALDATE",
    "RFC822.SIZE",
    "ENVELOPE",
    "BODY",
    "BODYSTRUCTURE",
    "FULL",
    "BODY[]",
    "BODY[HEADER]",
    "BODY[TEXT]<3.40>",
    "BODY[1]",
    "BODY[1.MIME]",
    "BINARY[1]",
    "BINARY.SIZE[2]",
    "EMAILID",
    "FLAGS PREVIEW EMAILID",
    "BODYSTRUCTURE RFC822.SIZE BODY[HEADER.FIELDS.NOT (RECEIVED)]",
];

/// Keys of every cost and cause.
const QUERIES: [&str; 24] = [
    "ALL",
    "UNSEEN",
    "KEYWORD todo",
    "SINCE 1-Jan-2020",
    "SENTBEFORE 1-Jan-2020",
    "OLDER 1000000",
    "UID 3:9",
    "2:5,8",
    "LARGER 200",
    "SMALLER 200",
    "LARGER 16500",
    "SMALLER 30000",
    "NOT LARGER 70000",
    "FROM example",
    "TO \"undisclosed-recipients:;\"",
    "CC x",
    "SUBJECT the",
    "SUBJECT tail",
    "HEADER Message-ID 1",
    "HEADER X-Mark kept",
    "BODY line",
    "TEXT From",
    "OR LARGER 20000 SUBJECT the",
    "SUBJECT long LARGER 100",
];

/// A mailbox of a format in memory.
struct World {
    vfs: Arc<dyn Vfs>,
    memory: MemVfs,
    spec: MailboxSpec,
}

impl World {
    fn new(format: Format) -> Self {
        let memory = memory();
        let vfs: Arc<dyn Vfs> = Arc::new(memory.clone());
        let spec = MailboxSpec::parse(&format!("{}:/box", format.name()));
        let (path, state) = (Path::new("/box"), Path::new("/state"));
        barid::create(&vfs, path, format, &CreateOptions::default(), state).unwrap();
        Self { vfs, memory, spec }
    }

    fn open(&self, cache: Option<&str>) -> Mailbox {
        let now = self.memory.now().unix_nanos;
        self.memory.set_now(Timestamp { unix_nanos: now + 5_000_000_000 });
        let cache = cache.map(|name| Path::new("/").join(name));
        let options = OpenOptions::new(cache, "/state".into());
        Mailbox::open_in(Arc::clone(&self.vfs), &self.spec, &options).unwrap()
    }

    fn change(&self, cache: Option<&str>, request: &ChangeRequest<'_>) {
        self.open(cache).change(request, &ChangeOptions::default()).unwrap();
    }
}

fn append(world: &World, cache: Option<&str>, messages: &[Vec<u8>], first: usize) {
    let new = messages.iter().enumerate().map(|(at, bytes)| NewMessage {
        bytes,
        internal_date: Some(InternalDate {
            unix_seconds: 1_600_000_000 + 1000 * (first + at) as i64,
            zone_minutes: 0,
        }),
        flags: FlagSet::from_bits((first + at) as u8 & 0b1111),
        ..NewMessage::default()
    });
    let appends: Vec<NewMessage<'_>> = new.collect();
    world.change(cache, &ChangeRequest { appends: &appends, ..ChangeRequest::default() });
}

/// Returns messages whose order by stored bytes differs from that by RFC822.SIZE, and messages that
/// caches treat differently: headers too long for them, fields that occur twice, lines that an mbox
/// quotes.
fn messages() -> Vec<Vec<u8>> {
    let corpus = Corpus::new(5, 1000);
    let mut all: Vec<Vec<u8>> = (0..12).map(|number| corpus.message(number).bytes).collect();
    let long = "word ".repeat(9000);
    let header = |name: &str| {
        format!("From: {name}@example.org\nSubject: the {name}\nMessage-ID: <{name}@x>\n")
    };
    let texts = [
        header("lines") + "\n" + &"\n".repeat(20_000),
        header("one-line") + "\n" + &"x".repeat(24_000) + "\n",
        header("quoted") + "\n" + &"From me\n>From you\n".repeat(1200),
        header("few-lines") + "\n" + &"line of a text\n".repeat(1700),
        header("long") + &format!("X-Long: {long}\n\n{long}\n"),
        header("twice") + "To: a@b, undisclosed-recipients:;\nTo: c@d\nX-Mark: kept\n\nb\n",
        header("owned") + "Status: RO\nX-Keywords: todo\n\n" + &"a line\n".repeat(8000),
        format!("Subject: long {long}\nReferences: <lines@x> {}\n\nx\n", "<r@x> ".repeat(9000)),
        header("no-body"),
        "\nno header\n".to_owned(),
        header("tail") + "Subject: tail \n\nno line end",
        header("parts")
            + "Content-Type: multipart/mixed; boundary=b\n\n--b\n\none\n--b\nContent-Type: \
               message/rfc822\n\nSubject: inner\n\ntwo\n--b\nContent-Transfer-Encoding: base64\n\n"
            + &"aGVsbG8=\n".repeat(4000)
            + "--b--\n",
    ];
    all.extend(texts.iter().map(|text| text.clone().into_bytes()));
    all.push(texts[3].replace('\n', "\r\n").into_bytes());
    // A part known completely from the first read is between others.
    let half = all.len().div_ceil(2);
    let (early, late) = all.split_at(half);
    let mut mixed = Vec::new();
    for (at, first) in early.iter().enumerate() {
        mixed.push(first.clone());
        mixed.extend(late.get(at).cloned());
    }
    mixed
}

/// Fills a cache.
type Fill = fn(&mut Mailbox);

const FILLS: [(&str, Fill); 8] = [
    ("populated", |_| {}),
    ("some-sizes", |mailbox| {
        fetch(mailbox, "RFC822.SIZE", 3);
    }),
    ("some-structures", |mailbox| {
        fetch(mailbox, "BODYSTRUCTURE", 4);
    }),
    ("some-email-ids", |mailbox| {
        fetch(mailbox, "EMAILID", 2);
    }),
    ("some-bodies", |mailbox| {
        fetch(mailbox, "BODY[]", 5);
    }),
    ("all-sizes", |mailbox| assert!(mailbox.fill_rfc822_sizes().unwrap().is_empty())),
    ("orders", |mailbox| {
        KEYS.iter().for_each(|key| drop(sorted(mailbox, key, Window::All)));
        mailbox.threads(ThreadAlgorithm::References).unwrap();
    }),
    ("all", |mailbox| {
        let mut random = Rng::with_seed(1);
        answers(mailbox, &mut random);
    }),
];

fn uids(mailbox: &Mailbox) -> Vec<Uid> {
    mailbox.uids().unwrap().into_iter().filter_map(Uid::new).collect()
}

/// Fetches items of every `step`th message.
fn fetch(mailbox: &mut Mailbox, items: &str, step: usize) -> String {
    let uids: Vec<Uid> = uids(mailbox).into_iter().step_by(step).collect();
    let items = FetchItems::parse(items).unwrap().with_uid();
    let mut out = Vec::new();
    let report =
        mailbox.fetch(&uids, &items, &|fetched, out| fetched.write_imap(out), &mut |some| {
            out.extend_from_slice(some);
            true
        });
    let report = report.unwrap();
    assert_eq!((report.fetched, report.unreadable.len()), (uids.len() as u64, 0));
    String::from_utf8_lossy(&out).into_owned()
}

fn sorted(mailbox: &mut Mailbox, key: &str, window: Window) -> Vec<u32> {
    let sorted = mailbox.sorted(&SortProgram::parse([key]).unwrap(), window).unwrap();
    assert!(sorted.unreadable.is_empty());
    sorted.rows
}

/// A question by its name.
#[derive(Clone, Copy, Debug)]
enum Question {
    Sort(&'static str, bool, Window),
    Thread(ThreadAlgorithm),
    Search(&'static str),
    Fetch(&'static str, usize),
    List,
    Status,
}

fn questions() -> Vec<Question> {
    let windows = [Window::All, Window::First(5), Window::Last(5)];
    let threads =
        [ThreadAlgorithm::References, ThreadAlgorithm::Refs, ThreadAlgorithm::OrderedSubject];
    let mut all = vec![Question::List, Question::Status];
    for key in KEYS {
        all.extend(windows.map(|window| Question::Sort(key, false, window)));
        all.push(Question::Sort(key, true, Window::All));
    }
    all.extend(threads.map(Question::Thread));
    all.extend(QUERIES.map(Question::Search));
    all.extend(ITEMS.iter().flat_map(|items| [1, 6].map(|step| Question::Fetch(items, step))));
    all
}

fn answer(mailbox: &mut Mailbox, question: Question) -> String {
    match question {
        Question::Sort(key, reverse, window) => {
            let key = if reverse { format!("reverse:{key}") } else { key.to_owned() };
            format!("{:?}", sorted(mailbox, &key, window))
        }
        Question::Thread(algorithm) => {
            let mut out = Vec::new();
            mailbox.threads(algorithm).unwrap().write_imap(|row| row + 1, &mut out);
            String::from_utf8(out).unwrap()
        }
        Question::Search(query) => {
            let program = parse_imap(query.as_bytes()).unwrap().program;
            let found = mailbox.search(&program, &UidSet::new()).unwrap();
            assert!(found.unreadable.is_empty());
            format!("{:?}", found.rows)
        }
        Question::Fetch(items, step) => fetch(mailbox, items, step),
        Question::List => {
            let rows: Vec<u32> = (0..mailbox.len()).collect();
            let mut out = String::new();
            let list = mailbox.summaries(&rows, &mut |message| {
                let names: Vec<&str> = message.keyword_names().collect();
                out += &format!(
                    "{} {:?} {:?} {} {:?} {names:?} {:?}\n",
                    message.uid,
                    message.internal_date,
                    message.sent_date,
                    message.size,
                    message.flags,
                    message.fields
                );
                true
            });
            list.unwrap();
            out
        }
        Question::Status => {
            let status = mailbox.status();
            let numbers = (status.uidvalidity, status.uidnext, status.size_bytes);
            let counts = (status.messages, status.recent, status.unseen, status.pending);
            format!("{numbers:?} {counts:?}")
        }
    }
}

/// Returns all answers; the questions are asked in any order.
fn answers(mailbox: &mut Mailbox, random: &mut Rng) -> Vec<(String, String)> {
    let mut questions = questions();
    random.shuffle(&mut questions);
    let put = questions.into_iter().map(|asked| (format!("{asked:?}"), answer(mailbox, asked)));
    let mut answers: Vec<_> = put.collect();
    answers.sort_unstable();
    answers
}

fn check(world: &World, cache: &str, expected: &[(String, String)], random: &mut Rng) -> usize {
    // Opened again, it reads the data that the first one stored.
    for opening in 1..=2 {
        let found = answers(&mut world.open(Some(cache)), random);
        for ((name, expected), (_, found)) in expected.iter().zip(&found) {
            let what = format!("{:?} {cache}, opening {opening}: {name}", world.spec);
            assert!(found == expected, "{what}\n{}", differing(expected, found));
        }
    }
    2 * expected.len()
}

/// Returns the offset at which two texts begin to differ.
fn differing(expected: &str, found: &str) -> String {
    let same = expected.bytes().zip(found.bytes()).take_while(|(a, b)| a == b).count();
    let from = |text: &str| {
        let bytes = &text.as_bytes()[same.saturating_sub(80).min(text.len())..];
        String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned()
    };
    format!("expected ...{}\nfound    ...{}", from(expected), from(found))
}

#[test]
fn no_answer_depends_on_the_cache() {
    let messages = messages();
    let (early, late) = messages.split_at(messages.len() * 2 / 3);
    let mut compared = 0;
    for format in formats() {
        let world = World::new(format);
        append(&world, None, early, 0);
        for (name, fill) in FILLS {
            fill(&mut world.open(Some(&format!("old-{name}"))));
        }
        // One of those caches follows the changes, the others find them.
        let changer = Some("old-all-sizes");
        append(&world, changer, late, early.len());
        world.change(changer, &flag(&[2, 5, 6], &add(Flag::Flagged)));
        world.change(changer, &expunge(&[4, 15]));
        let mut random = Rng::with_seed(3);
        let expected = answers(&mut world.open(None), &mut random);
        for (name, fill) in FILLS {
            compared += check(&world, &format!("old-{name}"), &expected, &mut random);
            let new = format!("new-{name}");
            fill(&mut world.open(Some(&new)));
            compared += check(&world, &new, &expected, &mut random);
        }
        sizes_are_those_of_texts(&mut world.open(None));
    }
    eprintln!("{compared} answers compared");
    assert!(compared > 15_000);
}

fn sizes_are_those_of_texts(mailbox: &mut Mailbox) {
    let mut sizes = Vec::new();
    for uid in uids(mailbox) {
        let items = FetchItems::parse("RFC822.SIZE BODY[]").unwrap();
        let fetch = |mailbox: &mut Mailbox, items: &FetchItems| {
            let mut text = Vec::new();
            let write = |fetched: &barid::fetch::Fetched<'_>, out: &mut Vec<u8>| {
                let len = fetched.section(&barid::message::Section::default(), None).unwrap().len();
                let sizes = format!("{} {len}", fetched.rfc822_size().unwrap());
                out.extend_from_slice(sizes.as_bytes());
            };
            let take = &mut |some: &mut Vec<u8>| {
                text.extend_from_slice(some);
                true
            };
            mailbox.fetch(&[uid], items, &write, take).unwrap();
            String::from_utf8(text).unwrap()
        };
        let text = fetch(mailbox, &items);
        let (told, len) = text.split_once(' ').unwrap();
        assert_eq!(told, len, "UID {uid}");
        sizes.push(len.parse::<u64>().unwrap());
    }
    let rows = sorted(mailbox, "size", Window::All);
    let in_order: Vec<u64> = rows.iter().map(|row| sizes[*row as usize]).collect();
    assert!(in_order.is_sorted(), "{in_order:?}");
    assert!(!sizes.is_sorted());
}
