//! `barid spam` with damaged lists, invalid input, and training that is refused.

use crate::daemon::{Daemon, ask};
use crate::support::{Run, World, mbox, parse_lines};

const LEARNED: &str = "1 message learned as ham\n";

/// Returns messages of a kind, each with distinct words.
fn messages(word: &str, count: u32) -> Vec<String> {
    let message = |n| format!("Subject: {word} {n}\nFrom: a@b.example\n\nsome {word} of day{n}\n");
    (0..count).map(message).collect()
}

/// Makes a world whose list `words` knows spam about pills and ham about minutes, in one table.
fn taught() -> World {
    let world = World::new();
    for (class, word) in [("--spam", "pills"), ("--ham", "minutes")] {
        let file = world.write(&format!("{word}.mbox"), mbox(&messages(word, 25)).as_bytes());
        world.ok(&["spam", "train", "--wordlist", "words", class, &file]);
    }
    world.ok(&["spam", "maintain", "--wordlist", "words"]);
    world
}

/// Changes a word in the sorted part of the list.
fn damage(world: &World) {
    let mut bytes = world.read("words");
    let at = bytes.windows(7).position(|part| part == b"minutes").unwrap();
    bytes[at] ^= 0x10;
    world.write("words", &bytes);
}

fn with_list(world: &World, args: &[&str]) -> Run {
    world.run(&[&["spam"], args, &["--wordlist", "words"]].concat())
}

/// Checks the report of a damaged list: once, with the file, the offset and the repair.
fn tells_damage(run: &Run, file: &str) {
    let told = run.stderr.matches(": damaged at byte ").count();
    assert_eq!(told, 1, "{}", run.stderr);
    assert!(run.stderr.contains(&format!("{file}: damaged at byte ")), "{}", run.stderr);
    assert!(run.stderr.contains("`barid spam load` a dump"), "{}", run.stderr);
}

#[test]
fn a_damaged_list_is_told_and_its_sound_part_used() {
    let sound = taught();
    let dump = with_list(&sound, &["dump"]).text();
    let one = messages("minutes", 30).remove(27);
    let world = taught();
    world.write("dump", dump.as_bytes());
    let file = world.write("one.eml", one.as_bytes());
    damage(&world);
    let run = with_list(&world, &["dump"]);
    tells_damage(&run, "words");
    assert_eq!(run.code, 2);
    let before = run.text();
    assert!(before.contains("\npills 25 0 ") && !before.contains("\nminutes "), "{before}");
    let run = with_list(&world, &["stats"]);
    tells_damage(&run, "words");
    assert_eq!(run.code, 2);
    // The hash index is intact, and stays so when the list is repaired.
    assert_eq!(with_list(&world, &["train", "--ham", &file]).text(), LEARNED);
    let run = with_list(&world, &["maintain"]);
    tells_damage(&run, "words");
    assert_eq!(run.code, 0);
    let run = with_list(&world, &["dump"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert!(run.text().contains("\nminutes 0 26 ") && run.text().contains("\n.MSG_COUNT 25 26 "));
    assert!(world.list(".").iter().any(|name| name.starts_with("words.damaged-table-")));
    // The suggested repair works.
    let files = world.list(".").into_iter().filter(|name| name.starts_with("words"));
    files.for_each(|name| world.remove(&name));
    assert_eq!(with_list(&world, &["load", "dump"]).code, 0);
    assert_eq!(with_list(&world, &["dump"]).text(), dump);
}

#[test]
fn damage_of_what_is_asked_is_told_by_all_who_ask() {
    let world = taught();
    let file = world.write("one.eml", messages("minutes", 30)[27].as_bytes());
    let sound = with_list(&world, &["classify", &file]).text();
    let mut bytes = world.read("words");
    // The last block before the copy of the header has counts by hash.
    let at = bytes.len() - 128 - 1024 + 100;
    bytes[at] ^= 1;
    world.write("words", &bytes);
    for _ in 0..2 {
        let run = with_list(&world, &["classify", &file]);
        tells_damage(&run, "words");
        assert_eq!((run.code, run.text()), (0, sound.clone()));
    }
    world.write("inbox", mbox(&messages("minutes", 3)).as_bytes());
    let run = with_list(&world, &["move", "inbox", "--to", "pills.mbox", "--dry-run"]);
    tells_damage(&run, "words");
    let daemon = Daemon::start_with(world, &["--wordlist", "words"]);
    let (world, said) = daemon.end_and_keep();
    assert_eq!(said.matches("words: damaged at byte ").count(), 1, "{said}");
    let run = with_list(&world, &["train", "--ham", &file, "inbox"]);
    tells_damage(&run, "words");
    assert_eq!(run.text(), "1 message learned as ham; 3 messages counted as ham before\n");
    let run = with_list(&world, &["dump"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert!(run.text().contains("\nminutes 0 26 ") && run.text().contains("\npills 25 0 "));
}

#[test]
fn a_list_that_was_copied_without_its_log_is_told() {
    let world = taught();
    let file = world.write("one.eml", messages("pills", 30)[27].as_bytes());
    assert_eq!(with_list(&world, &["train", "--spam", &file]).code, 0);
    world.write("copy", &world.read("words"));
    let run = world.run(&["spam", "classify", "--wordlist", "copy", &file]);
    assert!(run.code == 0 && run.text().starts_with("spam "), "{}", run.text());
    assert!(
        run.stderr.contains("copy.log-") && run.stderr.contains("newest changes"),
        "{}",
        run.stderr
    );
    let before = world.run(&["spam", "dump", "--wordlist", "copy"]);
    assert_eq!(before.code, 2);
    assert!(before.text().contains("\npills 25 0 "), "{}", before.text());
    // After the repair it is a list like any other.
    world.ok(&["spam", "maintain", "--wordlist", "copy", "--quiet"]);
    assert_eq!(world.ok(&["spam", "dump", "--wordlist", "copy"]), before.text());
}

/// Makes a world whose drop-in registered three messages as spam and two as ham, with files of the
/// first of each class and of an unknown message.
fn registered() -> (World, [String; 3]) {
    let world = World::new();
    let (pills, minutes) = (messages("pills", 3), messages("minutes", 2));
    for (flag, messages) in [("-s", &pills), ("-n", &minutes)] {
        for message in messages {
            let args = ["bogofilter", "-C", "-d", ".", flag];
            assert_eq!(world.run_with_input(&args, message.as_bytes()).code, 0);
        }
    }
    let files = [("spam.eml", &pills[0]), ("ham.eml", &minutes[0])];
    let [spam, ham] = files.map(|(name, text)| world.write(name, text.as_bytes()));
    let new = world.write("new.eml", messages("watches", 1)[0].as_bytes());
    (world, [spam, ham, new])
}

fn with_db(world: &World, args: &[&str]) -> Run {
    world.run(&[&["spam"], args, &["--wordlist", "wordlist.db"]].concat())
}

/// Returns the lines of a dump whose counts are not zero, without dates.
fn counts(world: &World) -> Vec<String> {
    let text = with_db(world, &["dump"]).text();
    let lines = text.lines().map(|line| line.rsplit_once(' ').unwrap().0.to_owned());
    lines.filter(|line| !line.ends_with(" 0 0")).collect()
}

#[test]
fn what_the_drop_in_registered_is_taken_back_when_that_is_said() {
    let (world, [spam, ham, new]) = registered();
    let before = counts(&world);
    for (args, code) in [
        (&["untrain", &spam][..], 1),
        (&["untrain", "--spam", &spam, &ham], 1),
        (&["retrain", "--ham", &spam], 2),
        (&["retrain", "--ham", &new], 2),
    ] {
        let run = with_db(&world, args);
        assert_eq!(run.code, code, "{args:?}: {}", run.stderr);
        assert!(run.text().contains("without a receipt, left unchanged"), "{}", run.text());
        assert!(run.stderr.contains("--registered"), "{}", run.stderr);
        assert_eq!(counts(&world), before, "{args:?}");
    }
    assert_eq!(with_db(&world, &["untrain", "--registered", &spam]).code, 2);
    // As bogofilter does it.
    let run = with_db(&world, &["retrain", "--registered", "--ham", &spam]);
    assert_eq!((run.text().as_str(), run.stderr.as_str()), ("1 message moved to ham\n", ""));
    let (other, [its, ..]) = registered();
    let text = other.read("spam.eml");
    let run = other.run_with_input(&["bogofilter", "-C", "-d", ".", "-Sn"], &text);
    assert_eq!((run.code, counts(&other)), (0, counts(&world)));
    // From now on there is a receipt, and nothing counts twice.
    let run = with_db(&world, &["retrain", "--registered", "--ham", &spam]);
    assert_eq!(run.text(), "1 message counted as ham before\n");
    assert_eq!(with_db(&world, &["untrain", &spam]).text(), "1 message untrained\n");
    let args = ["untrain", "--registered", "--ham", &its, &ham];
    assert_eq!(with_db(&other, &args).text(), "2 messages untrained\n");
    assert_eq!(
        with_db(&other, &["untrain", "--registered", "--ham", &ham]).text().lines().count(),
        1
    );
}

#[test]
fn the_daemon_takes_back_what_the_drop_in_registered() {
    let (world, [spam, ..]) = registered();
    let text = String::from_utf8(world.read("spam.eml")).unwrap();
    let daemon = Daemon::start_in(world, &[]);
    let mut stream = daemon.connect();
    for (fields, became) in [
        ("Class: ham\n", "unreceipted"),
        ("Class: ham\nRegistered: yes\n", "moved"),
        ("Class: ham\nRegistered: yes\n", "already"),
    ] {
        let (head, _) = ask(&mut stream, "retrain", fields, &text);
        assert!(head.contains(&format!("\nbecame: {became}\n")), "{head}");
    }
    let (world, _) = daemon.end_and_keep();
    assert_eq!(with_db(&world, &["untrain", &spam]).text(), "1 message untrained\n");
    assert!(counts(&world).contains(&".MSG_COUNT 2 2".to_owned()), "{:?}", counts(&world));
}

#[test]
fn no_more_is_taken_back_than_was_registered() {
    let (world, [_, ham, new]) = registered();
    let all: Vec<String> = messages("minutes", 2);
    let second = world.write("second.eml", all[1].as_bytes());
    let args = ["untrain", "--registered", "--ham", &ham, &ham, &second, &new];
    let run = with_db(&world, &args);
    assert_eq!(run.text(), "2 messages untrained; 2 messages never trained\n");
    assert_eq!(run.stderr, "");
    let left = counts(&world);
    assert!(left.contains(&".MSG_COUNT 3 0".to_owned()), "{left:?}");
    assert!(!left.iter().any(|line| line.contains("minutes")), "{left:?}");
    let run = with_db(&world, &args);
    assert_eq!((run.code, run.text().as_str()), (1, "4 messages never trained\n"));
    assert_eq!(counts(&world), left);
    // No message is registered as ham any more, so this one is new.
    assert_eq!(with_db(&world, &["retrain", "--spam", &new]).text(), "1 message learned as spam\n");
}

#[test]
fn an_mbox_on_standard_input_is_its_messages() {
    let world = World::new();
    let junk = mbox(&messages("pills", 5));
    let list = ["--wordlist", "words"];
    let spam = |command: &[&str], input: &str| {
        let run = world.run_with_input(&[&["spam"], command, &list].concat(), input.as_bytes());
        assert_eq!(run.stderr, "", "{command:?}");
        run.text()
    };
    assert_eq!(spam(&["train", "--spam"], &junk), "5 messages learned as spam\n");
    assert_eq!(
        spam(&["train", "--ham"], &mbox(&messages("minutes", 5))),
        "5 messages learned as ham\n"
    );
    let all = [messages("pills", 2), messages("minutes", 1)].concat();
    let told = spam(&["classify"], &mbox(&all));
    let lines: Vec<&str> = told.lines().map(|line| line.trim_start()).collect();
    assert!(lines.len() == 3 && lines[0].starts_with("1  spam  "), "{told}");
    assert!(lines[2].starts_with("3  ham ") && lines[2].ends_with("  minutes 0"), "{told}");
    let told = parse_lines(&spam(&["classify", "--json", "--explain"], &mbox(&all)));
    assert_eq!((&told[1]["mailbox"], &told[1]["uid"]), (&"-".into(), &2.into()));
    // One message with a From_ line, and with text that looks like one.
    let one = messages("watches", 1).remove(0) + "\nFrom now on watches are cheap\n";
    let delivered = format!("From a@b.example Tue Mar  5 12:22:10 2024\n{one}");
    assert_eq!(spam(&["train", "--spam"], &delivered), "1 message learned as spam\n");
    assert_eq!(spam(&["untrain"], &one), "1 message untrained\n");
    assert_eq!(spam(&["untrain"], &junk), "5 messages untrained\n");
}

#[test]
fn nothing_is_no_message() {
    let world = taught();
    for command in [&["classify"][..], &["train", "--spam"], &["untrain"]] {
        let run = world.run_with_input(&[&["spam"], command].concat(), b"");
        assert_eq!((run.code, run.text().as_str()), (2, ""), "{command:?}");
        assert!(run.stderr.contains("empty: not a message"), "{}", run.stderr);
    }
    let empty = world.write("empty", b"");
    let run = with_list(&world, &["classify", &empty]);
    assert_eq!((run.code, run.stderr.contains("no message to classify")), (0, true));
    let folder = world.maildir("folder", &[]);
    assert_eq!(with_list(&world, &["classify", &folder]).stderr, "");
    // The message must not be reported as spam.
    assert_eq!(with_list(&world, &["classify", "--exit-code", &folder]).code, 3);
    assert_eq!(with_list(&world, &["classify", "--exit-code", &empty]).code, 3);
}

#[test]
fn what_is_no_dump_is_not_loaded() {
    let world = taught();
    let before = with_list(&world, &["dump"]).text();
    let mail = world.write("mail.eml", messages("pills", 1)[0].as_bytes());
    let late = world.write("late", b"one 1 2 20261122\ntwo 1 2\nthree\n");
    for (name, line) in [(&mail, "mail.eml: line 1: "), (&late, "late: line 3: ")] {
        let run = with_list(&world, &["load", name]);
        assert_eq!((run.code, run.text().as_str()), (2, ""));
        assert!(run.stderr.contains(line) && run.stderr.contains("hint: "), "{}", run.stderr);
        let run = world.run(&["spam", "load", "--wordlist", "new", name]);
        assert!(run.code == 2 && !world.has("new") && !world.has("new.lock"));
    }
    assert_eq!(with_list(&world, &["dump"]).text(), before);
    let run = world.run_with_input(&["spam", "load", "--wordlist", "words"], b"no dump\n");
    assert!(run.code == 2 && run.stderr.contains("standard input: line 1: "), "{}", run.stderr);
}

#[test]
fn a_list_is_not_merged_with_itself() {
    let world = taught();
    let before = with_list(&world, &["dump"]).text();
    let other = world.path("./words");
    for name in ["words", other.to_str().unwrap()] {
        let run = with_list(&world, &["merge", name]);
        assert_eq!((run.code, run.stderr.contains("the list itself")), (2, true), "{}", run.stderr);
    }
    assert_eq!(with_list(&world, &["dump"]).text(), before);
}

#[test]
fn values_that_are_none_are_told_with_an_example() {
    let world = taught();
    for (args, example) in [
        (["--age", "x"], "180"),
        (["--age", "20261332"], "20261122"),
        (["--count", "many"], "as in 1"),
        (["--len", "3"], "3,30"),
        (["--len", "30,3"], "3,30"),
    ] {
        let run = with_list(&world, &[&["maintain"], &args[..]].concat());
        assert_eq!((run.code, run.stderr.contains(example)), (2, true), "{args:?}: {}", run.stderr);
    }
    assert_eq!(with_list(&world, &["maintain", "--age", "180", "--len", "1,30"]).code, 0);
}

#[test]
fn mail_of_both_classes_is_told() {
    let world = taught();
    let run = with_list(&world, &["train", "--ham", "pills.mbox"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("`barid spam train --retrain --ham`"), "{}", run.stderr);
    let tune = ["tune", "--spam", "pills.mbox", "--ham", "minutes.mbox", "pills.mbox"];
    let run = with_list(&world, &[&tune[..], &["--folds", "5"]].concat());
    assert!(run.stderr.contains("25 messages given as spam and as ham"), "{}", run.stderr);
    assert!(run.stderr.contains("may be chance"), "{}", run.stderr);
}

#[test]
fn lists_are_their_owners_alone() {
    let world = taught();
    let dump = with_list(&world, &["dump"]).text();
    world.write("dump", dump.as_bytes());
    world.write("one.eml", messages("pills", 1)[0].as_bytes());
    world.ok(&["spam", "train", "--spam", "one.eml"]);
    world.ok(&["spam", "load", "--wordlist", "lists/loaded", "dump"]);
    world.ok(&["spam", "merge", "--wordlist", "lists/merged", "words"]);
    world.create_dir("bogo");
    world.ok(&["bogoutil", "-l", "bogo/list.db", "-I", "dump"]);
    for args in [&["-s", "-I", "one.eml"][..], &["-u", "-I", "one.eml"]] {
        world.run(&[&["bogofilter", "-C", "-d", "bogo"], args].concat());
    }
    // A list that others could read is made private.
    world.set_mode("words", 0o644);
    world.write("new.eml", messages("watches", 1)[0].as_bytes());
    world.ok(&["spam", "train", "--wordlist", "words", "--ham", "new.eml"]);
    world.ok(&["spam", "maintain", "--wordlist", "words", "--count", "0"]);
    let mut seen = 0;
    for folder in [".", "lists", "bogo", "home/.local/state/barid/spam"] {
        let is_list = |name: &String| {
            ["words", "loaded", "merged", "list.db", "wordlist"]
                .iter()
                .any(|it| name.starts_with(it))
        };
        for name in world.list(folder).into_iter().filter(is_list) {
            let stat = rustix::fs::stat(world.path(folder).join(&name)).unwrap();
            assert_eq!(stat.st_mode & 0o777, 0o600, "{folder}/{name}");
            seen += 1;
        }
    }
    assert!(seen >= 15, "{seen}");
}

#[test]
fn who_stops_reading_ends_it_quietly() {
    let world = taught();
    let lines: String = (0..200_000).map(|n| format!("word{n} 1 1 20261122\n")).collect();
    world.write("dump", lines.as_bytes());
    world.ok(&["spam", "load", "--wordlist", "large", "dump"]);
    for args in ["dump --wordlist large", "dump --json --wordlist large"] {
        let mut child =
            world.start(&[&["spam"], &args.split(' ').collect::<Vec<_>>()[..]].concat());
        let mut out = child.stdout.take().unwrap();
        std::io::Read::read_exact(&mut out, &mut [0; 10]).unwrap();
        drop(out);
        let run = Run::of(child.wait_with_output().unwrap());
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{args}");
    }
}

#[test]
fn a_folder_in_which_no_file_can_be_made_is_told_with_the_way_out() {
    let world = taught();
    world.write("one.eml", messages("watches", 1)[0].as_bytes());
    // Nobody can create files there, not even root.
    for list in ["/sys/kernel/words", "/sys/kernel/folder/words"] {
        let run = world.run(&["spam", "train", "--spam", "--wordlist", list, "one.eml"]);
        assert_eq!((run.code, run.text().as_str()), (2, ""));
        assert!(
            run.stderr.contains("hint: ") && run.stderr.contains("--wordlist PATH"),
            "{}",
            run.stderr
        );
    }
}
