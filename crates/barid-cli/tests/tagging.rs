//! Rules that flag messages.

use crate::support::{World, mbox, parse_lines};

const MESSAGES: [&str; 3] = [
    "From: ann@x.example\nSubject: alpha\nList-Id: <rust.x.example>\n\none\n",
    "From: bob@x.example\nSubject: beta\n\ntwo budget\n",
    "From: ann@x.example\nSubject: gamma\n\nthree\n",
];
const RULES: &str = "[[rule]]\nname = \"lists\"\nquery = \"list:rust\"\nflags = [\"+rust\", \"+todo\"]\n\
    [[rule]]\nquery = \"from:ann\"\nflags = [\"+ann\", \"-todo\"]\n\
    [[rule]]\nquery = \"body:budget\"\nflags = \"+flagged\"\n";

fn keywords(world: &World, mailbox: &str) -> Vec<String> {
    let lines = world.json(&["ls", mailbox]);
    lines.iter().map(|line| format!("{} {}", line["keywords"], line["flags"])).collect()
}

#[test]
fn rules_flag_what_their_queries_find() {
    let world = World::new();
    world.maildir("inbox", &MESSAGES);
    world.write("rules.toml", RULES.as_bytes());
    let run = world.run(&["tag", "--dry-run", "rules.toml", "inbox"]);
    let expected = "1  lists\n2  from:ann\n1  body:budget\ninbox: would flag 3 messages\n";
    assert!(run.code == 0 && run.text().starts_with(expected), "{}{}", run.text(), run.stderr);
    assert!(!keywords(&world, "inbox").concat().contains("ann"));
    let text = world.ok(&["tag", "rules.toml", "inbox"]);
    assert!(text.contains("inbox: flagged 3 messages, in "), "{text}");
    // Of two rules about one keyword the later counts.
    assert_eq!(
        keywords(&world, "inbox"),
        [
            "[\"rust\",\"ann\"] [\"\\\\Seen\"]",
            "[] [\"\\\\Flagged\",\"\\\\Seen\"]",
            "[\"ann\"] [\"\\\\Seen\"]"
        ]
    );
    let lines = parse_lines(&world.ok(&["tag", "rules.toml", "inbox", "--json"]));
    assert_eq!((&lines[0]["rule"], &lines[0]["selected"]), (&"lists".into(), &1.into()));
    assert_eq!((&lines[3]["command"], &lines[3]["flagged_now"]), (&"tag".into(), &0.into()));
    assert_eq!(world.ok(&["search", "inbox", "tag:rust"]), "1\n");
}

#[test]
fn a_new_message_is_seen_once() {
    for box_name in ["inbox", "mboxrd:box"] {
        let world = World::new();
        world.maildir("inbox", &MESSAGES);
        world.write("box", mbox(&MESSAGES).as_bytes());
        world.write("rules.toml", RULES.as_bytes());
        let tag =
            |args: &[&str]| parse_lines(&world.ok(&[&["tag", "--new", "--json"], args].concat()));
        let flagged = |lines: &[serde_json::Value]| lines[3]["flagged_now"].as_u64().unwrap();
        assert_eq!(flagged(&tag(&["--dry-run", "rules.toml", box_name])), 3);
        assert_eq!(flagged(&tag(&["rules.toml", box_name])), 3);
        world.ok(&["flag", box_name, "1", "-rust"]);
        assert_eq!(flagged(&tag(&["rules.toml", box_name])), 0);
        let run = world.run_with_input(&["append", box_name], MESSAGES[0].as_bytes());
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert_eq!(flagged(&tag(&["rules.toml", box_name])), 1);
        assert_eq!(world.ok(&["search", box_name, "tag:rust"]), "4\n");
        // Another file has rules that have seen nothing.
        world.write("other.toml", b"[[rule]]\nquery = \"all\"\nflags = \"+seen2\"\n");
        let lines = tag(&["other.toml", box_name]);
        assert_eq!(lines[1]["flagged_now"], 4);
    }
}

#[test]
fn rules_with_problems_change_nothing() {
    let world = World::new();
    world.maildir("inbox", &MESSAGES);
    let check = |rules: &str, expected: &[&str]| {
        world.write("rules.toml", rules.as_bytes());
        let run = world.run(&["tag", "rules.toml", "inbox"]);
        assert_eq!((run.code, run.text().as_str()), (2, ""));
        expected.iter().for_each(|text| assert!(run.stderr.contains(text), "{}", run.stderr));
    };
    check(
        "[[rule]]\nquery = \"all\"\nflags = \"+a\"\n[[rule]]\nquery = \"form:ann\"\n",
        &[
            "rules.toml:4:1: [rule]: `flags` is missing",
            "rules.toml:5:9: rule.query: ",
            "nothing is changed",
        ],
    );
    check("x", &["rules.toml:1:"]);
    check("", &["there are no rules"]);
    let run = world.run(&["tag", "nowhere.toml", "inbox"]);
    assert!(run.code == 2 && run.stderr.contains("nowhere.toml:1:1: "), "{}", run.stderr);
    world.write("rules.toml", RULES.as_bytes());
    let run = world.run(&["tag", "rules.toml"]);
    assert!(run.code == 2 && run.stderr.contains("default mailbox"), "{}", run.stderr);
    let run = world.run(&["tag", "rules.toml", "inbox", "--read-only"]);
    assert!(run.code == 2 && run.stderr.contains("--read-only forbids it"), "{}", run.stderr);
    let run = world.run(&["tag", "rules.toml", "nowhere"]);
    assert_eq!(run.code, 2);
    assert!(!keywords(&world, "inbox").concat().contains("ann"));
}
