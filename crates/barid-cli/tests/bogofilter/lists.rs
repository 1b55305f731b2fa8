//! Contents of word lists after registrations, with separate files and with one common file.

use barid_testkit::corpora;

use super::{CORPUS, DATE, Pair, Side, check_same, mbox, names, some};
use crate::support::World;

const ALL: &str = "--quirks=all";

/// Checks that bogofilter, and ours with all quirks of bogofilter, give the same output.
fn same_with_faults(pair: &Pair, args: &[&str], input: &[u8]) {
    let base = ["-C", "-d", "@", "-y", DATE];
    let theirs = pair.run(Side::Theirs, "bogofilter", &[&base[..], args].concat(), input);
    let ours = pair.run(Side::Ours, "bogofilter", &[&base[..], args, &[ALL]].concat(), input);
    check_same(&theirs, &ours, &format!("{args:?}"));
    pair.same_lists(&format!("{args:?}"));
}

#[test]
fn registrations_give_the_same_lists() {
    let Some(pair) = Pair::trained(30) else { return };
    let messages = some(21, 12).unwrap();
    let bytes: Vec<Vec<u8>> = messages.iter().map(|(_, bytes)| bytes.clone()).collect();
    let mbox = mbox(&bytes);
    let files: Vec<String> = messages.iter().map(|(name, _)| name.clone()).collect();
    for args in [
        &["-s", "-v"][..],
        &["-n", "-v"],
        &["-Ns"],
        &["-Sn"],
        &["-S", "-v"],
        &["-N"],
        &["-N"],
        &["-p", "-s"],
        &["-p", "-n", "-v"],
        &["-u"],
        &["-u", "-v"],
        &["-p", "-u"],
        &["-uepv"],
        &["-u", "-o", "0.5,0.4"],
        &["-u", "--thresh-update=0.01", "-o", ".5,.4"],
        &["-l", "-u", "-v"],
    ] {
        same_with_faults(&pair, args, &bytes[0]);
    }
    for args in [
        &["-s", "-v"][..],
        &["-n", "-M", "-v"],
        &["-u", "-v", "-M", "-o", ".6,.4"],
        &["-pue", "-M"],
        &["-l", "-u", "-M", "-v"],
        &["-u", "-M", "-v", "--header-format=%h: %l %r %w %m", "-L", "x"],
    ] {
        same_with_faults(&pair, args, &mbox);
    }
    for args in [&["-n", "-b"][..], &["-u", "-b", "-v"], &["-S", "-b"]] {
        same_with_faults(&pair, args, &names(&files));
    }
    for input in [&b""[..], b"\n", b"Subject: a\n\n"] {
        same_with_faults(&pair, &["-s", "-v"], input);
    }
    pair.same(&["-C", "-d", "@", "-n", "--timestamp=no"], &bytes[1]);
    pair.same_lists("--timestamp=no");
}

/// Without `--quirks` a message counts once, and words as often as they occur.
#[test]
fn faults_are_mended_unless_asked_for() {
    let world = World::new();
    world.create_dir("list");
    let run = |args: &[&str], input: &[u8]| {
        let base = ["bogofilter", "-C", "-d", "list", "-y", DATE];
        world.run_with_input(&[&base[..], args].concat(), input)
    };
    let spam = b"From a\nSubject: cheap pills\n\n".repeat(3);
    let told = run(&["-s", "-v"], &spam).stderr;
    assert_eq!(told, "# 3 words, 3 messages\n");
    run(&["-n"], b"Subject: minutes\n\nof the meeting\n");
    let before = world.ok(&["bogoutil", "-d", "list"]);
    assert!(before.contains(".MSG_COUNT 3 1 "), "{before}");
    let code = run(&["-u", "-M", "-v", "-o", "0.9,0.4"], &spam);
    assert_eq!((code.code, code.stderr.as_str()), (0, &"# 3 words, 1 message\n".repeat(3)[..]));
    let after = world.ok(&["bogoutil", "-d", "list"]);
    assert!(after.contains(".MSG_COUNT 6 1 "), "{after}");
    run(&["-u", "-M", "-o", "0.9,0.4", "--quirks=update-counts"], &spam);
    let after = world.ok(&["bogoutil", "-d", "list"]);
    assert!(after.contains(".MSG_COUNT 12 1 "), "{after}");
}

/// Several lists, some with words that are ignored.
#[test]
fn several_lists_say_the_same() {
    let Some(pair) = Pair::trained(30) else { return };
    let messages = some(22, 5).unwrap();
    for (name, text) in [
        ("ign.db", &b"the 1 1\nfree 0 0\nand 3 3\n"[..]),
        ("sys.db", b"money 10 1\nfree 8 0\nmeeting 0 9\n.MSG_COUNT 50 50\n"),
    ] {
        pair.same_of("bogoutil", &["-y", DATE, "-l", &format!("@/{name}")], text);
    }
    let (user, system) = ("--wordlist=R,user,wordlist.db,1", "--wordlist=R,sys,sys.db,");
    for lists in [
        &[user, &format!("{system}2")[..]][..],
        &[user, &format!("{system}1")],
        &[&format!("{system}0"), user],
        &["--wordlist=I,ign,ign.db,0", user],
        &["--wordlist=i,ign,ign.db,9", user],
        &["--wordlist=I,ign,ign.db,3", user, &format!("{system}4")],
        &["--wordlist=R,none,none.db,1"],
        &["--wordlist=I,ign,ign.db,1"],
        &["--wordlist=X,ign,ign.db,1"],
    ] {
        for (_, message) in &messages {
            pair.same(&[&["-C", "-d", "@", "-vvv"], lists].concat(), message);
        }
    }
    let lists = ["--wordlist=I,ign,ign.db,1", user, &format!("{system}0")];
    pair.same(&[&["-C", "-d", "@", "-y", DATE, "-s"], &lists[..]].concat(), &messages[0].1);
    pair.same_lists("the default list");
    pair.same_of("bogoutil", &["-d", "@/sys.db"], b"");
}

/// Words in their original encoding.
#[test]
fn raw_lists_are_alike() {
    let Some(pair) = Pair::new() else { return };
    for (flag, seed) in [("-s", 23), ("-n", 24)] {
        let Some(messages) = some(seed, 40) else { return };
        let bytes: Vec<Vec<u8>> = messages.into_iter().map(|one| one.1).collect();
        let args = ["-C", "-d", "@", "-y", DATE, "--unicode=no", flag];
        pair.same(&args, &mbox(&bytes));
    }
    assert!(pair.same_lists("raw") > corpora::either(CORPUS, 5_000, 2_000));
    for (_, message) in some(25, 20).unwrap() {
        pair.same(&["-C", "-d", "@", "-p"], &message);
        pair.same(&["-C", "-d", "@", "-vvv", "--unicode=no"], &message);
    }
    pair.same(&["-C", "-d", "@", "-v", "--unicode=yes"], b"Subject: a\n\nb\n");
    pair.same_of("bogoutil", &["-y", DATE, "--unicode=yes", "-m", "@"], b"");
    pair.same_lists("made UTF-8");
}

/// bogofilter's own file, written by both programs in turn, beside one that bogofilter writes
/// alone.
#[test]
fn one_file_is_written_in_turn() {
    let Some(pair) = Pair::new() else { return };
    let Some(messages) = some(26, 40) else { return };
    let args = |flag| ["-C", "-d", "@", "-y", DATE, flag];
    let mut compared = 0;
    for (index, (_, message)) in messages.iter().enumerate() {
        let flag = ["-s", "-n", "-n", "-s", "-u", "-S"][index % 6];
        assert_eq!(pair.run(Side::Theirs, "bogofilter", &args(flag), message).status.code(), {
            // The other file is in the drop-in's folder: both programs write it.
            let both = args(flag).map(|arg| if arg == "@" { "ours" } else { arg });
            let side = if index % 2 == 0 { Side::Theirs } else { Side::Ours };
            pair.run(side, "bogofilter", &both, message).status.code()
        });
        let theirs = pair.run(Side::Theirs, "bogoutil", &["-d", "theirs"], b"");
        for side in [Side::Theirs, Side::Ours] {
            let found = pair.run(side, "bogoutil", &["-d", "ours"], b"");
            check_same(&theirs, &found, &format!("{index} {side:?}"));
            compared += 1;
        }
        let asked = ["-C", "-d", "ours", "-vvv"];
        let theirs = pair.run(Side::Theirs, "bogofilter", &asked, message);
        let ours = pair.run(Side::Ours, "bogofilter", &asked, message);
        // bogofilter crashes on a list without ham.
        if theirs.status.code().is_some() {
            check_same(&theirs, &ours, &format!("{index} -vvv"));
        }
    }
    println!("{compared} dumps alike");
    assert_eq!(compared, 80);
}

/// bogofilter's own file, written by both programs concurrently: no registration is lost.
#[test]
fn one_file_is_written_at_once() {
    const TIMES: usize = 15;
    let Some(pair) = Pair::new() else { return };
    let args = ["-C", "-d", "ours", "-y", DATE, "-s"];
    let register = |side| {
        let output = pair.run(side, "bogofilter", &args, b"Subject: pills\n\ncheap pills\n");
        assert_eq!(output.status.code(), Some(0), "{side:?}: {output:?}");
    };
    register(Side::Theirs);
    let sides = [Side::Theirs, Side::Ours, Side::Theirs, Side::Ours];
    std::thread::scope(|scope| {
        for side in sides {
            scope.spawn(move || (0..TIMES).for_each(|_| register(side)));
        }
    });
    let [theirs, ours] =
        [Side::Theirs, Side::Ours].map(|side| pair.run(side, "bogoutil", &["-d", "ours"], b""));
    check_same(&theirs, &ours, "written at once");
    let dump = String::from_utf8(ours.stdout).unwrap();
    let total = format!(".MSG_COUNT {} 0 {DATE}\n", sides.len() * TIMES + 1);
    assert!(dump.contains(&total), "{dump}");
}
