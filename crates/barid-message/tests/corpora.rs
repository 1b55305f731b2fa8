//! Every message of the corpora goes through everything, and the defects are counted.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::exercise;

/// The files under a folder, in a stable order.
#[expect(clippy::disallowed_methods, reason = "reads the corpora, which are no mailboxes")]
fn files_under(folder: PathBuf) -> std::io::Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![folder]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

#[test]
fn every_message_of_the_corpora_is_read() {
    let Some(corpora) = std::env::var_os("BARID_CORPORA") else {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "BARID_CORPORA is not set");
        println!("skipped: BARID_CORPORA is not set");
        return;
    };
    let mut counts = BTreeMap::new();
    let (mut messages, mut bytes) = (0, 0);
    for path in files_under(corpora.into()).unwrap() {
        #[expect(clippy::disallowed_methods, reason = "reads the corpora, which are no mailboxes")]
        let message = std::fs::read(&path).unwrap();
        for defect in exercise(&message) {
            *counts.entry(defect.kind).or_insert(0) += 1;
        }
        messages += 1;
        bytes += message.len();
    }
    println!("{messages} messages, {bytes} bytes");
    for (kind, count) in &counts {
        println!("{count:8} {kind}");
    }
    assert!(messages > 0, "BARID_CORPORA names an empty folder");
}
