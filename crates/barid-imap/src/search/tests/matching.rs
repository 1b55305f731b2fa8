//! Programs as they match messages.

use barid_query::search::{
    Cost, Facts, FactsView, Matcher, MatcherContext, MessageView, ProgramBuilder, Scratch,
    SearchKey, SearchNode, SearchProgram,
};
use barid_types::{
    Flag, FlagSet, InternalDate, Keyword, KeywordMask, KeywordTable, ModSeq, SentDate, Uid,
};

use crate::search::parse_imap;

const MESSAGE: &[u8] =
    b"From: \"Ann Lee\" <ann@x.example>\nTo: bob@y\nSubject: =?utf-8?q?Caf=C3=A9?=\n \
    plan\nX-Loop: one\nX-Loop: two\nStatus: RO\n\nHello, world\n";

fn facts() -> Facts {
    Facts {
        seq: 3,
        uid: Uid::new(7).unwrap(),
        flags: [Flag::Seen, Flag::Recent].into_iter().collect(),
        keywords: KeywordMask(2),
        modseq: ModSeq::new(50).unwrap(),
        internal_date: InternalDate { unix_seconds: 86_400 * 10, zone_minutes: -60 },
        sent_date: Some(SentDate { unix_seconds: 86_400 * 5 - 1, zone_minutes: 60 }),
        size_least: 100,
        size_most: 200,
    }
}

fn matcher(program: &str) -> Matcher {
    let keywords: KeywordTable = ["$Junk", "todo"].into_iter().filter_map(Keyword::new).collect();
    let context = MatcherContext {
        now: 86_400 * 10 + 100,
        exists: 3,
        greatest_uid: 7,
        keywords: &keywords,
        saved: &[(5, 9)],
    };
    Matcher::new(&parse_imap(program.as_bytes()).unwrap().program, &context)
}

/// Checks the answers from the facts alone and from the message.
fn check(program: &str, by_facts: Option<bool>, by_message: bool) {
    let (matcher, mut scratch) = (matcher(program), Scratch::default());
    let found = matcher.matches(&mut FactsView(facts()), &mut scratch);
    assert_eq!(found, by_facts, "{program} by facts");
    let found = matcher.matches(&mut MessageView::new(facts(), MESSAGE), &mut scratch);
    assert_eq!(found, Some(by_message), "{program}");
    if let Some(by_facts) = by_facts {
        assert_eq!(by_facts, by_message, "{program}: views contradict each other");
    }
}

#[test]
fn facts_answer() {
    let yes = |program| check(program, Some(true), true);
    let no = |program| check(program, Some(false), false);
    yes("ALL");
    no("NOT ALL");
    yes("SEEN RECENT");
    no("NEW");
    no("OLD");
    yes("KEYWORD TODO");
    no("KEYWORD $junk");
    no("KEYWORD unknown");
    yes("UNKEYWORD unknown");
    yes("3");
    yes("*");
    yes("1:3");
    no("1:2,4");
    yes("UID 7");
    yes("UID 9:*");
    no("UID 8");
    yes("UIDAFTER 6");
    no("UIDAFTER 7");
    yes("UIDBEFORE 8");
    no("UIDBEFORE 7");
    yes("SAVEDON 10-Jan-1970");
    no("SAVEDSINCE 11-Jan-1970");
    no("SAVEDATESUPPORTED");
    yes("NOT SAVEDATESUPPORTED");
    yes("$");
    yes("MODSEQ 50");
    no("MODSEQ 51");
    // 23:00 on the day before, by its own clock.
    yes("ON 10-Jan-1970");
    yes("BEFORE 11-Jan-1970");
    no("SINCE 11-Jan-1970");
    yes("SENTON 6-Jan-1970");
    no("SENTBEFORE 6-Jan-1970");
    yes("OLDER 100");
    no("OLDER 101");
    yes("YOUNGER 100");
    no("YOUNGER 99");
    yes("LARGER 99");
    no("SMALLER 100");
}

#[test]
fn a_message_without_date_is_sent_on_no_day() {
    let undated = Facts { sent_date: None, ..facts() };
    for program in ["SENTBEFORE 1-Jan-2030", "SENTSINCE 1-Jan-1900", "SENTON 1-Jan-1970"] {
        let found = matcher(program).matches(&mut FactsView(undated), &mut Scratch::default());
        assert_eq!(found, Some(false), "{program}");
    }
}

#[test]
fn the_message_answers() {
    check("FROM ann", None, true);
    check("FROM \"\\\"ann lee\\\" <ann@x\"", None, true);
    check("FROM bob", None, false);
    check("TO \"\"", None, true);
    check("CC \"\"", None, false);
    check("SUBJECT \"caf\u{e9} plan\"", None, true);
    check("SUBJECT cafe", None, true);
    check("HEADER x-loop TWO", None, true);
    check("HEADER x-loop \"\"", None, true);
    check("HEADER status R", None, false);
    check("HEADER SUBJECT plan", None, true);
    check("BODY world", None, true);
    check("BODY plan", None, false);
    check("TEXT plan TEXT world NOT TEXT mars", None, true);
    check("LARGER 150", None, false);
    check("LARGER 130", None, false);
    check("SMALLER 150", None, true);
}

#[test]
fn what_need_not_be_asked_is_not() {
    check("UNSEEN TEXT world", Some(false), false);
    check("OR SEEN TEXT mars", Some(true), true);
    check("OR (SEEN TEXT world) TEXT mars", None, true);
    check("NOT (TEXT world UNSEEN)", Some(true), true);
    let asks = |program, cost| matcher(program).asks(cost);
    assert!(asks("SEEN", Cost::Facts) && !asks("SEEN", Cost::Fields));
    assert!(asks("SEEN FROM a", Cost::Fields) && !asks("SEEN FROM a", Cost::Text));
    assert!(asks("HEADER x y", Cost::Message) && asks("OR SEEN BODY y", Cost::Text));
    assert!(!asks("OR ALL BODY y", Cost::Text));
}

/// Evaluates a program directly.
fn naive(program: &SearchProgram, of: &dyn Fn(&SearchKey) -> bool) -> bool {
    let mut values: Vec<bool> = Vec::new();
    for node in program.nodes() {
        let at = |id: &u32| values[*id as usize];
        let value = match node {
            SearchNode::Key(key) => of(key),
            SearchNode::Not(id) => !at(id),
            SearchNode::And(ids) => ids.iter().all(at),
            SearchNode::Or(ids) => ids.iter().any(at),
        };
        values.push(value);
    }
    *values.last().unwrap()
}

#[test]
fn random_programs_mean_what_they_say() {
    let mut random = fastrand::Rng::with_seed(9051);
    let keys = [
        "SEEN",
        "DRAFT",
        "ALL",
        "UID 7",
        "FROM ann",
        "FROM bob",
        "TEXT world",
        "BODY mars",
        "HEADER x-loop two",
        "LARGER 150",
        "SMALLER 150",
        "TEXT \"\"",
    ];
    let mut scratch = Scratch::default();
    for _ in 0..20_000 {
        let mut words = Vec::new();
        let mut wanted = 1 + random.usize(..3);
        while wanted > 0 {
            match random.u8(..4) {
                0 if wanted + words.len() < 20 => {
                    words.push("OR");
                    wanted += 1;
                }
                1 if words.len() < 20 => words.push("NOT"),
                _ => {
                    words.push(keys[random.usize(..keys.len())]);
                    wanted -= 1;
                }
            }
        }
        let text = words.join(" ");
        let program = parse_imap(text.as_bytes()).unwrap().program;
        let of = |key: &SearchKey| {
            let mut program = ProgramBuilder::default();
            let root = program.key(key.clone()).unwrap();
            let alone = matcher_of(&program.finish(root));
            alone.matches(&mut MessageView::new(facts(), MESSAGE), &mut Scratch::default()).unwrap()
        };
        let expected = naive(&program, &of);
        let matcher = matcher_of(&program);
        let found = matcher.matches(&mut MessageView::new(facts(), MESSAGE), &mut scratch);
        assert_eq!(found, Some(expected), "{text}");
        let early = matcher.matches(&mut FactsView(facts()), &mut scratch);
        assert!(early.is_none() || early == Some(expected), "{text}");
    }
}

fn matcher_of(program: &SearchProgram) -> Matcher {
    let keywords = KeywordTable::default();
    let context =
        MatcherContext { now: 0, exists: 3, greatest_uid: 7, keywords: &keywords, saved: &[] };
    Matcher::new(program, &context)
}

#[test]
fn flag_sets_are_those_of_the_facts() {
    let none = Facts { flags: FlagSet::EMPTY, ..facts() };
    let found = matcher("UNSEEN OLD").matches(&mut FactsView(none), &mut Scratch::default());
    assert_eq!(found, Some(true));
}

#[test]
fn of_fields_of_one_name_any_may_hold_the_text() {
    let message = b"Subject: one\nTo: ann@b\nSubject: two\nTO : bob@d\n\n";
    let check = |program: &str, expected: bool| {
        let view = &mut MessageView::new(facts(), message);
        let found = matcher(program).matches(view, &mut Scratch::default());
        assert_eq!(found, Some(expected), "{program}");
    };
    check("SUBJECT one", true);
    check("SUBJECT two", true);
    check("TO bob", true);
    check("HEADER to ann", true);
    check("HEADER to \"\"", true);
    check("TO eve", false);
    check("CC \"\"", false);
}
