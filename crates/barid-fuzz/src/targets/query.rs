//! Questions about mail and the columns that answer them: `barid-query`, and the items of FETCH.

use barid::fetch::{FetchItem, FetchItems};
use barid_imap::search::{looks_like_imap, parse_imap};
use barid_message::Section;
use barid_query::search::{
    Day, Facts, Matcher, MatcherContext, MessageView, NumberSet, Scratch, SearchProgram,
    ShortOptions, parse_short_with,
};
use barid_query::{
    KeyColumns, LinkColumns, NO_ID, Profile, SortKey, SortProgram, SortView, ThreadAlgorithm,
    ThreadColumns, ThreadState, Threads, Window, sort, sort_window, threads, threads_by_subject,
    threads_from_state,
};
use barid_types::{FlagSet, InternalDate, Keyword, KeywordMask, KeywordTable, ModSeq, Uid};

use crate::seeds::SEARCHED;

const ALGORITHMS: [ThreadAlgorithm; 3] =
    [ThreadAlgorithm::References, ThreadAlgorithm::Refs, ThreadAlgorithm::OrderedSubject];
/// A Monday in 2024, for searches relative to the current time.
const NOW: i64 = 1_717_400_000;

/// Arguments of SEARCH in IMAP's syntax; a program that parses is evaluated.
pub(crate) fn search_imap(bytes: &[u8]) {
    if let Ok(request) = parse_imap(bytes) {
        evaluate(&request.program);
    }
    let text = String::from_utf8_lossy(bytes);
    let _ = looks_like_imap(&text);
    if let Ok(set) = NumberSet::parse(&text) {
        let ranges = set.resolve(1_000);
        assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0), "{ranges:?}");
    }
}

/// A search in the short form.
pub(crate) fn search_short(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for fold_accents in [false, true] {
        let options = ShortOptions { today: Day::in_zone(NOW, 0), fold_accents };
        if let Ok(program) = parse_short_with(&text, options) {
            evaluate(&program);
        }
    }
}

/// Evaluates a program on one message: from all of its bytes, the answer is known.
fn evaluate(program: &SearchProgram) {
    let mut keywords = KeywordTable::default();
    if let Some(keyword) = Keyword::new("todo") {
        keywords.intern(&keyword).expect("because the table is empty");
    }
    let context = MatcherContext {
        now: NOW,
        exists: 9,
        greatest_uid: 90,
        keywords: &keywords,
        saved: &[(3, 5), (7, 7)],
    };
    let matcher = Matcher::new(program, &context);
    let facts = Facts {
        seq: 4,
        uid: Uid::MIN,
        flags: FlagSet::from_bits(5),
        keywords: KeywordMask(1),
        modseq: ModSeq::MAX,
        internal_date: InternalDate { unix_seconds: NOW - 86_400, zone_minutes: 120 },
        sent_date: None,
        size_least: SEARCHED.len() as u64,
        size_most: SEARCHED.len() as u64,
    };
    let mut view = MessageView::new(facts, SEARCHED);
    let answer = matcher.matches(&mut view, &mut Scratch::default());
    assert!(answer.is_some(), "a message with all of its bytes leaves {program:?} open");
}

/// Items of FETCH, and sections.
pub(crate) fn fetch(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(items) = FetchItems::parse(&text) {
        assert!(!items.items().is_empty());
        assert_eq!(items.with_uid().items().iter().filter(is_uid).count(), 1);
    }
    if let Ok(section) = Section::parse(&text) {
        let (structure, _) = barid_message::body_structure(SEARCHED);
        section.of(SEARCHED, &structure);
        section.decoded(SEARCHED, &structure);
    }
}

fn is_uid(item: &&FetchItem) -> bool {
    matches!(item, FetchItem::Uid)
}

/// Numbers read from bytes, zeros after their end.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn byte(&mut self) -> u8 {
        let first = self.0.split_first();
        self.0 = first.map_or(&[], |(_, rest)| rest);
        first.map_or(0, |(byte, _)| *byte)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Keys of rows, from bytes.
struct Keys {
    numbers: Vec<i64>,
    texts: Vec<Vec<u8>>,
}

impl SortView for Keys {
    fn numbers(&self, key: SortKey, rows: &[u32], out: &mut Vec<i64>) {
        let turn = key as i64;
        out.extend(rows.iter().map(|row| self.numbers[*row as usize].wrapping_mul(2 * turn + 1)));
    }

    fn strings(&self, _: SortKey, rows: &[u32], visit: &mut dyn FnMut(&[u8])) {
        rows.iter().for_each(|row| visit(&self.texts[*row as usize]));
    }
}

/// A sort program in the first line, then the keys of the rows; orders are permutations, and a
/// window is an end of the order.
pub(crate) fn sorting(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(&bytes[..end]);
    let Ok(program) = text.parse::<SortProgram>() else { return };
    let mut keys = Keys { numbers: Vec::new(), texts: Vec::new() };
    for row in bytes[end..].chunks(5) {
        let mut number = [0; 8];
        number[..row.len()].copy_from_slice(row);
        let number = i64::from_le_bytes(number);
        keys.numbers.push(if row[0] & 1 == 0 { number } else { number.wrapping_shl(31) - 7 });
        keys.texts.push(row[..row.len().min(2)].to_vec());
    }
    let rows: Vec<u32> = (0..keys.numbers.len() as u32).collect();
    for profile in [Profile::Rfc, Profile::Dovecot] {
        let program = program.read_by(profile);
        let order = sort(&rows, &program, &keys);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, rows);
        let few = rows.len() / 3;
        assert_eq!(sort_window(&rows, &program, &keys, Window::First(few)), order[..few]);
        let last = &order[order.len() - few..];
        assert_eq!(sort_window(&rows, &program, &keys, Window::Last(few)), last);
    }
}

/// Columns of a mailbox, from bytes.
#[derive(Default)]
struct Columns {
    ids: Vec<u32>,
    ref_ends: Vec<u32>,
    refs: Vec<u32>,
    subjects: Vec<u32>,
    replies: Vec<bool>,
    dates: Vec<i64>,
}

/// Greatest number of an id or subject, so that they repeat.
const NUMBERS_MAX: u32 = 64;

impl Columns {
    fn of(bytes: &[u8]) -> Self {
        let mut numbers = Numbers(bytes);
        let mut columns = Self::default();
        while !numbers.is_empty() {
            let shape = numbers.byte();
            let id = u32::from(numbers.byte()) % NUMBERS_MAX;
            columns.ids.push(if shape & 7 == 0 { NO_ID } else { id });
            for _ in 0..shape >> 5 {
                columns.refs.push(u32::from(numbers.byte()) % NUMBERS_MAX);
            }
            columns.ref_ends.push(columns.refs.len() as u32);
            columns.subjects.push(u32::from(shape >> 3 & 3));
            columns.replies.push(shape & 1 == 1);
            columns.dates.push(i64::from(numbers.byte()) - 128);
        }
        columns
    }

    fn columns(&self) -> ThreadColumns<'_> {
        let links = LinkColumns {
            ids: &self.ids,
            ref_ends: &self.ref_ends,
            refs: &self.refs,
            id_count: NUMBERS_MAX,
        };
        let keys = KeyColumns {
            subjects: &self.subjects,
            subject_count: 4,
            replies: &self.replies,
            dates: &self.dates,
        };
        ThreadColumns { links, keys }
    }
}

/// Threading: every row is in one thread, once; the stored state gives the same threads, and what
/// is stored is read again.
pub(crate) fn threading(bytes: &[u8]) {
    let columns = Columns::of(bytes);
    let all = columns.columns();
    for profile in [Profile::Rfc, Profile::Dovecot, Profile::CClient] {
        let mut state = ThreadState::new(profile);
        state.extend(&all.links).expect("because the columns fit together");
        let bytes = state.to_bytes();
        let state = ThreadState::from_bytes(&bytes).expect("because it was just written");
        for algorithm in ALGORITHMS {
            let found = threads(algorithm, &all, profile).expect("because the columns fit");
            let mut rows: Vec<u32> = found.nodes().filter_map(|node| node.row).collect();
            rows.sort_unstable();
            assert!(rows.iter().copied().eq(0..columns.ids.len() as u32), "{algorithm:?}");
            let kept = threads_from_state(algorithm, &state, &all.keys);
            assert_eq!(kept.map(|kept| imap(&kept)), Ok(imap(&found)), "{algorithm:?}");
            let stored = Threads::from_bytes(&found.to_bytes()).map(|stored| imap(&stored));
            assert_eq!(stored, Ok(imap(&found)));
        }
    }
    drop(threads_by_subject(&all.keys));
}

fn imap(threads: &Threads) -> Vec<u8> {
    let mut out = Vec::new();
    threads.write_imap(|row| row + 1, &mut out);
    out
}

/// Stored threads and the stored state of threading, which other programs may have damaged.
pub(crate) fn stored_threads(bytes: &[u8]) {
    if let Ok(threads) = Threads::from_bytes(bytes) {
        imap(&threads);
        let again = Threads::from_bytes(&threads.to_bytes());
        assert_eq!(again.map(|again| again.to_bytes()), Ok(threads.to_bytes()));
    }
    if let Ok(mut state) = ThreadState::from_bytes(bytes) {
        let rows = state.rows() as usize;
        if rows > 1 << 16 {
            return;
        }
        let (subjects, replies, dates) = (vec![0; rows], vec![false; rows], vec![0; rows]);
        let keys =
            KeyColumns { subjects: &subjects, subject_count: 1, replies: &replies, dates: &dates };
        for algorithm in ALGORITHMS {
            drop(threads_from_state(algorithm, &state, &keys).map(|threads| imap(&threads)));
        }
        let id_count = state.id_count();
        let more = LinkColumns { ids: &[0], ref_ends: &[1], refs: &[0], id_count };
        drop(state.extend(&more));
    }
}

/// Columns of threading as a seed: a chain, a loop, and equal subjects.
pub(crate) fn thread_seeds() -> Vec<Vec<u8>> {
    let chain = (1..20).flat_map(|id| [0x21, id, id - 1, id]).collect();
    let circle = vec![0x21, 1, 2, 9, 0x21, 2, 3, 8, 0x21, 3, 1, 7, 0x61, 4, 1, 2, 3, 0];
    let subjects = (0..24).flat_map(|row| [row << 3 & 0x18 | row & 1, row, row]).collect();
    vec![chain, circle, subjects]
}

/// Stored threads and states of the seeds of threading.
pub(crate) fn stored_thread_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for seed in thread_seeds() {
        let columns = Columns::of(&seed);
        let mut state = ThreadState::new(Profile::Rfc);
        state.extend(&columns.columns().links).expect("because the columns fit together");
        seeds.push(state.to_bytes());
        let found = threads(ThreadAlgorithm::References, &columns.columns(), Profile::Rfc);
        seeds.extend(found.map(|found| found.to_bytes()));
    }
    seeds
}
