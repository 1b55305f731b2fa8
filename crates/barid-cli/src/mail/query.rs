//! Queries on the command line, in the short form or in IMAP's syntax.

use barid::query::{
    Day, ReturnOptions, SearchError, SearchKey, SearchNode, SearchProgram, SearchRequest,
    ShortOptions, looks_like_imap, parse_imap, parse_short_with,
};
use barid::vfs::{Host as _, OsVfs, local_zone_minutes};
use clap::Args;

use crate::config::UserConfig;
use crate::exit::WithHint;

/// Options of queries.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct QueryArgs {
    /// Compare the texts of a query without accents: Salaun finds Salaün, and Salaün Salaun
    #[arg(long)]
    fold_accents: bool,
    /// Let `attachment:` also look into attachments: PDF, office documents, HTML and texts
    ///
    /// A process of its own reads each, as for `barid attachments --text`. With an index that
    /// `barid index --attachments` has built, few are read.
    #[arg(long)]
    attachments: bool,
}

/// A query.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) program: SearchProgram,
    /// The options of IMAP's RETURN.
    pub(crate) returns: Option<ReturnOptions>,
}

impl QueryArgs {
    /// Returns `true` if an option was given.
    pub(crate) fn is_given(self) -> bool {
        self.fold_accents || self.attachments
    }

    /// Returns `true` if the texts of attachments are searched.
    pub(crate) fn reads_attachments(self) -> bool {
        self.attachments
    }

    /// Parses the words of a query for one mailbox.
    ///
    /// # Errors
    ///
    /// Returns an error that explains what is wrong with the query.
    pub(crate) fn parse(self, config: &UserConfig, words: &[String]) -> anyhow::Result<Query> {
        let query = self.parse_for_mailboxes(config, words)?;
        let mut nodes = query.program.nodes().iter();
        let name = nodes.find_map(|node| match node {
            SearchNode::Key(SearchKey::InMailbox(name)) => Some(name),
            _ => None,
        });
        match name {
            None => Ok(query),
            Some(name) => Err(WithHint::error(
                format!("`in:{name}` chooses among several mailboxes, and one is searched here"),
                "`barid search --in MAILBOX --in MAILBOX QUERY` searches several",
            )),
        }
    }

    /// Parses the words of a query for several mailboxes, of which it may name some.
    ///
    /// # Errors
    ///
    /// As [`QueryArgs::parse`].
    pub(crate) fn parse_for_mailboxes(
        self,
        config: &UserConfig,
        words: &[String],
    ) -> anyhow::Result<Query> {
        let is_blank = |words: &[String]| words.iter().all(|word| word.trim().is_empty());
        let expanded = config.expand_query(words)?;
        if is_blank(&expanded) && !is_blank(words) {
            let hint = "`barid config` shows the saved queries";
            return Err(WithHint::error("the saved query is empty", hint));
        }
        let words = expanded;
        let text = match &words[..] {
            [text] => text.clone(),
            words => join(words),
        };
        if looks_like_imap(&text) {
            if self.fold_accents {
                return Err(WithHint::error(
                    "--fold-accents is for the short form, and this query is in IMAP's syntax",
                    "a query that begins with a search key in capitals is IMAP's",
                ));
            }
            let parsed = parse_imap(text.as_bytes());
            let SearchRequest { program, returns } = parsed.map_err(|error| explain(&error))?;
            return Ok(Query { program, returns });
        }
        let seconds = OsVfs.now().unix_nanos / 1_000_000_000;
        let today = Day::in_zone(seconds, local_zone_minutes(&OsVfs, seconds));
        let options = ShortOptions { today, fold_accents: self.fold_accents };
        let program = parse_short_with(&text, options).map_err(|error| explain(&error))?;
        Ok(Query { program, returns: None })
    }
}

/// Joins words as split by the shell, and restores the quotes that it removed around a key or text
/// with spaces.
fn join(words: &[String]) -> String {
    let mut text = String::new();
    for word in words {
        if !text.is_empty() {
            text.push(' ');
        }
        let (minus, bare) = match word.strip_prefix(['-', '!']) {
            Some(bare) => ("!", bare),
            None => ("", word.as_str()),
        };
        let keyed = bare.split_once(':').filter(|(key, _)| !key.contains(char::is_whitespace));
        let value = keyed.map_or(bare, |(_, value)| value);
        let has_space = word.contains(char::is_whitespace) && !word.contains(['"', '(']);
        let is_regex = value.len() > 2 && value.starts_with('/') && value.ends_with('/');
        // `subject: foo` in quotes of the shell is what it is without them.
        if !has_space || is_regex || value.starts_with(char::is_whitespace) {
            text.push_str(word);
            continue;
        }
        match keyed {
            Some((key, value)) => text.push_str(&format!("{minus}{key}:\"{value}\"")),
            None => text.push_str(&format!("{minus}\"{bare}\"")),
        }
    }
    text
}

fn explain(error: &SearchError) -> anyhow::Error {
    let hint = match error {
        SearchError::UnknownKey(_) | SearchError::NoSuchKey { .. } => {
            "`barid search --help` lists the keys, and header:NAME=TEXT takes any field; put \
             \"quotes\" around a text with a colon in it"
        }
        SearchError::Numbers(_) => "put `uid:` or `seq:` before it, or \"quotes\" around it",
        SearchError::Wildcard(_) => {
            "`all` is every message; a text is found anywhere in a word, without `*`; /a.*b/ is a \
             regular expression; in \"quotes\" a `*` is itself"
        }
        SearchError::NoValue { .. } => {
            "a value with blanks goes in \"quotes\"; with from, to, cc, bcc, subject and fields, \
             \"\" finds the messages that have one"
        }
        SearchError::Missing { what: "a closing slash", .. } => {
            "/regular expressions/ end with a slash; put \"quotes\" around a text that begins \
             with one"
        }
        SearchError::Regex { .. } => {
            "https://docs.rs/regex has the syntax; put \"quotes\" around a text between slashes"
        }
        _ => "`barid search --help` describes queries",
    };
    WithHint::error(error.to_string(), hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &[&str], expected: &str) {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        assert_eq!(join(&words), expected);
    }

    #[test]
    fn quotes_that_the_shell_took_off_are_put_back() {
        check(&["from:ann", "subject:release plan"], "from:ann subject:\"release plan\"");
        check(&["release plan", "or", "-old news"], "\"release plan\" or !\"old news\"");
        check(&["-subject:a b", "(a or b)"], "!subject:\"a b\" (a or b)");
        check(&["say: hello", "x"], "say: hello x");
        check(&["/a b/", "-subject:/c d/"], "/a b/ -subject:/c d/");
        check(&["\"a b\"~5", "c"], "\"a b\"~5 c");
        check(&["/usr/bin x", "c"], "\"/usr/bin x\" c");
    }

    #[test]
    fn several_mailboxes_are_named_only_where_several_are_searched() {
        let words = ["in:archive".to_owned()];
        let error =
            QueryArgs::default().parse(&UserConfig::default(), &words).unwrap_err().to_string();
        assert!(error.contains("`in:archive` chooses among several"), "{error}");
        let config = &UserConfig::default();
        assert!(QueryArgs::default().parse_for_mailboxes(config, &words).is_ok());
    }
}
