//! The corpora are complete.

use barid_testkit::corpora;

fn check(name: &str, real: usize, own: usize) {
    let Some(files) = corpora::files(name) else { return };
    assert_eq!(files.len(), corpora::either(name, real, own), "{name}");
}

#[test]
fn every_pack_is_found() {
    check("dev-list-man", 17_885, 600);
    check("dev-old-mips", 9_151, 400);
    check("dev-rich", 500, 100);
    check("spamassassin/ham", 4_397, 300);
    check("uw-imap-formats/uw.mix", 4, 4);
    if let Some(torture) = corpora::files("dev-torture") {
        assert!(torture.len() > corpora::either("dev-torture", 1_300, 400), "{}", torture.len());
    }
}
