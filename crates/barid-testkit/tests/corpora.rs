//! The corpora are complete.

use barid_testkit::corpora;

fn check(name: &str, expected: usize) {
    let Some(files) = corpora::files(name) else { return };
    assert_eq!(files.len(), expected, "{name}");
}

#[test]
fn every_pack_is_found() {
    check("dev-list-man", 17_885);
    check("dev-old-mips", 9_151);
    check("dev-rich", 500);
    check("spamassassin/ham", 4_397);
    check("uw-imap-formats/uw.mix", 4);
    if let Some(torture) = corpora::files("dev-torture") {
        assert!(torture.len() > 1_300, "{}", torture.len());
    }
}
