//! `bogoutil`.

use super::{DATE, Pair, Side, check_same, names, some};

/// Makes new lists of both sides from some messages.
fn pair(seed: u64) -> Option<Pair> {
    let pair = Pair::new()?;
    for (flag, seed, date) in [("-s", seed, "20261120"), ("-n", seed + 1, DATE)] {
        let files: Vec<String> = some(seed, 30)?.into_iter().map(|(name, _)| name).collect();
        pair.same(&["-C", "-d", "@", "-y", date, "-b", flag], &names(&files));
    }
    Some(pair)
}

#[test]
fn lists_are_told_of_alike() {
    let Some(pair) = pair(41) else { return };
    for args in [
        &["-d", "@"][..],
        &["-d", "@/wordlist.db"],
        &["-v", "-d", "@"],
        &["-d", "@", "-a", "20261121"],
        &["-d", "@", "-c", "2"],
        &["-d", "@", "-s", "4,6"],
        &["-n", "-d", "@"],
        &["-a", "20261121", "-c", "1", "-d", "@"],
        &["-w", "@", "the", ".MSG_COUNT", "nope", "subj:the", "money"],
        &["-p", "@", "the", ".MSG_COUNT", "nope", "subj:the", "free"],
        &["-vvv", "-w", "@", "the"],
        &["-H", "@"],
        &["-H", "@", "-v"],
        &["-vv", "-H", "@"],
        &["-r", "@"],
        &["-d", "@/none"],
        &["-d"],
        &["-zz", "-d", "@"],
    ] {
        pair.same_of("bogoutil", &[&["-C"], args].concat(), b"");
    }
    for flag in ["-w", "-p"] {
        pair.same_of("bogoutil", &["-C", flag, "@"], b"the\nfree\nnone\n.ENCODING\nmoney");
    }
    pair.same_of("bogoutil", &["-d", "@", "-O", "@/out"], b"");
    assert_eq!(pair.world.read("theirs/out"), pair.world.read("ours/out"));
    for args in [&[][..], &["-d", "@", "-l", "@"], &["-d", "@", "extra"], &["-s", "x", "-d", "@"]] {
        let [theirs, ours] =
            [Side::Theirs, Side::Ours].map(|side| pair.run(side, "bogoutil", args, b""));
        // The usage text is worded differently.
        assert_eq!((theirs.status.code(), ours.status.code()), (Some(3), Some(3)), "{args:?}");
        assert!(!ours.stderr.is_empty() && ours.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn lists_are_loaded_and_tended_alike() {
    let Some(pair) = pair(43) else { return };
    let same = |args: &[&str], input: &[u8]| {
        pair.same_of("bogoutil", &[&["-C", "-y", DATE], args].concat(), input);
        pair.same_lists(&format!("{args:?}"))
    };
    same(&["-R", "@"], b"");
    let text = b"foo 1 2\nbar 3 4 20200101\nthe 5 5\n.ROBX 5 5\n.ENCODING 0 0\nab\n";
    same(&["-l", "@"], text);
    same(&["-v", "-l", "@/new.db"], b"foo 1 2\nbar 3 4 20200101\n.MSG_COUNT 3 4\n");
    pair.same_of("bogoutil", &["-d", "@/new.db"], b"");
    same(&["--max-token-len=5", "-l", "@"], b"short 1 2\nlonger 3 4\n");
    let before = same(&["--unicode=yes", "-n", "-m", "@"], b"");
    same(&["--unicode=yes", "-c", "1", "-m", "@"], b"");
    same(&["--unicode=yes", "-s", "4,20", "-m", "@"], b"");
    let after = same(&["--unicode=yes", "-a", "20261121", "-m", "@"], b"");
    assert!(after > 100 && after < before / 2, "{before} {after}");
    same(&["--unicode=no", "-m", "@"], b"");
    same(&["--unicode=yes", "-m", "@"], b"");
    for args in [&["-c", "2", "-m", "@"][..], &["-u", "@"]] {
        let [theirs, ours] = [Side::Theirs, Side::Ours].map(|side| {
            let quirks = ["--quirks=encoding-reset"];
            let more = if side == Side::Ours { &quirks[..] } else { &[] };
            pair.run(side, "bogoutil", &[&["-C", "-y", DATE], args, more].concat(), b"")
        });
        check_same(&theirs, &ours, &format!("{args:?}"));
        pair.same_lists(&format!("{args:?}"));
    }
}

/// The encoding of words is forgotten only on request.
#[test]
fn the_encoding_stays() {
    let world = crate::support::World::new();
    world
        .run_with_input(&["bogofilter", "-C", "-d", ".", "-y", DATE, "-s"], b"Subject: a\n\nfoo\n");
    let encoding = || world.ok(&["bogoutil", "-w", ".", ".ENCODING"]);
    let before = encoding();
    assert!(before.contains(".ENCODING                           2      0"), "{before}");
    world.ok(&["bogoutil", "-c", "0", "-m", "."]);
    assert_eq!(encoding(), before);
    world.ok(&["bogoutil", "-m", ".", "--quirks=all"]);
    assert!(encoding().contains(".ENCODING                           0      0"));
    world.ok(&["bogoutil", "--db-verify", "wordlist.db"]);
    world.ok(&["bogoutil", "--db-recover", "."]);
    assert_eq!(world.ok(&["bogoutil", "--db-print-pagesize", "."]), "UNKNOWN\n");
}

/// bogolexer prints the words of messages.
#[test]
fn words_are_printed() {
    let world = crate::support::World::new();
    let message = b"Subject: cheap pills\n\nvisit 10.1.2.3 now\n";
    let run = world.run_with_input(&["bogolexer", "-C", "-p"], message);
    let text = "subj:cheap\nsubj:pills\nvisit\n10.1.2.3\nnow\n";
    assert_eq!((run.code, run.text().as_str()), (0, text));
    let run = world.run_with_input(&["bogolexer", "-C", "-q"], message);
    assert_eq!(run.text(), "quiet mode.\n5 tokens read.\n");
    assert_eq!(world.run(&["bogolexer", "-C"]).code, 3);
}
