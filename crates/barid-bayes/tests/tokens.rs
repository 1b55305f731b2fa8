//! Token streams of real mail, equal to `bogolexer -p`.

use barid_testkit::corpora;
use barid_testkit::peers::Bogofilter;

use crate::peer;

/// Compares every `every`th message of a corpus, at least `minimum`; of a small one of our own ten
/// times as many, which must be a fifteenth of `minimum`.
fn check_corpus(name: &str, every: usize, args: &[&str], minimum: usize) {
    let Some(peer) = Bogofilter::new() else { return };
    let Some(files) = corpora::files(name) else { return };
    let every = corpora::either(name, every, every.div_ceil(10));
    let minimum = corpora::either(name, minimum, minimum / 15);
    let mut tokens = 0;
    let chosen: Vec<_> = files.iter().step_by(every).collect();
    for file in &chosen {
        let message = corpora::read(file).unwrap();
        tokens += peer::check(&peer, args, &message, &file.display().to_string());
    }
    eprintln!("{name} {args:?}: {} messages, {tokens} tokens, all equal", chosen.len());
    assert!(chosen.len() >= minimum, "only {} messages", chosen.len());
}

#[test]
fn spam_and_ham() {
    check_corpus("spamassassin", 1, &[], 5_000);
    check_corpus("csdmc2010", 1, &[], 1_500);
}

#[test]
fn torture_mail() {
    check_corpus("dev-torture", 1, &[], 1_000);
}

#[test]
fn lists() {
    check_corpus("dev-rich", 1, &[], 500);
    check_corpus("dev-list-man", 20, &[], 800);
    check_corpus("dev-old-mips", 20, &[], 400);
}

#[test]
fn options() {
    for args in [
        &["-H"][..],
        &["-n"],
        &["--unicode=no"],
        &["--unicode=no", "-n"],
        &["--block-on-subnets=yes"],
        &["--multi-token-count=3"],
        &["--multi-token-count=4", "--max-multi-token-len=20"],
        &["--min-token-len=1", "--max-token-len=12"],
        &["--max-token-len=100", "--charset-default=windows-1251"],
    ] {
        check_corpus("spamassassin", 40, args, 100);
        check_corpus("dev-torture", 10, args, 100);
    }
}
