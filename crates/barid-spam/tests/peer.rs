//! Word lists and scores of real mail through the engine, equal to bogofilter's.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid::vfs::OsVfs;
use barid_spam::wordlist::{Class, dump};
use barid_spam::{Filter, Source, SpamOptions, TrainingKind, canonical_text};
use barid_testkit::peers::Bogofilter;
use barid_testkit::{Scratch, corpora, disk};

/// One message of real mail in this number is compared.
const STEP: usize = 9;
const CORPUS: &str = "spamassassin";

#[test]
fn the_same_list_and_the_same_scores() {
    let (Some(peer), Some(files)) = (Bogofilter::new(), corpora::files(CORPUS)) else {
        return;
    };
    let scratch = Scratch::new("spam").unwrap();
    let theirs = scratch.path().join("theirs");
    disk::create_dir(&theirs).unwrap();
    let options = SpamOptions { date: Some(20_261_122), ..SpamOptions::default() };
    let filter = Filter::new(Arc::new(OsVfs), scratch.path().join("ours/words"), options);
    let (mut spam, mut ham, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for (number, file) in files.into_iter().step_by(corpora::either(CORPUS, STEP, 1)).enumerate() {
        let is_spam = file.components().any(|part| part.as_os_str() == "spam");
        // Both get the message without fields that mailboxes add.
        let path = scratch.path().join(format!("{number}.eml"));
        disk::write(&path, &canonical_text(&corpora::read(&file).unwrap())).unwrap();
        match number % 3 {
            0 => others.push(path),
            _ if is_spam => spam.push(path),
            _ => ham.push(path),
        }
    }
    for (flag, class, files) in [("-s", Class::Spam, &spam), ("-n", Class::Ham, &ham)] {
        let args = [flag, "-y", "20261122", "-b"];
        let output = peer.filter(&theirs, &args, names(files).as_bytes()).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut trainer = filter.trainer(TrainingKind::Train(class)).unwrap();
        trainer.add(Source::Files(files), &mut |_, _| {}).unwrap();
        let trained = trainer.finish(&mut |_, _| {}).unwrap();
        // A message that exists twice counts once: there must be none.
        assert_eq!(trained.trained, files.len() as u64, "{trained:?}");
    }
    let list = theirs.join("wordlist.db").into_os_string();
    let theirs_dumped = peer.util(&["-d".into(), list], b"").unwrap().stdout;
    let mut ours_dumped = Vec::new();
    dump(&mut *filter.open_list().unwrap(), &mut ours_dumped, None).unwrap();
    let (ours, them) = (lines(&ours_dumped), lines(&theirs_dumped));
    check_in_place(&filter, &theirs, &others[0]);
    let differ = ours.iter().zip(&them).find(|(one, other)| one != other);
    assert!(differ.is_none() && ours.len() == them.len(), "{differ:?}");
    assert!(ours.len() > corpora::either(CORPUS, 10_000, 2_000), "{}", ours.len());

    let output = peer.filter(&theirs, &["-TT", "-b"], names(&others).as_bytes()).unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let mut answers = output.lines();
    let mut seen = [0; 3];
    filter
        .classify(Source::Files(&others), false, &mut |at, found| {
            let found = found?.unwrap();
            let answer = answers.next().unwrap().rsplit(' ').next().unwrap();
            let theirs: f64 = answer.parse().unwrap();
            let error = (theirs - found.spamicity).abs();
            assert!(error <= 1e-12, "{at:?}: {} and {answer}", found.spamicity);
            seen[found.status as usize] += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(answers.next(), None);
    assert_eq!(seen.iter().sum::<usize>(), others.len());
    assert!(others.len() > 100);
    eprintln!("{} lines alike, {} scores, {seen:?} spam, ham, unsure", ours.len(), others.len());
}

/// Checks that bogofilter's file, opened in place, gives the same answers as ours.
fn check_in_place(filter: &Filter, theirs: &Path, file: &Path) {
    let options = SpamOptions { date: Some(20_261_122), ..SpamOptions::default() };
    let in_place = Filter::new(Arc::new(OsVfs), theirs.join("wordlist.db"), options);
    let message = corpora::read(file).unwrap();
    let one = filter.classify_message(&message, false).unwrap();
    match in_place.classify_message(&message, false) {
        Err(barid_spam::Error::WordList(barid_spam::wordlist::Error::Store(error))) => {
            eprintln!("not asked in its place: {error}");
        }
        other => assert_eq!(one.spamicity.to_bits(), other.unwrap().spamicity.to_bits()),
    }
}

fn names(files: &[PathBuf]) -> String {
    files.iter().map(|file| format!("{}\n", file.display())).collect()
}

/// Returns the lines of a dump, without those that depend on the order of the keys.
fn lines(dump: &[u8]) -> Vec<String> {
    dump.split(|byte| *byte == b'\n').map(|line| line.escape_ascii().to_string()).collect()
}
