mod matching;

use barid_query::limits::{SEARCH_DEPTH_MAX, SEARCH_KEYS_MAX};

use super::*;

fn check(text: &str, expected: &str) {
    let found = match parse_imap(text.as_bytes()) {
        Ok(request) => request.program.to_string(),
        Err(error) => format!("error: {error}"),
    };
    assert_eq!(found, expected, "{text}");
}

#[test]
fn keys() {
    check("ALL", "All");
    check("answered UNSEEN", "and(Flag(Answered) not(Flag(Seen)))");
    check("NEW", "and(Flag(Recent) not(Flag(Seen)))");
    check("OLD", "not(Flag(Recent))");
    check("FROM ann", "Address(From, \"ann\")");
    check("SUBJECT \"a \\\"b\\\\\"", "Subject(\"a \\\"b\\\\\")");
    check("HEADER X-Foo \"\"", "Header(\"X-Foo\", \"\")");
    check("TEXT {3}\r\na b", "Text(\"a b\")");
    check("BODY {2+}\r\nab SEEN", "and(Body(\"ab\") Flag(Seen))");
    check("LARGER 10 SMALLER 20", "and(Larger(10) Smaller(20))");
    check("MODSEQ 7", "ModSeq(7)");
    check("MODSEQ \"/flags/\\\\draft\" all 620162338", "ModSeq(620162338)");
    check("UNKEYWORD $Junk", "not(Keyword(Keyword(\"$Junk\")))");
    check("YOUNGER 259200", "Younger(259200)");
    check("$ UID $", "and(Saved Saved)");
    check(
        "2,4:* UID 7",
        "and(Seq(NumberSet([(Some(2), Some(2)), (Some(4), None)])) \
        Uid(NumberSet([(Some(7), Some(7))])))",
    );
    check(
        "ON 1-Feb-1994",
        "Date(Internal, DateRange { from: Some(Day(8797)), to: Some(Day(8798)) })",
    );
    check("SAVEDSINCE 1-Feb-1994", "Date(Saved, DateRange { from: Some(Day(8797)), to: None })");
    check("SAVEDATESUPPORTED", "SaveDateSupported");
    check("UIDAFTER 7 UIDBEFORE 9", "and(UidAfter(7) UidBefore(9))");
    check("SENTBEFORE \"1-Feb-1994\"", "Date(Sent, DateRange { from: None, to: Some(Day(8797)) })");
}

#[test]
fn keys_are_joined() {
    check("OR SEEN DRAFT", "or(Flag(Seen) Flag(Draft))");
    check("OR SEEN OR DRAFT FLAGGED", "or(Flag(Seen) or(Flag(Draft) Flag(Flagged)))");
    check("NOT NOT SEEN", "not(not(Flag(Seen)))");
    check("NOT (SEEN DRAFT) ALL", "and(not(and(Flag(Seen) Flag(Draft))) All)");
    check("((SEEN))", "Flag(Seen)");
    check("OR (SEEN DRAFT) NOT ALL", "or(and(Flag(Seen) Flag(Draft)) not(All))");
    check("CHARSET utf-8 TEXT gr\u{fc}n", "Text(\"gr\u{fc}n\")");
}

#[test]
fn what_is_wrong_is_told() {
    check("", "error: a search key is missing after `SEARCH`");
    check("OR SEEN", "error: a search key is missing after `OR`");
    check("NOT", "error: a search key is missing after `NOT`");
    check("(SEEN", "error: ) is missing after `(`");
    check("SEEN)", "error: `)` is out of place at byte 4");
    check("OR SEEN )", "error: `)` is out of place at byte 8");
    check("()", "error: a search key is missing after `(`");
    check("FROM", "error: a value is missing after `FROM`");
    check("FOO", "error: unknown search key `FOO`");
    check(
        "SINCE yesterday",
        "error: `yesterday` is not a valid date such as 31-Jan-2024 for `SINCE`",
    );
    check("OLDER 0", "error: `0` is not a valid number of seconds for `OLDER`");
    check("TEXT \"a", "error: a closing quote is missing after `a`");
    check("TEXT {9}\r\nab", "error: `{` is out of place at byte 5");
    check("CHARSET koi8-r ALL", "error: charset `koi8-r` is not supported; use US-ASCII or UTF-8");
    assert_eq!(parse_imap(b"TEXT \"\xff\""), Err(SearchError::NotUtf8));
    let deep = "NOT ".repeat(SEARCH_DEPTH_MAX + 1) + "ALL";
    check(&deep, "error: the search program has too many levels; at most 100 are possible");
    let long = "SEEN ".repeat(SEARCH_KEYS_MAX + 1);
    check(&long, "error: the search program has too many keys; at most 4096 are possible");
}

#[test]
fn result_options() {
    let returns = |text: &str| parse_imap(text.as_bytes()).unwrap().returns;
    let all = ReturnOptions { all: true, ..ReturnOptions::default() };
    assert_eq!(returns("ALL"), None);
    assert_eq!(returns("RETURN () ALL"), Some(all));
    let several = ReturnOptions { min: true, count: true, ..ReturnOptions::default() };
    assert_eq!(returns("return (min COUNT) CHARSET UTF-8 ALL"), Some(several));
}

#[test]
fn hostile_programs_end() {
    let mut random = fastrand::Rng::with_seed(9051);
    let pieces = ["OR ", "NOT ", "(", ")", "TEXT ", "{3}\r\n", "\"", "1:*,", "SEEN ", "UID ", "\\"];
    for _ in 0..20_000 {
        let text: String =
            (0..random.usize(..12)).map(|_| pieces[random.usize(..pieces.len())]).collect();
        if let Ok(request) = parse_imap(text.as_bytes()) {
            assert!(!request.program.nodes().is_empty());
        }
    }
}

#[test]
fn imap_is_told_from_the_short_form() {
    let imap = ["ALL", "FROM ann", "(SEEN DRAFT)", "OR SEEN DRAFT", "RETURN (MIN) ALL"];
    for text in imap {
        assert!(looks_like_imap(text), "{text}");
    }
    for text in ["from:ann", "HTTP", "from ann", "Seen it", "FROM:ann", "or x", ""] {
        assert!(!looks_like_imap(text), "{text}");
    }
}
