//! Rules for the prose of doc comments.

use std::path::Path;

use anyhow::Result;
use barid_testkit::disk;

use super::Problems;
use super::source::tracked;

/// Words that open a riddle instead of saying what a thing is or does.
const RIDDLES: [&str; 12] = [
    "What", "Whatever", "Whether", "How", "That", "Those", "Why", "Where", "Who", "Whoever",
    "Which", "When",
];

/// Checks that doc comments open with a verb or a noun phrase.
pub(super) fn check(root: &Path, problems: &mut Problems) -> Result<()> {
    for path in tracked(root)?.into_iter().filter(|path| path.extension().is_some_and(is_rust)) {
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        for (number, word) in riddles(&disk::read_text(&path)?) {
            problems.push(format!(
                "{name}:{number}: a doc comment opens with {word:?}; say what it is or does"
            ));
        }
    }
    Ok(())
}

fn is_rust(extension: &std::ffi::OsStr) -> bool {
    extension == "rs"
}

/// Returns the numbers of lines that open a doc comment with a word of a riddle, and the words.
fn riddles(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut is_inside = false;
    for (number, line) in text.lines().enumerate() {
        let doc = line.trim_start();
        let doc = doc.strip_prefix("///").or_else(|| doc.strip_prefix("//!"));
        let word = doc.and_then(|doc| doc.split_ascii_whitespace().next());
        if let Some(word) = word.filter(|word| !is_inside && RIDDLES.contains(word)) {
            found.push((number + 1, word));
        }
        is_inside = doc.is_some();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_openings_count() {
        let text =
            "//! Whether it\n\nstruct A; // What\n/// Kind of it.\n/// What else?\n  /// How\n";
        assert_eq!(riddles(text), [(1, "Whether")]);
        let text = "/// Where it is.\na: u8,\n    /// Whereabouts.\n    b: u8,\n    /// Who\n";
        assert_eq!(riddles(text), [(1, "Where"), (5, "Who")]);
    }
}
