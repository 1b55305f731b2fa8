//! Queries in every command that is about messages, from outside.

use crate::support::World;

const ANN: &str = "From: Ann Lee <ann@x.example>\nTo: bob@y.example\n\
    Date: Mon, 1 Jan 2024 10:00:00 +0000\nSubject: release plan\nMessage-ID: <1@x>\n\
    List-Id: Rust <rust.lists.example>\n\nThe budgets of Sala\u{fc}n.\n";
const BOB: &str = "From: Bob <bob@y.example>\nDate: Tue, 2 Jan 2024 23:30:00 -0500\n\
    Subject: Re: release plan\nMessage-ID: <2@x>\nIn-Reply-To: <1@x>\nX-Bogosity: Ham\n\n\
    An annual dull report.\n";
const CARL: &str = "From: carl@z.example\nSubject: paper\nMessage-ID: <3@x>\n\
    Date: Wed, 3 Jan 2024 10:00:00 +0000\nX-Bogosity: Spam, tests=bogofilter\n\
    MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nsee file\n--b\n\
    Content-Type: application/pdf\nContent-Disposition: attachment; filename=\"plan 7.pdf\"\n\n\
    budget\n--b--\n";
const ANN_AGAIN: &str = "From: ann@x.example\nSubject: lunch\nMessage-ID: <4@x>\n\
    Date: Sun, 31 Dec 2023 10:00:00 +0000\n\nabudget\n";
const ALL: [&str; 4] = [ANN, BOB, CARL, ANN_AGAIN];

fn world() -> (World, String) {
    let world = World::new();
    let mailbox = world.maildir("box", &ALL);
    (world, mailbox)
}

/// Runs a command that must succeed, or with an empty output find nothing.
fn check(world: &World, args: &[&str], expected: &str) {
    let run = world.run(args);
    let code = i32::from(expected.is_empty());
    assert_eq!((run.text().as_str(), run.code), (expected, code), "{args:?}: {}", run.stderr);
}

/// Returns the first word of each line, such as UIDs.
fn first_words(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.split_whitespace().next()).collect()
}

#[test]
fn every_key_finds_its_messages() {
    let (world, mailbox) = world();
    for (query, expected) in [
        ("/budgets? of/", "1\n"),
        ("subject:/^re:/", "2\n"),
        ("from:/(ann|carl)@/", "1,3:4\n"),
        ("body:/^an .* report/", "2\n"),
        ("list-id:/rust/", "1\n"),
        ("header:X-Bogosity=/^ham$/", "2\n"),
        ("budg*", "1\n"),
        ("subject:pl*", "1:2\n"),
        ("\"annual report\"~1", "2\n"),
        ("\"annual report\"~0", ""),
        ("\"report ann*\"~1", "2\n"),
        ("list:rust", "1\n"),
        ("filename:plan", "3\n"),
        ("attachment:/[0-9].pdf/", "3\n"),
        ("mimetype:application/pdf", "3\n"),
        ("mimetype:image/*", ""),
        ("has:attachment", "3\n"),
        ("is:spam", "3\n"),
        ("is:ham is:read", "1:2,4\n"),
        ("thread:2", "1:2\n"),
        ("thread:*", "4\n"),
        ("thread:2 from:ann", "1\n"),
        ("older:1y", "1:4\n"),
        ("newer:1w", ""),
        ("larger:1k", ""),
        ("smaller:5M", "1:4\n"),
        ("Salaun", ""),
        ("list:\"\"", "1\n"),
    ] {
        check(&world, &["search", &mailbox, query], expected);
    }
    check(&world, &["search", "--fold-accents", &mailbox, "Salaun"], "1\n");
    check(&world, &["search", "--fold-accents", &mailbox, "sal*", "-from:bob"], "1\n");
    // The shell has taken the quotes off.
    check(&world, &["search", &mailbox, "subject:/release plan/", "-/^subject: re: /"], "1\n");
    world.ok(&["flag", &mailbox, "1", "+$Junk"]);
    world.ok(&["flag", &mailbox, "3", "+$NotJunk", "+todo"]);
    check(&world, &["search", &mailbox, "is:spam"], "1\n");
    check(&world, &["search", &mailbox, "tag:todo"], "3\n");
}

#[test]
fn the_order_and_the_number_of_messages() {
    let (world, mailbox) = world();
    let list = |args: &[&str]| {
        let output = world.ok(&[&["search", "-l", &mailbox, "all"], args].concat());
        first_words(&output).join(" ")
    };
    assert_eq!(list(&[]), "1 2 3 4");
    assert_eq!(list(&["--sort", "date"]), "4 1 2 3");
    assert_eq!(list(&["--sort", "date", "--reverse"]), "3 2 1 4");
    assert_eq!(list(&["--sort", "date", "--limit", "2"]), "2 3");
    assert_eq!(list(&["-sdate", "-n2", "-r"]), "3 2");
    assert_eq!(list(&["--sort", "from", "--sort", "reverse:date"]), "1 4 2 3");
    check(&world, &["search", "--limit", "2", &mailbox, "all"], "3:4\n");
    check(&world, &["search", "--sort", "date", &mailbox, "all"], "4,1:3\n");
    check(&world, &["count", &mailbox, "from:ann"], "2\n");
    check(&world, &["count", &mailbox], "4\n");
    let count = world.json(&["count", &mailbox, "from:ann"]);
    assert_eq!((&count[0]["type"], &count[0]["count"]), (&"search".into(), &2.into()));
    let run = world.run(&["count", &mailbox, "from:nobody"]);
    assert_eq!((run.text().as_str(), run.code), ("0\n", 1));
    let run = world.run(&["search", &mailbox]);
    assert!(run.code == 2 && run.stderr.contains("no query is given"), "{}", run.stderr);
}

#[test]
fn forms_of_the_output() {
    let (world, mailbox) = world();
    let search = |form: &str, query: &str| world.ok(&["search", "--output", form, &mailbox, query]);
    assert_eq!(search("uids", "from:ann"), "1,4\n");
    assert_eq!(search("messages", "budg*"), world.ok(&["ls", &mailbox, "1"]));
    assert_eq!(search("threads", "from:bob"), world.ok(&["thread", &mailbox, "2"]));
    assert_eq!(search("threads", "from:bob").lines().count(), 2);
    assert_eq!(
        search("addresses", "all"),
        "Ann Lee <ann@x.example>\nBob <bob@y.example>\ncarl@z.example\n"
    );
    let files = search("files", "from:ann");
    let expected = [0, 3].map(|at| format!("{mailbox}/cur/{}\n", world.list("box/cur")[at]));
    assert_eq!(files, expected.concat());
    let json = |form: &str| world.json(&["search", "--output", form, &mailbox, "from:ann"]);
    assert_eq!(json("uids")[0]["uids"], serde_json::json!([1, 4]));
    assert_eq!(json("messages")[1]["uid"], 4);
    assert_eq!(json("threads")[0]["type"], "thread");
    assert_eq!((&json("files")[1]["uid"], json("files").len()), (&4.into(), 2));
    let sender = &json("addresses")[0];
    assert_eq!((&sender["address"], &sender["messages"]), (&"ann@x.example".into(), &2.into()));
    world.ok(&["copy", "--create", &mailbox, "from:ann", "mh:folder"]);
    check(&world, &["search", "--output", "files", "folder", "lunch"], "folder/2\n");
    world.write("a.mbox", format!("From a Mon Jan  1 00:00:00 2024\n{ANN}\n").as_bytes());
    let run = world.run(&["search", "--output", "files", "a.mbox", "all"]);
    assert_eq!((run.code, run.text().as_str()), (2, ""));
    assert!(run.stderr.contains("not files of their own"), "{}", run.stderr);
}

#[test]
fn commands_that_read_take_uids_or_a_query() {
    let (world, mailbox) = world();
    let uids = |args: &[&str]| first_words(&world.ok(args)).join(" ");
    assert_eq!(uids(&["ls", &mailbox, "from:ann", "-subject:lunch"]), "1");
    assert_eq!(uids(&["ls", "--sort", "date", &mailbox, "from:ann"]), "4 1");
    assert_eq!(uids(&["ls", "--first", "1", &mailbox, "2:4"]), "2");
    assert_eq!(uids(&["ls", "-n1", "-r", &mailbox, "is:read"]), "4");
    assert_eq!(uids(&["thread", &mailbox, "subject:/^re/"]), "1 2");
    assert_eq!(uids(&["thread", "-n1", &mailbox, "from:ann"]), "1 2");
    assert_eq!(world.json(&["thread", &mailbox, "thread:1"]).len(), 1);
    let shown = world.ok(&["show", &mailbox, "from:/carl/"]);
    assert_eq!(shown, world.ok(&["show", &mailbox, "3"]));
    assert!(shown.contains("plan 7.pdf"), "{shown}");
    let both = world.json(&["show", &mailbox, "4", "1"]);
    assert_eq!((&both[0]["uid"], &both[1]["uid"]), (&4.into(), &1.into()));
    for command in ["ls", "thread", "show"] {
        let run = world.run(&[command, &mailbox, "from:nobody"]);
        assert_eq!((run.code, run.text().as_str()), (1, ""), "{command}: {}", run.stderr);
        let run = world.run(&[command, &mailbox, "99"]);
        assert!(run.code == 1 && run.stderr.contains("99"), "{command}: {}", run.stderr);
        let run = world.run(&[command, &mailbox, ""]);
        assert!(run.code == 2 && run.stderr.contains("an empty list"), "{}", run.stderr);
        let run = world.run(&[command, &mailbox, "form:ann"]);
        assert!(run.code == 2 && run.stderr.contains("did you mean"), "{}", run.stderr);
    }
    let run = world.run(&["thread", "--imap", &mailbox, "from:ann"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
}

#[test]
fn commands_that_change_tell_how_many_messages_they_selected() {
    let (world, mailbox) = world();
    let told = world.ok(&["flag", &mailbox, "from:ann older:1y", "+flagged"]);
    assert!(told.contains("box: 2 messages selected; flagged 2 messages"), "{told}");
    check(&world, &["search", &mailbox, "is:flagged"], "1,4\n");
    let json = world.json(&["flag", &mailbox, "subject:/plan/", "+todo", "--dry-run"]);
    assert_eq!((&json[0]["selected"], &json[0]["flagged"]), (&2.into(), &2.into()));
    let run = world.run(&["flag", &mailbox, "from:nobody", "+todo"]);
    assert_eq!(run.code, 1);
    assert!(
        run.text().contains("0 messages selected; no message needs a change"),
        "{}",
        run.text()
    );
    let run = world.run(&["flag", &mailbox, "from:ann", "older:1y", "+todo"]);
    assert!(run.stderr.contains("a query of several words goes in quotes"), "{}", run.stderr);
    let copied = world.ok(&["copy", "--create", &mailbox, "thread:2", "copy.mbox"]);
    assert!(copied.contains("box: 2 messages selected\n"), "{copied}");
    check(&world, &["count", "copy.mbox"], "2\n");
    let json = world.json(&["copy", &mailbox, "from:carl", "copy.mbox"]);
    assert_eq!(json[0]["messages"], 1);
    let told = world.ok(&["expunge", &mailbox, "-subject:/plan|paper/"]);
    assert!(told.contains("box: 1 message selected; expunged 1 message"), "{told}");
    check(&world, &["search", &mailbox, "all"], "1:3\n");
}

#[test]
fn the_spam_filter_takes_a_query() {
    let (world, mailbox) = world();
    let told = world.ok(&["spam", "train", "--ham", &mailbox, "--uids", "from:ann or from:bob"]);
    assert!(told.contains("3 messages learned as ham"), "{told}");
    let told = world.ok(&["spam", "train", "--spam", &mailbox, "--messages", "is:spam"]);
    assert!(told.contains("1 message learned as spam"), "{told}");
    let scored = world.json(&["spam", "classify", &mailbox, "--uids", "subject:/plan/"]);
    assert_eq!(scored.len(), 2);
    let told = world.ok(&["spam", "untrain", &mailbox, "--uids", "thread:1"]);
    assert!(told.contains("2 messages untrained"), "{told}");
    let run = world.run(&["spam", "train", "--ham", &mailbox, "--uids", "/.*/"]);
    assert!(run.code == 2 && run.stderr.contains("nothing is trained"), "{}", run.stderr);
}

#[test]
fn nothing_is_never_everything() {
    let (world, mailbox) = world();
    let before = world.ok(&["ls", "--json", &mailbox]);
    for query in ["", " ", "subject:", "subject:\"\"", "\"\"", "/x*/", "()", "from:\"\" is:read"] {
        for args in [
            &["flag", &mailbox, query, "+deleted"][..],
            &["expunge", &mailbox, query],
            &["copy", "--create", &mailbox, query, "other.mbox"],
        ] {
            let run = world.run(args);
            assert_eq!(run.code, 2, "{args:?}: {}", run.stderr);
            assert!(run.stderr.contains("hint: "), "{args:?}: {}", run.stderr);
        }
    }
    assert_eq!(world.ok(&["ls", "--json", &mailbox]), before);
}

#[test]
fn several_mailboxes_are_searched_together() {
    let world = World::new();
    world.maildir("tree/inbox", &[ANN, CARL]);
    world.maildir("tree/lists/rust", &[BOB]);
    world.maildir("other", &[ANN_AGAIN]);
    let both = ["--in", "other", "--in", "tree/inbox"];
    let search = |args: &[&str]| world.ok(&[&["search"][..], args].concat());
    assert_eq!(search(&[&both[..], &["from:ann"]].concat()), "other: 1\ntree/inbox: 1\n");
    let lines = search(&[&both[..], &["--sort", "date", "-l", "from:/./"]].concat());
    assert_eq!(first_words(&lines), ["other", "tree/inbox", "tree/inbox"]);
    assert!(lines.lines().next().unwrap().contains("lunch"), "{lines}");
    let json =
        world.json(&["search", "--tree", "tree", "--in", "other", "all", "--sort", "date", "-r"]);
    let subjects: Vec<_> = json.iter().map(|line| line["subject"].as_str().unwrap()).collect();
    assert_eq!(subjects, ["paper", "Re: release plan", "release plan", "lunch"]);
    assert_eq!(json[1]["mailbox"], "tree/lists/rust");
    let newest = world.json(&["search", "--tree", "tree", "--sort", "date", "-n1", "all"]);
    assert_eq!((newest.len(), &newest[0]["subject"]), (1, &"paper".into()));
    check(&world, &["count", "--tree", "tree", "--in", "tree/inbox", "all"], "3\n");
    let json = world.json(&["count", "--tree", "tree", "all"]);
    assert_eq!((&json[0]["count"], json[0]["mailboxes"].as_array().unwrap().len()), (&3.into(), 2));
    check(&world, &["search", "--tree", "tree", "in:lists/rust"], "tree/lists/rust: 1\n");
    check(&world, &["count", "--tree", "tree", "-in:inbox"], "1\n");
    let senders = search(&[&both[..], &["--output", "addresses", "from:ann"]].concat());
    assert_eq!(senders, "Ann Lee <ann@x.example>\n");
    let threads = search(&[&both[..], &["--output", "threads", "lunch or paper"]].concat());
    assert_eq!(threads.lines().filter(|line| line.ends_with(':')).count(), 2, "{threads}");
    let files = search(&["--tree", "tree", "--output", "files", "from:bob"]);
    assert!(files.starts_with("tree/lists/rust/cur/"), "{files}");
    let run = world.run(&["search", "--in", "none", "--in", "other", "all"]);
    assert_eq!((run.code, run.text().as_str()), (2, "other: 1\n"), "{}", run.stderr);
    check(&world, &["search", "--tree", "tree", "from:nobody"], "");
    // A copy of a message is shown once, where it comes first.
    world.deliver("other", "cur/1600000009.M9.host:2,S", ANN);
    let all = [&both[..], &["release"]].concat();
    assert_eq!(search(&all), "other: 2\n");
    assert_eq!(search(&[&all[..], &["--duplicates"]].concat()), "other: 2\ntree/inbox: 1\n");
    check(&world, &[&["count"][..], &all].concat(), "1\n");
    let run = world.run(&["count", "--duplicates", "other"]);
    assert!(run.code == 2 && run.stderr.contains("several mailboxes"), "{}", run.stderr);
}

/// Returns the UIDs and the scores of a search by relevance.
fn by_relevance(world: &World, args: &[&str]) -> Vec<(u64, f64)> {
    let lines = world.json(&[&["search", "--sort", "relevance"][..], args].concat());
    lines
        .iter()
        .map(|line| (line["uid"].as_u64().unwrap(), line["score"].as_f64().unwrap()))
        .collect()
}

#[test]
fn the_most_relevant_come_first() {
    let (world, mailbox) = world();
    let found = by_relevance(&world, &[&mailbox, "plan or lunch"]);
    let uids: Vec<u64> = found.iter().map(|(uid, _)| *uid).collect();
    // `lunch` is the rarer word; of the third message, only the name of a file has the other.
    assert_eq!(uids, [4, 2, 1, 3], "{found:?}");
    assert!(found.is_sorted_by(|(_, left), (_, right)| left >= right), "{found:?}");
    // Two of four messages have the subject, which counts 4. Their bodies have 25 bytes, with the
    // accent decomposed, and 23.
    let scores = by_relevance(&world, &[&mailbox, "subject:plan"]);
    let saturation = |len: f64| 1.2 * (0.25 + 0.75 * len / ((25.0 + 23.0) / 2.0));
    for (uid, len) in [(1, 25.0), (2, 23.0)] {
        let expected = (1.0_f64 + 2.5 / 2.5).ln() * 4.0 * 2.2 / (4.0 + saturation(len));
        let score = scores.iter().find(|(found, _)| *found == uid).unwrap().1;
        assert!((score - expected).abs() < 1e-12, "{uid}: {score} {expected}");
    }
    let search = |args: &[&str]| {
        world.ok(&[&["search", "--sort", "relevance", &mailbox][..], args].concat())
    };
    assert_eq!(search(&["plan or lunch"]), "4,2,1,3\n");
    assert_eq!(search(&["plan or lunch", "--limit", "2"]), "4,2\n");
    assert_eq!(search(&["plan or lunch", "-n2", "-r"]), "2,4\n");
    assert_eq!(search(&["--seq", "-n1", "plan or lunch"]), "4\n");
    assert_eq!(first_words(&search(&["-l", "(plan or lunch)", "-from:bob"])), ["4", "1", "3"]);
    assert_eq!(search(&["--fold-accents", "SALAUN"]), "1\n");
    check(&world, &["search", "--sort", "relevance", &mailbox, "from:nobody"], "");
}

#[test]
fn an_order_by_relevance_is_refused_where_it_means_nothing() {
    let (world, mailbox) = world();
    for (args, message) in [
        (&["search", "--sort", "relevance", &*mailbox, "is:read"][..], "needs a text in the query"),
        (&["search", "--sort", "relevance", &mailbox, "all", "-plan"], "needs a text in the query"),
        (&["search", "--sort", "relevance", "--sort", "date", &mailbox, "plan"], "stands alone"),
        (&["search", "--sort", "reverse:relevance", &mailbox, "plan"], "last with --reverse"),
        (&["ls", "--sort", "relevance", &mailbox, "plan"], "only a search sorts by relevance"),
        (&["ls", "--sort", "relevance", &mailbox], "`barid search --sort relevance"),
    ] {
        let run = world.run(args);
        assert!(run.code == 2 && run.stderr.contains(message), "{args:?}: {}", run.stderr);
        assert!(run.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn the_order_by_relevance_does_not_depend_on_an_index() {
    let world = World::new();
    let mut random = fastrand::Rng::with_seed(11);
    let words = ["budget", "plan", "lunch", "of", "the", "re-budget", "quarter"];
    let messages: Vec<String> = (0..200)
        .map(|number| {
            let mut text = |most| {
                let count = random.usize(0..most);
                let words: Vec<&str> = (0..count).map(|_| words[random.usize(0..7)]).collect();
                words.join(" ")
            };
            let (subject, body) = (text(4), text(60));
            let date = format!("Mon, {} Jan 2024 10:00:00 +0000", 1 + number % 28);
            format!("From: {}@x\nDate: {date}\nSubject: {subject}\n\n{body}\n", number % 3)
        })
        .collect();
    let mailbox = world.maildir("box", &messages.iter().map(String::as_str).collect::<Vec<_>>());
    let queries = ["budget", "subject:plan or body:lunch", "quart* -from:1@x", "\"plan of\""];
    let all = |options: &[&str]| {
        queries.map(|query| by_relevance(&world, &[options, &[&*mailbox, query]].concat()))
    };
    let without = all(&["--no-index"]);
    assert!(without.iter().all(|found| found.len() > 10), "{without:?}");
    world.ok(&["index", &mailbox]);
    let covered = &world.json(&["index", "status", &mailbox])[0]["covered"];
    assert_eq!(covered, 200);
    assert_eq!(all(&[]), without);
}

#[test]
fn relevance_is_the_same_scale_for_several_mailboxes() {
    let world = World::new();
    let one = world.maildir("one", &ALL);
    world.maildir("a", &ALL[..2]);
    world.maildir("b", &ALL[2..]);
    let together = by_relevance(&world, &["--in", "a", "--in", "b", "plan or lunch"]);
    let alone = by_relevance(&world, &[&one, "plan or lunch"]);
    let scores = |found: &[(u64, f64)]| found.iter().map(|(_, score)| *score).collect::<Vec<_>>();
    assert_eq!((scores(&together), together.len()), (scores(&alone), 4));
    let args = ["search", "--sort=relevance", "--in", "a", "--in", "b", "in:b", "(lunch or plan)"];
    check(&world, &args, "b: 2,1\n");
}
