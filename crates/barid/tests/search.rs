//! Searching: the passes together find what each message alone would match.

use barid::ThreadAlgorithm;
use barid::query::{
    Day, Facts, Matcher, MatcherContext, MessageView, Scratch, SearchProgram, ShortOptions,
    parse_imap, parse_short_with,
};
use barid::{
    ChangeOptions, ChangeRequest, FlagChange, Keyword, Mailbox, ReadAs, SortProgram, Uid, UidSet,
    Window, WriteWhen, sorted_together,
};
use fastrand::Rng;

use crate::search_programs::Matter;
use crate::world::World;

const MESSAGES: u64 = 150;
const PROGRAMS: usize = 300;

/// The facts of every message.
fn facts(mailbox: &Mailbox) -> Vec<Facts> {
    let rows: Vec<u32> = (0..mailbox.len()).collect();
    let mut facts = Vec::new();
    let add = &mut |message: &barid::Summary<'_>| {
        facts.push(Facts {
            seq: message.row + 1,
            uid: message.uid,
            flags: message.flags,
            keywords: message.keywords,
            modseq: message.modseq,
            internal_date: message.internal_date,
            sent_date: message.sent_date,
            size_least: 0,
            size_most: u64::MAX,
        });
        true
    };
    mailbox.summaries(&rows, add).unwrap();
    facts
}

/// Returns the result of a program if every message is read.
fn by_reading(mailbox: &mut Mailbox, program: &SearchProgram) -> Vec<u32> {
    let (facts, mut scratch) = (facts(mailbox), Scratch::default());
    let keywords = mailbox.keywords().clone();
    let context = MatcherContext {
        now: 0,
        exists: mailbox.len(),
        greatest_uid: facts.last().map_or(0, |facts| facts.uid.get()),
        keywords: &keywords,
        saved: &[],
    };
    let matcher = Matcher::new(program, &context);
    let mut found = Vec::new();
    for facts in facts {
        let bytes = mailbox.read(facts.uid, ReadAs::Message).unwrap().bytes;
        let view = &mut MessageView::new(facts, &bytes);
        if matcher.matches(view, &mut scratch).unwrap() {
            found.push(facts.seq - 1);
        }
    }
    found
}

fn search(mailbox: &mut Mailbox, program: &str) -> Vec<u32> {
    let program = parse_imap(program.as_bytes()).unwrap().program;
    let found = mailbox.search(&program, &UidSet::new()).unwrap();
    assert!(found.unreadable.is_empty());
    found.rows
}

fn check(mut world: World) {
    world.deliver(MESSAGES);
    world.wait();
    let mut mailbox = world.open();
    let (mut random, mut matter) = (Rng::with_seed(4), Matter::default());
    for facts in facts(&mailbox) {
        let bytes = mailbox.read(facts.uid, ReadAs::Message).unwrap().bytes;
        matter.learn(&bytes, facts.internal_date.unix_seconds, &mut random);
    }
    let mut found_any = 0;
    for _ in 0..PROGRAMS {
        let text = matter.program(&mut random).text;
        let program = parse_imap(&text).unwrap().program;
        let found = mailbox.search(&program, &UidSet::new()).unwrap().rows;
        assert_eq!(found, by_reading(&mut mailbox, &program), "{}", String::from_utf8_lossy(&text));
        found_any += usize::from(!found.is_empty() && found.len() < MESSAGES as usize);
    }
    assert!(found_any > PROGRAMS / 5, "{found_any}");
}

#[test]
fn a_maildir_is_searched() {
    check(World::maildir(31));
}

#[test]
fn an_mbox_is_searched() {
    check(World::mbox(32));
}

fn short(text: &str, fold_accents: bool) -> SearchProgram {
    parse_short_with(text, ShortOptions { today: Day(0), fold_accents }).unwrap()
}

#[test]
fn patterns_are_the_same_in_the_cache_and_in_the_message() {
    let mut found_any = 0;
    for mut world in [World::maildir(36), World::mbox(37)] {
        world.deliver(MESSAGES);
        world.wait();
        let mut mailbox = world.open();
        for query in [
            "subject:/^re:/",
            "subject:/\\w$/",
            "subject:/\\s$/",
            "subject:/^$/",
            "subject:\"re a*\"~8",
            "from:/<[a-m].*@/",
            "from:a*",
            "to:/,/ or cc:/,/",
            "id:/^<[0-9a-f]/",
            "message-id:/>$/",
            "references:/> </",
            "list-id:/./ or x-mailer:/./",
            "header:Received=/from/",
            "/^received: from/",
            "body:/^>.*$/",
            "body:the*",
            "body:\"the a*\"~3",
            "filename:/[.]/",
            "filename:a",
            "mimetype:text/html",
            "is:spam or mimetype:image/*",
        ] {
            for folds in [false, true] {
                let program = short(query, folds);
                let found = mailbox.search(&program, &UidSet::new()).unwrap();
                assert!(found.unreadable.is_empty());
                assert_eq!(found.rows, by_reading(&mut mailbox, &program), "{query}");
                found_any += usize::from(!found.rows.is_empty());
            }
        }
    }
    assert!(found_any >= 30, "{found_any}");
}

#[test]
fn found_messages_are_sorted_as_the_mailbox_is() {
    let mut compared = 0;
    for mut world in [World::maildir(39), World::mbox(40)] {
        world.deliver(MESSAGES);
        world.wait();
        let mut mailbox = world.open();
        let some: Vec<u32> = (0..mailbox.len()).filter(|row| row % 3 > 0).collect();
        let (first, second): (Vec<u32>, Vec<u32>) = some.iter().partition(|row| **row < 70);
        for keys in [
            &["date"][..],
            &["reverse:date"],
            &["subject", "reverse:date"],
            &["from", "arrival"],
            &["reverse:displayfrom"],
            &["size"],
        ] {
            let program = SortProgram::parse(keys).unwrap();
            let whole = mailbox.sorted(&program, Window::All).unwrap().rows;
            let expected: Vec<u32> = whole.into_iter().filter(|row| some.contains(row)).collect();
            let among = mailbox.sorted_among(&program, &some).unwrap();
            assert_eq!(among.rows, expected, "{keys:?}");
            let parts = [(&*mailbox, &first[..]), (&*mailbox, &second[..])];
            let together = sorted_together(&parts, &program).unwrap();
            let rows: Vec<u32> = together.iter().map(|(_, row)| *row).collect();
            assert_eq!(rows, expected, "{keys:?}");
            let is_own = |(part, row): &(usize, u32)| (*row < 70) == (*part == 0);
            assert!(together.iter().all(is_own), "{keys:?}");
            compared += 1;
        }
    }
    assert_eq!(compared, 12);
}

#[test]
fn a_thread_is_found_by_each_of_its_messages() {
    let mut world = World::mbox(38);
    world.deliver(MESSAGES);
    world.wait();
    let mut mailbox = world.open();
    let threads = mailbox.threads(ThreadAlgorithm::References).unwrap();
    let mut of_row = vec![0; mailbox.len() as usize];
    let mut number = 0;
    for node in threads.nodes() {
        number += usize::from(node.depth == 0);
        if let Some(row) = node.row {
            of_row[row as usize] = number;
        }
    }
    let mut longest = 0;
    for row in 0..mailbox.len() {
        let uid = mailbox.uid_of(row).unwrap();
        let program = short(&format!("thread:{uid}"), false);
        let found = mailbox.search(&program, &UidSet::new()).unwrap().rows;
        let is_same = |other: &u32| of_row[*other as usize] == of_row[row as usize];
        let expected: Vec<u32> = (0..mailbox.len()).filter(is_same).collect();
        assert_eq!(found, expected, "{uid}");
        longest = longest.max(found.len());
    }
    assert!(longest > 1);
    let none = mailbox.search(&short("thread:100000", false), &UidSet::new()).unwrap();
    assert!(none.rows.is_empty());
}

#[test]
fn what_is_saved_and_what_is_pending_counts() {
    let mut world = World::mbox(33);
    world.deliver(5);
    world.wait();
    let mut mailbox = world.open();
    let saved: UidSet = [2, 4].into_iter().filter_map(Uid::new).collect();
    let program = parse_imap(b"$ NOT UID 4").unwrap().program;
    assert_eq!(mailbox.search(&program, &saved).unwrap().rows, [1]);
    assert_eq!(search(&mut mailbox, "$"), [0_u32; 0]);
    let before = search(&mut mailbox, "KEYWORD wanted");
    let add_keywords = vec![Keyword::new("wanted").unwrap()];
    let change = FlagChange { add_keywords, ..FlagChange::default() };
    let flags = vec![(Uid::new(3).unwrap(), change)];
    let later = ChangeOptions { write: WriteWhen::Pending, ..ChangeOptions::default() };
    mailbox
        .change(&ChangeRequest { flags: flags.into(), ..ChangeRequest::default() }, &later)
        .unwrap();
    assert_eq!(mailbox.pending(), 1);
    assert_eq!((before, search(&mut mailbox, "KEYWORD Wanted")), (vec![], vec![2]));
}

#[test]
fn a_message_that_went_is_not_found() {
    let mut world = World::maildir(34);
    world.deliver(20);
    world.wait();
    let mut mailbox = world.open();
    assert_eq!(search(&mut mailbox, "BODY \"\"").len(), 20);
    assert_eq!(search(&mut mailbox, "HEADER x-nothing a").len(), 0);
    barid_vfs::Vfs::remove_file(&world.memory, &world.files()[7]).unwrap();
    assert_eq!(search(&mut mailbox, "NOT TEXT nosuchword").len(), 19);
    assert_eq!(mailbox.len(), 20);
    mailbox.refresh().unwrap();
    assert_eq!(mailbox.len(), 19);
}

#[test]
fn an_empty_mailbox_has_no_matches() {
    let mut mailbox = World::mbox(35).open();
    for program in ["ALL", "1:*", "UID *", "TEXT a", "NOT TEXT a"] {
        assert_eq!(search(&mut mailbox, program), [0_u32; 0], "{program}");
    }
}
