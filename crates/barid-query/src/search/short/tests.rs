use super::*;

fn check(text: &str, expected: &str) {
    let today = Day::of(2024, 5, 17).unwrap();
    let found = match parse_short(text, today) {
        Ok(program) => program.to_string(),
        Err(error) => format!("error: {error}"),
    };
    assert_eq!(found, expected, "{text}");
}

/// Checks the dates of a key, in IMAP's form.
fn check_dates(text: &str, from: &str, to: &str) {
    let today = Day::of(2024, 5, 17).unwrap();
    let program = parse_short(text, today).unwrap();
    let [crate::search::SearchNode::Key(SearchKey::Date(_, range))] = program.nodes() else {
        panic!("{text}: {program:?}")
    };
    let expected = DateRange { from: Day::parse_imap(from), to: Day::parse_imap(to) };
    assert_eq!(*range, expected, "{text}");
}

#[test]
fn what_imap_takes_for_messages_is_no_text() {
    check("all", "All");
    check("ALL is:read", "and(All Flag(Seen))");
    check("\"all\"", "Text(\"all\")");
    for range in ["1:5", "*", "1:*", "1,3:4"] {
        let told = "may be UIDs (`uid:1:5`), sequence numbers (`seq:1:5`) or a text (`text:1:5`)";
        check(range, &format!("error: `{range}` {}", told.replace("1:5", range)));
        check(&format!("text:{range}"), &format!("Text({range:?})"));
        check(&format!("\"{range}\""), &format!("Text({range:?})"));
    }
    check("17", "Text(\"17\")");
    check("1,000", "Text(\"1,000\")");
}

#[test]
fn terms() {
    check("", "All");
    check("hello", "Text(\"hello\")");
    check("\"release plan\"", "Text(\"release plan\")");
    check("from:ann", "Address(From, \"ann\")");
    check("FROM:ann", "Address(From, \"ann\")");
    check("subject:\"release plan\"", "Subject(\"release plan\")");
    check("body:\"a \\\"b\\\"\"", "Body(\"a \\\"b\\\"\")");
    check("cc:", "Address(Cc, \"\")");
    check("has:attachment", "Attachment");
    check("is:unread", "not(Flag(Seen))");
    check("is:Flagged", "Flag(Flagged)");
    check("larger:1M", "Larger(1048576)");
    check("smaller:500k", "Smaller(512000)");
    check("older:2w", "Older(1209600)");
    check("newer:90", "Younger(90)");
    check("id:<a@b>", "Header(\"Message-ID\", \"<a@b>\")");
    check("header:X-Foo=a:b=c", "Header(\"X-Foo\", \"a:b=c\")");
    check("header:X-Foo", "Header(\"X-Foo\", \"\")");
    check("tag:$Junk", "Keyword(Keyword(\"$Junk\"))");
    check("uid:7", "Uid(NumberSet([(Some(7), Some(7))]))");
    check("http://a.b/c", "Text(\"http://a.b/c\")");
    check("\"from:ann\"", "Text(\"from:ann\")");
    check("text:12:30", "Text(\"12:30\")");
    check("f() a)", "and(Text(\"f()\") Text(\"a)\"))");
    check("a-b - c", "and(Text(\"a-b\") Text(\"-\") Text(\"c\"))");
}

#[test]
fn terms_are_joined() {
    check("from:ann is:read", "and(Address(From, \"ann\") Flag(Seen))");
    check("-from:bob", "not(Address(From, \"bob\"))");
    check("!from:bob a!", "and(not(Address(From, \"bob\")) Text(\"a!\"))");
    check("not a and not -b", "and(not(Text(\"a\")) Text(\"b\"))");
    check("a b or c d", "or(and(Text(\"a\") Text(\"b\")) and(Text(\"c\") Text(\"d\")))");
    check("a or b or c", "or(Text(\"a\") Text(\"b\") Text(\"c\"))");
    check("a (b or c) d", "and(Text(\"a\") or(Text(\"b\") Text(\"c\")) Text(\"d\"))");
    check("-(a b) c", "and(not(and(Text(\"a\") Text(\"b\"))) Text(\"c\"))");
    check("(from:a|b or c)", "or(Address(From, \"a|b\") Text(\"c\"))");
    check("\"or\" \"not\"", "and(Text(\"or\") Text(\"not\"))");
}

#[test]
fn dates_of_people() {
    check_dates("since:2024-01-01", "1-Jan-2024", "");
    check_dates("after:2024-02", "1-Feb-2024", "");
    check_dates("before:2024", "", "1-Jan-2024");
    check_dates("on:2024-02-29", "29-Feb-2024", "1-Mar-2024");
    check_dates("on:2024-02", "1-Feb-2024", "1-Mar-2024");
    check_dates("on:2023", "1-Jan-2023", "1-Jan-2024");
    check_dates("on:today", "17-May-2024", "18-May-2024");
    check_dates("since:yesterday", "16-May-2024", "");
    check_dates("since:7d", "10-May-2024", "");
    check_dates("since:2w", "3-May-2024", "");
    check_dates("date:2023-12..2024-01-05", "1-Dec-2023", "6-Jan-2024");
    check_dates("date:..2024", "", "1-Jan-2025");
    check_dates("since:3-Feb-2024", "3-Feb-2024", "");
    check_dates("received-since:2024", "1-Jan-2024", "");
}

#[test]
fn what_is_wrong_is_told() {
    check("form:ann", "error: unknown search key `form:`");
    check("a or", "error: a search key is missing after `or`");
    check("or a", "error: a search key is missing after `(`");
    check("not", "error: a search key is missing after `not`");
    check("(a", "error: ) is missing after `(`");
    check("()", "error: a search key is missing after `(`");
    check("\"a", "error: a closing quote is missing after `a`");
    check("larger:", "error: a value is missing after `larger:`");
    check("larger:x", "error: `x` is not a valid size such as 20000, 500k or 1M for `larger`");
    check(
        "since:soon",
        "error: `soon` is not a valid date such as 2024-05-17, 2024-05, 2024, today or 7d \
        for `since`",
    );
    check(
        "is:odd",
        "error: `odd` is not a valid state (unread, read, flagged, answered, deleted, draft, \
        recent) for `is`",
    );
    let deep = "(".repeat(SEARCH_DEPTH_MAX + 1);
    check(&deep, "error: the search program has too many levels; at most 100 are possible");
}

#[test]
fn hostile_queries_end() {
    let mut random = fastrand::Rng::with_seed(42);
    let pieces =
        ["or ", "not ", "(", ")", "-", "\"", "a:", "from:", "\u{e9}", " ", "\\", "7d", "on:"];
    for _ in 0..20_000 {
        let text: String =
            (0..random.usize(..12)).map(|_| pieces[random.usize(..pieces.len())]).collect();
        if let Ok(program) = parse_short(&text, Day(0)) {
            assert!(!program.nodes().is_empty());
        }
    }
}
