//! Errors of the command line: an unknown subcommand gets a useful suggestion, or none.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Words of other programs for the work of subcommands, with the suggestions.
const OTHER_WORDS: &[(&[&str], &str)] = &[
    (&["mv", "refile"], "`barid move`"),
    (&["wc", "info", "stat"], "`barid status`, or `barid count`"),
    (&["list", "scan", "dir"], "`barid ls`"),
    (&["delete", "del", "rm", "remove", "purge"], "`barid expunge`, or `barid flag` with +deleted"),
    (&["find", "grep", "query"], "`barid search`"),
    (&["read", "view", "cat", "print", "open"], "`barid show`"),
    (&["add", "import", "insert"], "`barid append`"),
    (&["migrate"], "`barid convert`, or `barid copy`"),
    (&["cp", "duplicate"], "`barid copy`"),
    (&["mark", "unflag", "star"], "`barid flag`"),
    (&["restore", "undelete", "unexpunge"], "`barid undo`"),
    (&["repair", "fsck", "verify"], "`barid check`"),
    (&["tree", "mailboxes"], "`barid folders`"),
    (&["monitor", "idle", "tail"], "`barid watch`"),
    (&["train", "classify", "learn"], "`barid spam`"),
];

/// Adds a suggestion for an unknown subcommand: one that differs by a typing error, otherwise one
/// with the same meaning. Other suggestions of the parser, which only share a few letters, are
/// removed.
pub(crate) fn with_suggestion(mut error: clap::Error) -> clap::Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand).cloned()
    else {
        return error;
    };
    let near = match error.remove(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(names)) => names,
        Some(ContextValue::String(name)) => vec![name],
        _ => Vec::new(),
    };
    let near: Vec<String> = near.into_iter().filter(|name| is_slip(&word, name)).collect();
    if !near.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(near));
    } else if let Some(meant) = meaning(&word) {
        let text = format!("{meant} may be the command you want");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![text.into()]));
    }
    error
}

/// Adds to the error that a mailbox is missing how to do without one.
pub(crate) fn with_default_mailbox(mut error: clap::Error) -> clap::Error {
    let text = "`mailbox = \"PATH\"` in the configuration file sets the one to use; `barid config \
                path` names the file";
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![text.into()]));
    error
}

fn meaning(word: &str) -> Option<&'static str> {
    let word = word.to_ascii_lowercase();
    let found = OTHER_WORDS.iter().find(|(words, _)| words.contains(&&*word));
    found.map(|(_, meaning)| *meaning)
}

/// Returns `true` if one word becomes the other by few changes: one for every three letters, and
/// one in a shorter word.
fn is_slip(word: &str, name: &str) -> bool {
    strsim::osa_distance(word, name) <= (word.chars().count() / 3).max(1)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::cli::Cli;

    fn check(word: &str, expected: Option<&str>) {
        let error = Cli::try_parse_from(["barid", word]).unwrap_err();
        let text = with_suggestion(error).to_string();
        match expected {
            Some(expected) => assert!(text.contains(expected), "{word}: {text}"),
            None => assert!(!text.contains("tip: "), "{word}: {text}"),
        }
    }

    #[test]
    fn unknown_subcommands_are_explained_or_left_alone() {
        check("refile", Some("tip: `barid move`"));
        check("wc", Some("`barid status`, or `barid count`"));
        check("RM", Some("`barid expunge`"));
        check("serach", Some("'search'"));
        check("expnge", Some("'expunge'"));
        check("statsu", Some("'status'"));
        check("xyzzy", None);
    }

    #[test]
    fn no_other_word_is_a_subcommand() {
        let command = Cli::command();
        for word in OTHER_WORDS.iter().flat_map(|(words, _)| words.iter()) {
            assert!(command.find_subcommand(word).is_none(), "{word}");
        }
    }
}
