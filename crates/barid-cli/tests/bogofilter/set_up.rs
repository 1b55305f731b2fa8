//! Configuration files, folders, and invalid arguments.

use barid_testkit::peers::feed;

use super::{DATE, Pair, Side, check_same, some};
use crate::support::{Run, World};

const SETTINGS: &str = "\
# a comment
; another

spam_cutoff=0.7
Ham-Cutoff 0.3   # why
header_format = %h: %c, p=%p
spamicity_tags= Yes, No, Huh
spamicity_formats = %0.3f, %0.4f, %0.5f
spam_subject_tag=[SPAM]
unsure_subject_tag=''
min_dev=0.2
terse_format=%c|%p
thresh_update=0.01
block_on_subnets=yes
stats-in-header=no
";
const OTHERS: &str = "\
spam_cutoff=0.7
terse yes
spam_header_place=To:
no-header-tags=yes
report-unsure=yes
token_count_min = 15
charset_default=utf-8
log_header_format=%h
timestamp=no
db_cachesize=8
user_config_file=/nowhere
";

#[test]
fn configuration_files_say_the_same() {
    let Some(pair) = Pair::trained(30) else { return };
    let files = [SETTINGS, OTHERS, "spam_cutoff=0.7\nheader_place=x\n", "spam_cutoff\n", ""];
    for (index, text) in files.iter().enumerate() {
        let path = pair.world.write(&format!("{index}.cf"), text.as_bytes());
        let user = format!("--user-config-file={path}");
        let short = ["-d", "@", "-c", &path[..]];
        let runs =
            [&["-v"][..], &["-p"], &["-t"], &["-vv"], &["-v", "--spam-cutoff=0.99"], &["-C", "-v"]];
        for (_, message) in some(index as u64, 3).unwrap() {
            for flags in runs.iter().chain(&[&["-Q", "-y", DATE][..]]) {
                // bogofilter does not report why a file with an unknown setting is invalid.
                let args = [&short[..], flags].concat();
                match index {
                    2 | 3 => same_but_for_words(&pair, &args, &message),
                    _ => drop(pair.same(&args, &message)),
                }
            }
            pair.same(&["-d", "@", &user, "-v"], &message);
        }
    }
    let (_, message) = some(31, 1).unwrap().remove(0);
    pair.same(&["-d", "@", "--config-file=nowhere", "-v"], &message);
}

#[test]
fn a_configuration_that_cannot_be_read_is_told_by_its_error() {
    let Some(pair) = Pair::new() else { return };
    for (args, reason) in [
        (["-c", "."], "Cannot open .: Is a directory"),
        (["-c", "nowhere"], "Cannot open nowhere: No such file or directory"),
    ] {
        let output = pair.run(Side::Ours, "bogofilter", &args, b"");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains(reason), "{text}");
    }
}

fn same_but_for_words(pair: &Pair, args: &[&str], message: &[u8]) {
    let [mut theirs, mut ours] =
        [Side::Theirs, Side::Ours].map(|side| pair.run(side, "bogofilter", args, message));
    for output in [&mut theirs, &mut ours] {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let said = text.lines().map(|line| match line.split_once(": ") {
            Some((start, _)) if start.starts_with("Cannot open") => start.to_owned(),
            _ => line.to_owned(),
        });
        output.stderr = said.collect::<Vec<_>>().join("\n").into_bytes();
    }
    check_same(&theirs, &ours, &format!("{args:?}"));
}

#[test]
fn settings_are_told_alike() {
    let Some(pair) = Pair::trained(50) else { return };
    for flags in [
        &["-Q"][..],
        &["-Q", "--ham-cutoff=0"],
        &["-Q", "-m", "0.1,0.00001,0.9"],
        &["-Q", "--robx=0.000123"],
        &["-Q", "--spam-subject-tag=S", "--charset-default=utf-8", "--unicode=yes"],
    ] {
        pair.same(&[&["-C", "-d", "@", "-y", DATE], flags].concat(), b"");
    }
    for flags in [&["-QQ"][..], &["-QQ", "-L", "tag", "-H", "-U"], &["-QQQ"]] {
        let [theirs, ours] = [Side::Theirs, Side::Ours].map(|side| {
            let args = [&["-C", "-d", "@", "-y", DATE], flags].concat();
            let output = pair.run(side, "bogofilter", &args, b"");
            String::from_utf8(output.stdout).unwrap().replace(side.folder(), "folder")
        });
        assert_eq!(theirs, ours, "{flags:?}");
    }
    // The list need not exist.
    pair.same(&["-C", "-d", "@/empty", "-Q"], b"");
}

#[test]
fn wrong_arguments_are_refused_alike() {
    let Some(pair) = Pair::trained(100) else { return };
    for args in [
        &["-s", "-n"][..],
        &["-n", "-s"],
        &["-s", "-S"],
        &["-S", "-N"],
        &["-u", "-s"],
        &["-s", "-R"],
        &["-z"],
        &["-zv"],
        &["-c"],
        &["--foo"],
        &["--foo=1", "-v"],
        &["--spam=1"],
        &["--passthrough=1", "-v"],
        &["--spam-cut=0.5", "-v"],
        &["--spam-cutoff"],
        &["--verb"],
        &["-P"],
        &["extra"],
        &["-v", "--", "-p"],
        &["-O", "x"],
        &["-TTT"],
        &["--token-count=5", "--token-count-min=9"],
        &["--token-count-max=5", "--token-count-min=9"],
        &["--terse=maybe"],
        &["--wordlist=q,a,b,1"],
        &["-y", "19980101"],
        &["-m", "x", "-v"],
        &["-o", "0.5,y", "-v"],
        &["-m", "0.1,,0.3", "-v"],
        &["-v", "--robx=2"],
        &["-v", "--robs=x"],
        &["-v", "--header-format=%q"],
        &["-I"],
    ] {
        pair.same(&[&["-C", "-d", "@"], args].concat(), b"Subject: q\n\nfoo\n");
    }
}

/// Paths of the word list: from an option, from files, from the environment, in the home folder.
#[test]
fn folders_are_found_alike() {
    let Some(pair) = Pair::trained(100) else { return };
    let message = b"Subject: money\n\nfree money for the meeting\n";
    let runs = |args: &[&str], variables: &[(&str, &str)]| {
        let [theirs, ours] = [Side::Theirs, Side::Ours].map(|side| {
            let mut command = pair.command(side, "bogofilter", args);
            for (name, value) in variables {
                let folder = pair.world.path(side.folder());
                command.env(name, value.replace('@', folder.to_str().unwrap()));
            }
            feed(&mut command, message).unwrap()
        });
        check_same(&theirs, &ours, &format!("{args:?} {variables:?}"));
        theirs.status.code().unwrap()
    };
    let known = runs(&["-C", "-v", "-d", "@"], &[]);
    assert!(known < 3);
    assert_eq!(runs(&["-C", "-v"], &[("BOGOFILTER_DIR", "@")]), known);
    assert_eq!(runs(&["-C", "-v"], &[("BOGODIR", "@")]), known);
    assert_eq!(runs(&["-C", "-v"], &[("BOGODIR", "@"), ("BOGOFILTER_DIR", "")]), known);
    assert_eq!(runs(&["-C", "-v", "-d", "@"], &[("BOGOFILTER_DIR", "/nowhere")]), known);
    for side in [Side::Theirs, Side::Ours] {
        let folder = pair.world.path(side.folder());
        let text = format!("bogofilter_dir={}\n", folder.display());
        pair.world.write(&format!("{}.cf", side.folder()), text.as_bytes());
        pair.world.create_dir(&format!("{}/home", side.folder()));
        let home = format!("{}/home/.bogofilter", side.folder());
        pair.world.create_dir(&home);
        for name in pair.world.list(side.folder()) {
            if let Some(bytes) = pair.world.try_bytes(&format!("{}/{name}", side.folder())) {
                pair.world.write(&format!("{home}/{name}"), &bytes);
            }
        }
    }
    assert_eq!(runs(&["-c", "@.cf", "-v"], &[]), known);
    assert_eq!(runs(&["-c", "@.cf", "-v"], &[("BOGOFILTER_DIR", "/nowhere")]), known);
    assert_eq!(runs(&["-c", "@.cf", "-v", "-d", "@"], &[]), known);
    assert_eq!(runs(&["-C", "-v"], &[("HOME", "@/home")]), known);
    assert_eq!(runs(&["-C", "-v", "-d", "@/new"], &[]), 3);
    assert_eq!(runs(&["-C", "-v", "-d", "@/new/er/still"], &[]), 3);
    assert_eq!(runs(&["-C", "-v", "-d", "@/wordlist.db"], &[]), 3);
    assert_eq!(runs(&["-C", "-v"], &[("HOME", "")]), 3);
}

/// The version names the built-in libraries only.
#[test]
fn the_version_tells_which_lists_can_be_used() {
    let world = World::new();
    for name in ["bogofilter", "bogoutil", "bogolexer"] {
        let text = world.ok(&[name, "-V"]);
        assert!(text.starts_with(&format!("{name} version 1.2.5\n    Database: barid ")), "{text}");
        let (can, cannot): (Vec<_>, Vec<_>) =
            text.lines().skip(1).partition(|line| line.starts_with("    Database: "));
        let told = |lines: &[&str], build: &str| lines.concat().contains(build);
        let stores = world.ok(&["cache", "stores"]);
        for (build, store) in [("Berkeley DB", "bdb"), ("Tokyo Cabinet", "tokyocabinet")] {
            let is_here = stores.lines().any(|line| {
                let mut words = line.split_whitespace();
                (words.next(), words.next()) == (Some(store), Some("yes"))
            });
            assert_eq!((told(&can, build), told(&cannot, build)), (is_here, !is_here), "{text}");
        }
        assert_ne!(told(&can, "SQLite"), told(&cannot, "SQLite"), "{text}");
    }
}

/// A file that only begins like a list of another build is reported, and not changed.
#[test]
fn lists_of_other_builds() {
    let world = World::new();
    let said = |args: &[&str]| {
        let mut command = world.command();
        Run::of(feed(command.arg("bogofilter").args(args), b"a\n").unwrap())
    };
    world.write("sqlite/wordlist.db", b"SQLite format 3\0 and so on");
    for flag in ["-v", "-s"] {
        let run = said(&["-C", "-d", "sqlite", flag]);
        assert_eq!(run.code, 3);
        assert!(run.stderr.contains("damaged"), "{}", run.stderr);
    }
    assert_eq!(world.read("sqlite/wordlist.db"), b"SQLite format 3\0 and so on");
    world.write("junk/wordlist.db", b"nothing that anybody knows of, and long enough for that");
    let run = said(&["-C", "-d", "junk", "-s"]);
    assert_eq!(run.code, 3);
    assert!(world.read("junk/wordlist.db").starts_with(b"nothing"), "{}", run.stderr);
}
