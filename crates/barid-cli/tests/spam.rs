//! `barid spam`.

use std::path::Path;
use std::process::Command;

use barid_testkit::peers::Bogofilter;
use barid_testkit::skip_or_fail;

use crate::support::{World, mbox, parse_lines};

/// Returns messages of a kind, each with distinct words.
pub(crate) fn messages(word: &str, count: u32) -> Vec<String> {
    let message = |n| format!("Subject: {word} {n}\nFrom: a@b.example\n\nsome {word} of day{n}\n");
    (0..count).map(message).collect()
}

/// Makes a world whose filter knows spam about pills and ham about minutes.
pub(crate) fn taught() -> World {
    let world = World::new();
    let pills = messages("pills", 20);
    let pills: Vec<&str> = pills.iter().map(String::as_str).collect();
    let spam = world.maildir("junk", &pills);
    let ham = world.write("ham.mbox", mbox(&messages("minutes", 25)).as_bytes());
    assert_eq!(world.ok(&["spam", "train", "--spam", &spam]), "20 messages learned as spam\n");
    assert_eq!(world.ok(&["spam", "train", "--ham", &ham]), "25 messages learned as ham\n");
    world
}

#[test]
fn a_compressed_mailbox_is_taught_as_its_messages() {
    let world = World::new();
    world.write("box.mbox", mbox(&messages("pills", 3)).as_bytes());
    let gzip = Command::new("gzip").args(["-k", "box.mbox"]).current_dir(world.path("")).status();
    if !gzip.is_ok_and(|status| status.success()) {
        return skip_or_fail("the program `gzip`");
    }
    let packed = world.read("box.mbox.gz");
    let train = ["spam", "train", "--spam"];
    assert_eq!(world.ok(&[&train[..], &["box.mbox.gz"]].concat()), "3 messages learned as spam\n");
    let again = world.json(&[&train[..], &["box.mbox.gz"]].concat());
    assert_eq!((&again[0]["messages"], &again[0]["already"]), (&3.into(), &3.into()));
    assert!(world.ok(&["spam", "dump"]).contains("\npills 3 0 "));

    // Compressed, and no mailbox.
    world.write("one.eml.gz", &packed[..packed.len() / 2]);
    let run = world.run(&[&train[..], &["one.eml.gz"]].concat());
    assert!(run.code == 2 && run.stderr.contains("one.eml.gz"), "{}", run.stderr);
    let run = world.run_with_input(&train, &packed);
    assert!(run.code == 2 && run.stderr.contains("standard input: compressed"), "{}", run.stderr);
}

#[test]
fn what_was_taught_as_the_other_class_is_told_and_moved() {
    let world = World::new();
    let path = world.maildir("box", &["Subject: a\n\nsome words\n", "Subject: b\n\nothers\n"]);
    world.ok(&["spam", "train", "--spam", &path]);
    let run = world.run(&["--quiet", "spam", "train", "--ham", &path]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    let told = "error: 2 messages given as ham were trained as spam before, and stay so";
    assert!(run.stderr.contains(told) && run.stderr.contains("train --retrain --ham"));
    let text = world.ok(&["spam", "train", "--retrain", "--ham", &path]);
    assert_eq!(text, "2 messages moved to ham\n");
    world.ok(&["spam", "train", "--ham", &path]);
}

#[test]
fn what_was_taught_is_told_and_not_taught_twice() {
    let world = taught();
    let again = world.json(&["spam", "train", "--spam", "junk"]);
    assert_eq!((&again[0]["type"], &again[0]["already"]), (&"spam_trained".into(), &20.into()));
    assert_eq!((&again[0]["trained"], &again[0]["generation"]), (&0.into(), &().into()));
    let stats = world.json(&["spam", "stats"]);
    assert_eq!((&stats[0]["spam_messages"], &stats[0]["ham_messages"]), (&20.into(), &25.into()));
    assert_eq!(stats[0]["receipts"], 45);
    let before = world.ok(&["spam", "dump"]);
    assert!(before.contains("\npills 20 0 ") && before.contains("\nminutes 0 25 "), "{before}");

    let one = world.write("one.eml", messages("pills", 1)[0].as_bytes());
    let told = world.json(&["spam", "retrain", "--ham", &one]);
    assert_eq!((&told[0]["moved"], &told[0]["class"]), (&1.into(), &"ham".into()));
    assert!(world.ok(&["spam", "dump"]).contains("\npills 19 1 "));
    assert_eq!(world.ok(&["spam", "retrain", "--spam", &one]), "1 message moved to spam\n");
    assert_eq!(world.ok(&["spam", "dump"]), before);
    assert_eq!(world.ok(&["spam", "untrain", &one]), "1 message untrained\n");
    let run = world.run(&["spam", "untrain", &one]);
    assert_eq!((run.code, run.text().as_str()), (1, "1 message never trained\n"));
    let run = world.run(&["spam", "untrain", "--ham", "junk", "--verbose"]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("stays counted as spam"), "{}", run.stderr);
    let text = messages("pills", 1).remove(0);
    let run = world.run_with_input(&["spam", "train", "--spam"], text.as_bytes());
    assert_eq!((run.code, run.text().as_str()), (0, "1 message learned as spam\n"));
    assert_eq!(world.ok(&["spam", "dump"]), before);
}

#[test]
fn messages_are_classified_wherever_they_are() {
    let world = taught();
    let spam = messages("pills", 30).remove(25);
    let run = world.run_with_input(&["spam", "classify"], spam.as_bytes());
    assert_eq!((run.code, run.text().split_whitespace().next()), (0, Some("spam")));
    let ham = world.write("ham.eml", messages("minutes", 30)[27].as_bytes());
    let other = world.write("other.eml", b"Subject: hello\n\nnothing known\n");
    let text = world.ok(&["spam", "classify", &ham, &other]);
    let words: Vec<&str> = text.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(words, ["ham", "unsure"], "{text}");
    for (file, code) in [(&ham, 1), (&other, 2), (&"missing".to_owned(), 3)] {
        assert_eq!(world.run(&["spam", "classify", "--exit-code", file]).code, code, "{file}");
    }
    let run = world.run_with_input(&["spam", "classify", "--exit-code"], spam.as_bytes());
    assert_eq!(run.code, 0);
    let explained = world.ok(&["spam", "classify", "--explain", &ham]);
    assert!(explained.contains("  25 ham  minutes\n"), "{explained}");
    let explained = world.json(&["spam", "classify", "--explain", &ham]);
    let tokens = explained[0]["tokens"].as_array().unwrap();
    assert_eq!(tokens.len() as u64, explained[0]["used"].as_u64().unwrap());
    assert_eq!(world.run(&["spam", "classify", "--wordlist", "none", &ham]).code, 2);
}

#[test]
fn scores_of_a_mailbox_are_kept() {
    let world = taught();
    let mail = [messages("pills", 3), messages("minutes", 3)].concat();
    let inbox = world.write("inbox", mbox(&mail).as_bytes());
    let text = world.ok(&["spam", "classify", &inbox]);
    assert!(text.starts_with("     1  spam    ") && text.contains("  minutes 2\n"), "{text}");
    assert_eq!(text.lines().count(), 6);
    let kept = |found: &[serde_json::Value]| found.iter().filter(|it| it["kept"] == true).count();
    assert_eq!(kept(&world.json(&["spam", "classify", &inbox])), 6);
    assert_eq!(kept(&world.json(&["spam", "classify", "--rescore", &inbox])), 0);
    assert_eq!(kept(&world.json(&["spam", "classify", "--robs", "0.1", &inbox])), 0);
    world.json(&["spam", "classify", &inbox]);
    let more = [mail, messages("pills", 5)[4..].to_vec()].concat();
    world.write("inbox", mbox(&more).as_bytes());
    world.ok(&["spam", "untrain", "junk", "--uids", "7"]);
    let run = world.run(&["spam", "classify", "--json", &inbox]);
    let found = parse_lines(&run.text());
    assert_eq!((found.len(), kept(&found)), (7, 6), "{found:?}");
    assert!(run.stderr.contains("6 scores from before the last training"), "{}", run.stderr);
    let some = world.json(&["spam", "classify", &inbox, "--uids", "2:3", "--quiet"]);
    assert_eq!((some.len(), &some[0]["uid"]), (2, &2.into()));
}

#[test]
fn spam_is_moved() {
    let world = taught();
    let mail = [messages("pills", 3), messages("minutes", 2)].concat();
    let inbox = world.write("inbox", mbox(&mail).as_bytes());
    world.ok(&["spam", "classify", &inbox]);
    let plan = world.ok(&["spam", "move", &inbox, "--to", "junk", "--dry-run"]);
    assert_eq!(plan, "3 messages would be moved\n");
    world.ok(&["spam", "retrain", "--ham", &inbox, "--uids", "2"]);
    // The junk folder already has the same messages, byte for byte: no second copy is made.
    let moved = world.json(&["spam", "move", &inbox, "--to", "junk"]);
    assert_eq!((&moved[0]["moved"], &moved[0]["trusted"]), (&2.into(), &1.into()));
    let moved = world.json(&["spam", "move", &inbox, "--to", "mbox:new", "--create"]);
    assert_eq!((&moved[0]["moved"], &moved[0]["spam"]), (&0.into(), &1.into()));
    assert_eq!(world.json(&["status", &inbox])[0]["messages"], 3);
    assert_eq!(world.run(&["spam", "move", &inbox, "--to", &inbox]).code, 2);
    for option in ["--uidvalidity=1", "--attachments", "--fold-accents"] {
        let run = world.run(&["spam", "move", &inbox, "--to", "junk", option]);
        assert_eq!(run.code, 2, "{option}");
        assert!(run.stderr.contains("nothing is moved"), "{option}: {}", run.stderr);
    }
    assert_eq!(world.run(&["spam", "move", &inbox, "--to", "junk", "--read-only"]).code, 2);
}

#[test]
fn spam_among_selected_messages_is_moved() {
    let world = taught();
    let mail = [messages("pills", 4), messages("minutes", 2)].concat();
    let inbox = world.write("inbox", mbox(&mail).as_bytes());
    world.write("caught", b"");
    let subjects = |mailbox: &str| {
        let lines = world.json(&["ls", &format!("mbox:{mailbox}")]);
        let subjects = lines.iter().map(|line| line["subject"].as_str().unwrap().to_owned());
        subjects.collect::<Vec<_>>().join(", ")
    };
    let spam_move = |more: &[&str]| {
        world.run(&[&["spam", "move", &inbox, "--to", "mbox:caught"], more].concat())
    };
    for (words, code, message) in [
        (&["subject:nothing"][..], 1, ""),
        (&["71,90:95"], 1, "no message with UID 71"),
        (&["90:95"], 1, ""),
        (&[""], 2, "an empty list of messages: nothing is moved"),
        (&["subject:\"\""], 2, "an empty text is in every message: nothing is moved"),
        (&["subject:pills", "2"], 2, "UIDs cannot be mixed with other words"),
        (&["2", "--uidvalidity", "7"], 2, "not 7: nothing is changed"),
        (&["5:*"], 0, ""),
        (&["1:3", "--dry-run"], 0, ""),
    ] {
        let run = spam_move(words);
        assert!(run.code == code && run.stderr.contains(message), "{words:?}: {}", run.stderr);
    }
    assert_eq!((subjects("inbox").matches(", ").count(), subjects("caught").as_str()), (5, ""));
    let plan = spam_move(&["1:3", "5", "--dry-run"]);
    assert_eq!(plan.text(), "3 messages would be moved\n");
    // Spam that was not selected stays, and so does selected mail that is no spam.
    let run = spam_move(&["--json", "subject:/(pills|minutes) [01]/"]);
    let moved = &parse_lines(&run.text())[0];
    assert_eq!((run.code, &moved["kept"], &moved["moved"]), (0, &4.into(), &2.into()));
    assert_eq!(subjects("inbox"), "pills 2, pills 3, minutes 0, minutes 1");
    assert_eq!(subjects("caught"), "pills 0, pills 1");
    let run = spam_move(&["4,71"]);
    assert!(run.code == 1 && run.stderr.contains("UID 71"), "{}", run.stderr);
    assert_eq!(subjects("inbox"), "pills 2, minutes 0, minutes 1");
    spam_move(&["-subject:minutes"]);
    assert_eq!(subjects("inbox"), "minutes 0, minutes 1");
    assert_eq!(subjects("caught"), "pills 0, pills 1, pills 3, pills 2");
}

#[test]
fn lists_are_dumped_loaded_merged_and_maintained() {
    let world = taught();
    let dump = world.ok(&["spam", "dump"]);
    let file = world.write("words.txt", dump.as_bytes());
    let loaded = world.json(&["spam", "load", "--wordlist", "new/words", &file]);
    assert_eq!(loaded[0]["tokens"], dump.lines().count());
    assert_eq!(world.ok(&["spam", "dump", "--wordlist", "new/words"]), dump);
    let run = world.run_with_input(&["spam", "load", "--wordlist", "other"], dump.as_bytes());
    assert_eq!(run.code, 0);
    world.ok(&["spam", "merge", "--wordlist", "other", "new/words"]);
    let merged = world.ok(&["spam", "dump", "--wordlist", "other"]);
    assert!(merged.contains("\npills 40 0 ") && merged.contains("\n.MSG_COUNT 40 50 "), "{merged}");
    let done = world.json(&["spam", "maintain", "--wordlist", "other", "--count", "2", "--robx"]);
    assert!(done[0]["dropped"].as_u64().unwrap() > 20 && done[0]["robx"].is_f64(), "{done:?}");
    assert!(world.ok(&["spam", "dump", "--wordlist", "other"]).contains("\n.ROBX "));
    let text = world.ok(&["spam", "stats", "--wordlist", "other"]);
    assert!(text.contains("          50 ham messages\n"), "{text}");
    let bad = world.run_with_input(&["spam", "load", "--wordlist", "other"], b"two words 1 1 1\n");
    assert_eq!((bad.code, bad.stderr.contains("line 1")), (2, true), "{}", bad.stderr);
}

#[test]
fn bogofilter_says_the_same() {
    let Some(peer) = Bogofilter::new() else { return };
    let world = World::new();
    let folder = world.create_dir("theirs");
    let folder = Path::new(&folder);
    let (pills, minutes) = (messages("pills", 12), messages("minutes", 9));
    for (flag, option, messages) in [("-s", "--spam", &pills), ("-n", "--ham", &minutes)] {
        for message in messages {
            let theirs = peer.filter(folder, &[flag, "-y", "20260102"], message.as_bytes());
            assert!(theirs.unwrap().status.success());
            let args = ["spam", "train", option, "--date", "20260102"];
            assert_eq!(world.run_with_input(&args, message.as_bytes()).code, 0);
        }
    }
    let list = folder.join("wordlist.db").into_os_string();
    let theirs = peer.util(&["-d".into(), list], b"").unwrap().stdout;
    // The keys of a list contain the day on which it was made.
    let same = |text: &[u8]| {
        let text = String::from_utf8_lossy(text);
        let lines = text.lines().map(|line| match line.starts_with(".MSG") {
            false if line.starts_with('.') => line.rsplit_once(' ').unwrap().0.to_owned(),
            _ => line.to_owned(),
        });
        lines.collect::<Vec<String>>()
    };
    assert_eq!(same(world.ok(&["spam", "dump"]).as_bytes()), same(&theirs));
    for message in [&pills[3], &minutes[4], &"Subject: pills\n\nminutes of pills\n".to_owned()] {
        let theirs = peer.filter(folder, &["-TT"], message.as_bytes()).unwrap();
        let text = String::from_utf8(theirs.stdout).unwrap();
        let expected: f64 = text.split_whitespace().last().unwrap().parse().unwrap();
        let run = world.run_with_input(&["spam", "classify", "--json"], message.as_bytes());
        let found = parse_lines(&run.text());
        let spamicity = found[0]["spamicity"].as_f64().unwrap();
        assert!((spamicity - expected).abs() <= 1e-12, "{spamicity} and {text}");
        let codes = world.run_with_input(&["spam", "classify", "--exit-code"], message.as_bytes());
        assert_eq!(Some(codes.code), theirs.status.code());
    }
}

/// The JSON dump has the same contents as the text dump.
#[test]
fn words_are_dumped_as_json() {
    let world = taught();
    let words = world.json(&["spam", "dump"]);
    let lines: Vec<String> = words
        .iter()
        .map(|word| {
            assert_eq!((&word["v"], &word["type"]), (&1.into(), &"spam_word".into()));
            let date = word["date"].as_u64().map_or(String::new(), |date| format!(" {date}"));
            let token = word["token"].as_str().unwrap();
            format!("{token} {} {}{date}\n", word["spam"], word["ham"])
        })
        .collect();
    assert!(lines.len() > 10);
    assert_eq!(lines.concat(), world.ok(&["spam", "dump"]));
    world.write("undated", b"old 1 2\n");
    world.ok(&["spam", "load", "--wordlist", "new/words", "--date", "0", "undated"]);
    let undated = world.json(&["spam", "dump", "--wordlist", "new/words"]);
    assert_eq!((&undated[0]["token"], &undated[0]["date"]), (&"old".into(), &().into()));
}

/// The file with the tuned parameters is also read by bogofilter and the drop-in.
#[test]
fn chosen_parameters_are_those_of_bogofilter() {
    let world = taught();
    let tune = ["spam", "tune", "--spam", "junk", "--ham", "ham.mbox", "--folds", "5", "--quiet"];
    let write = ["--bogofilter-config", "tuned.cf"];
    let chosen = world.json(&[&tune[..], &write].concat()).remove(0);
    assert!(world.ok(&[&tune[..], &write].concat()).contains("\nwritten to tuned.cf"));
    let said = world.ok(&["bogofilter", "-c", "tuned.cf", "-d", "list", "-QQQ"]);
    for name in ["robx", "robs", "min_dev", "ham_cutoff", "spam_cutoff", "ns_esf", "sp_esf"] {
        let expected = format!("{:.6}", chosen["parameters"][name].as_f64().unwrap());
        let line = said.lines().find(|line| line.split(' ').next() == Some(name)).unwrap();
        assert!(line.contains(&format!(" = {expected}  # ")), "{line}: {expected}");
    }
    let run = world.run(&[&tune[..], &write, &["--profile", "modern"]].concat());
    assert_eq!(
        (run.code, run.stderr.contains("--profile bogofilter")),
        (2, true),
        "{}",
        run.stderr
    );
    let Some(peer) = Bogofilter::new() else { return };
    let mut theirs = peer.filter_command();
    let theirs = theirs.args(["-c", "tuned.cf", "-d", "list", "-QQQ"]);
    let theirs = theirs.current_dir(world.path(".")).output().unwrap();
    assert_eq!((theirs.status.code(), &theirs.stderr[..]), (Some(0), &b""[..]));
    assert_eq!(without_dates(&String::from_utf8_lossy(&theirs.stdout)), without_dates(&said));
}

/// Returns the lines without the date of the run.
fn without_dates(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with("timestamp-date")).collect()
}

#[test]
fn parameters_are_chosen_drawn_and_saved() {
    let world = taught();
    let tune = ["spam", "tune", "--spam", "junk", "--ham", "ham.mbox", "--folds", "5", "--quiet"];
    let text = world.ok(&[&tune[..], &["--roc", "roc.svg", "--save"]].concat());
    assert!(text.starts_with("20 spam and 25 ham, in 5 folds; "), "{text}");
    assert!(text.contains("\nrecommended:\n  robx=") && text.contains("\nsaved in "), "{text}");
    let svg = world.read("roc.svg");
    let svg = String::from_utf8_lossy(&svg);
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
    assert_eq!(svg.matches("recommended").count(), 1);
    let told = world.json(&tune);
    assert_eq!((&told[0]["type"], &told[0]["spam"]), (&"spam_tuned".into(), &20.into()));
    assert!(told[0]["tried"].as_u64().unwrap() > 100, "{told:?}");
    let counted = world.json(&[&tune[..], &["--evaluate"]].concat());
    assert_eq!((&counted[0]["tried"], &counted[0]["recommended"]), (&1.into(), &().into()));
    // Messages without a date cannot be split by date.
    let run = world.run(&[&tune[..], &["--chronological"]].concat());
    assert_eq!((run.code, run.stderr.contains("at least 5 of each class")), (2, true));
    let run = world.run(&["spam", "tune", "--spam", "junk", "--ham", "-"]);
    assert_eq!(run.code, 2);
}

#[test]
fn saved_parameters_decide() {
    let world = taught();
    let mail = messages("pills", 30).remove(25);
    let spam = world.write("spam.eml", mail.as_bytes());
    let score = |args: &[&str]| {
        let found = world.json(&[&["spam", "classify", &spam], args].concat());
        (found[0]["status"].as_str().unwrap().to_owned(), found[0]["used"].as_u64().unwrap())
    };
    let (status, used) = score(&[]);
    assert_eq!(status, "spam");
    world.ok(&["spam", "tune", "--quiet", "--spam", "junk", "--ham", "ham.mbox", "--save"]);
    let list = world.ok(&["spam", "stats", "--json"]);
    let list = parse_lines(&list)[0]["wordlist"].as_str().unwrap().to_owned();
    let saved = format!("{list}.parameters");
    world.write(&saved, b"profile=bogofilter\nmin_dev=0.4999\nspam_cutoff=1\n");
    assert!(score(&[]).1 < used, "no fewer words count");
    assert_eq!(score(&["--min-dev", "0.375"]), ("unsure".to_owned(), used));
    assert_eq!(score(&["--min-dev", "0.375", "--spam-cutoff", "0.99"]), (status, used));
    let run = world.run(&["spam", "classify", "--profile", "modern", &spam]);
    assert!(run.stderr.contains("for another --profile"), "{}", run.stderr);
    world.write(&saved, b"min_dev=2\n");
    let run = world.run(&["spam", "classify", &spam]);
    assert_eq!((run.code, run.stderr.contains("line 1")), (2, true), "{}", run.stderr);
}
