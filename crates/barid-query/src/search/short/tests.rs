use super::*;
use crate::search::DateRange;

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
    for range in ["1:5", "1:*", "1,3:4"] {
        let told = "may be UIDs (`uid:1:5`), sequence numbers (`seq:1:5`) or a text (`\"1:5\"`)";
        check(range, &format!("error: `{range}` {}", told.replace("1:5", range)));
        check(&format!("\"{range}\""), &format!("Text({range:?})"));
    }
    check("text:1:5", "Text(\"1:5\")");
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
    check("cc:\"\"", "Address(Cc, \"\")");
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
    check("form:ann", "error: unknown search key `form:`; did you mean `from:`?");
    check("a or", "error: a search key is missing after `or`");
    check("or a", "error: a search key is missing after `(`");
    check("not", "error: a search key is missing after `not`");
    check("(a", "error: ) is missing after `(`");
    check("()", "error: a search key is missing after `(`");
    check("\"a", "error: a closing quote is missing after `a`");
    let no_value = "has no value: write `larger:TEXT` without a blank after the colon";
    check("larger:", &format!("error: `larger:` {no_value}"));
    check("larger:x", "error: `x` is not a valid size such as 20000, 500k or 1M for `larger`");
    check(
        "since:soon",
        "error: `soon` is not a valid date such as 2024-05-17, 2024-05, 2024, today or 7d \
        for `since`",
    );
    check(
        "is:odd",
        "error: `odd` is not a valid state (unread, read, flagged, answered, deleted, draft, \
        recent, spam, ham) for `is`",
    );
    let deep = "(".repeat(SEARCH_DEPTH_MAX + 1);
    check(&deep, "error: the search program has too many levels; at most 100 are possible");
}

#[test]
fn hostile_queries_end() {
    let mut random = fastrand::Rng::with_seed(42);
    let pieces = [
        "or ", "not ", "(", ")", "-", "\"", "a:", "from:", "\u{e9}", " ", "\\", "7d", "on:", "/",
        "*", "~", "header:", "=", "5",
    ];
    for _ in 0..20_000 {
        let text: String =
            (0..random.usize(..12)).map(|_| pieces[random.usize(..pieces.len())]).collect();
        if let Ok(program) = parse_short(&text, Day(0)) {
            assert!(!program.nodes().is_empty());
        }
    }
}

#[test]
fn patterns() {
    check("/a b/", "Pattern(Text, Regex(\"a b\"))");
    check("subject:/^re: a/ x", "and(Pattern(Subject, Regex(\"^re: a\")) Text(\"x\"))");
    check("from:/ann|bob/", "Pattern(Address(From), Regex(\"ann|bob\"))");
    check("body:/a\\/b/", "Pattern(Body, Regex(\"a/b\"))");
    check("list-id:/rust/", "Pattern(Header(\"list-id\"), Regex(\"rust\"))");
    check("header:X-Foo=/a=b/", "Pattern(Header(\"X-Foo\"), Regex(\"a=b\"))");
    check("(/a(b)/ or -/c/)", {
        "or(Pattern(Text, Regex(\"a(b)\")) not(Pattern(Text, Regex(\"c\"))))"
    });
    check("filename:/[.]docx?$/", "Pattern(FileName, Regex(\"[.]docx?$\"))");
    check("budg*", "Pattern(Text, Prefix(\"budg\"))");
    check("subject:budg* x", "and(Pattern(Subject, Prefix(\"budg\")) Text(\"x\"))");
    check("\"a budg\"*", "Pattern(Text, Prefix(\"a budg\"))");
    check("\"budg*\"", "Text(\"budg*\")");
    check("\"annual report\"~5", "Pattern(Text, Near(\"annual report\", 5))");
    check("subject:\"b* a\"~0", "Pattern(Subject, Near(\"b* a\", 0))");
    check("\"a b\"", "Text(\"a b\")");
}

#[test]
fn paths_and_addresses_are_texts() {
    check("/usr/bin", "Text(\"/usr/bin\")");
    check("/usr/bin /etc/fstab", "and(Text(\"/usr/bin\") Text(\"/etc/fstab\"))");
    check("subject:/usr/bin x", "and(Subject(\"/usr/bin\") Text(\"x\"))");
    check("/usr/bin/", "Pattern(Text, Regex(\"usr/bin\"))");
    check("https://a.b/c/", "Text(\"https://a.b/c/\")");
    check("//", "Text(\"//\")");
    check("a/b/", "Text(\"a/b/\")");
}

#[test]
fn keys_of_parts_threads_and_mailboxes() {
    check("filename:a.pdf", "Pattern(FileName, Text(\"a.pdf\"))");
    check("attachment:plan", "Pattern(Attachment, Text(\"plan\"))");
    check("attachment:pl*", "Pattern(Attachment, Prefix(\"pl\"))");
    check("mimetype:application/pdf", "MediaType(\"application/pdf\")");
    check("mimetype:image/*", "MediaType(\"image/\")");
    check("thread:7,9", "ThreadOf(NumberSet([(Some(7), Some(7)), (Some(9), Some(9))]))");
    check("in:archive", "InMailbox(\"archive\")");
    check("list:rust", "Header(\"List-Id\", \"rust\")");
    check("reply-to:ann", "Header(\"reply-to\", \"ann\")");
    check("X-Loop:one", "Header(\"x-loop\", \"one\")");
    check("x-loop:\"\"", "Header(\"x-loop\", \"\")");
    let spam = "and(or(Keyword(Keyword(\"$Junk\")) Keyword(Keyword(\"Junk\")) \
        Pattern(Header(\"X-Bogosity\"), Regex(\"^(spam|yes)\\\\b\"))) \
        not(or(Keyword(Keyword(\"$NotJunk\")) Keyword(Keyword(\"NonJunk\")))))";
    check("is:spam", spam);
    check("is:ham", &format!("not({spam})"));
}

#[test]
fn accents_are_folded_when_asked_for() {
    let options = ShortOptions { today: Day(0), fold_accents: true };
    let check = |text: &str, expected: &str| {
        let program = parse_short_with(text, options).unwrap();
        assert_eq!(program.to_string(), expected, "{text}");
    };
    check("Salaun", "Pattern(Text, Folded(Text(\"Salaun\")))");
    check("from:\"\"", "Address(From, \"\")");
    check("subject:sal*", "Pattern(Subject, Folded(Prefix(\"sal\")))");
    check("is:read", "Flag(Seen)");
}

#[test]
fn what_cannot_be_meant_is_explained() {
    let star = "a `*` stands only at the end of a word, as in `budg*`";
    for text in ["*", "a*b", "*a", "a**", "*a*"] {
        check(text, &format!("error: `{text}`: {star}"));
    }
    check("subject:*", &format!("error: `*`: {star}"));
    check("mimetype:*/pdf", &format!("error: `*/pdf`: {star}"));
    check("subject:/a", "error: a closing slash is missing after `/a`");
    check("/a b", "error: a closing slash is missing after `/a`");
    let near = "is not a valid number of words, as in \"annual report\"~5 for `~`";
    check("\"a b\"~", &format!("error: `` {near}"));
    check("\"a b\"~x y", &format!("error: `x` {near}"));
    check("\"--\"~5", "error: `--` is not a valid list of words for `~`");
    check("\"a*b c\"~5", {
        "error: `a*b c` is not a valid list of words (a `*` stands only at the end of a word) \
         for `~`"
    });
    for key in ["subject:", "from:", "list:", "is:", "thread:", "x-foo:"] {
        let told = format!("error: `{key}` has no value: write `{key}TEXT`");
        check(&format!("{key} foo"), &format!("{told} without a blank after the colon"));
    }
    check("is:/a/", {
        "error: `a` is not a valid value: only texts are searched by patterns, it is for `is:`"
    });
    for (wrong, right) in [
        ("fron", "from:"),
        ("subjet", "subject:"),
        ("form", "from:"),
        ("folder", "in:"),
        ("label", "tag:"),
        ("lst-id", "list-id:"),
        ("mime", "mimetype:"),
        ("lable", "tag:"),
    ] {
        let text = format!("error: unknown search key `{wrong}:`; did you mean `{right}`?");
        check(&format!("{wrong}:a"), &text);
    }
    check("re:a", "error: unknown search key `re:`");
    let long = "r".repeat(200_000);
    check(&format!("{long}:a"), &format!("error: unknown search key `{long}:`"));
    check("from:ann)", "error: `)` is out of place at byte 8");
    check("(a or b)) c", "error: `)` is out of place at byte 8");
    check("subject:f(a) \"a)\" :)", "and(Subject(\"f(a)\") Text(\"a)\") Text(\":)\"))");
    check("older:2024", {
        "error: `2024` is not a valid span of time such as 2h, 7d or 1y (dates are for \
         `before:` and `since:`) for `older`"
    });
    check("/(/", "error: `/(/` is not a valid regular expression: unclosed group");
    check("/\\w{500}{500}/", {
        "error: `/\\w{500}{500}/` is not a valid regular expression: it is too large"
    });
    check("older:2024-01-01", {
        "error: `2024-01-01` is not a valid span of time such as 2h, 7d or 1y (dates are for \
         `before:` and `since:`) for `older`"
    });
}
