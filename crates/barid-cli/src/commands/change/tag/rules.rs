//! The file of the rules.

use std::path::Path;

use barid::query::{SearchKey, SearchNode, SearchProgram};
use barid::vfs::OsVfs;
use barid_serve::config::{
    ConfigErrors, ConfigProblem, ConfigSection, PlainValue, Section, load_config_text, many, one,
    parse_config,
};

use crate::config::UserConfig;
use crate::mail::flags::{FlagRequest, FlagWord};
use crate::mail::query::QueryArgs;
use crate::mail::selection::{MessageSelection, Selector};

/// The sections of the file.
const SECTIONS: &[ConfigSection] = &[one("", &[]), many("rule", &["name", "query", "flags"])];

/// A rule.
#[derive(Clone, Debug)]
pub(super) struct TagRule {
    /// Its name, or its query.
    pub(super) name: String,
    pub(super) query: String,
    pub(super) program: SearchProgram,
    pub(super) flags: FlagRequest,
}

/// Loads the rules.
///
/// # Errors
///
/// Returns all problems of the file, each with line and column.
pub(super) fn load(
    path: &Path,
    config: &UserConfig,
    options: QueryArgs,
) -> Result<Vec<TagRule>, ConfigErrors> {
    let text = load_config_text(&OsVfs, path)?;
    parse(path, &text, config, options)
}

fn parse(
    path: &Path,
    text: &str,
    config: &UserConfig,
    options: QueryArgs,
) -> Result<Vec<TagRule>, ConfigErrors> {
    let rules = parse_config((path, text), SECTIONS, |root| {
        let sections = root.sections("rule", "rule");
        sections.iter().filter_map(|section| rule(section, config, options)).collect::<Vec<_>>()
    })?;
    match rules.is_empty() {
        true => {
            let message = "there are no rules".to_owned();
            let path = path.to_owned();
            Err(ConfigErrors(vec![ConfigProblem { path, line: 1, column: 1, message }]))
        }
        false => Ok(rules),
    }
}

/// Reads a rule, and reports everything that is wrong with it.
fn rule(section: &Section<'_>, config: &UserConfig, options: QueryArgs) -> Option<TagRule> {
    for key in ["query", "flags"] {
        if !section.has(key) {
            section.problem_here(format!("`{key}` is missing"));
        }
    }
    let flags = flags(section);
    let query = section.text("query")?;
    let program = section.parsed("query", |text| program(text, config, options))?;
    let name = match section.has("name") {
        true => section.text("name")?,
        false => query.clone(),
    };
    Some(TagRule { name, query, program, flags: flags? })
}

fn flags(section: &Section<'_>) -> Option<FlagRequest> {
    let words: Vec<FlagWord> = section.list("flags", str::parse);
    if let Some(PlainValue::Texts(texts)) = section.plain("flags")
        && texts.is_empty()
    {
        section.problem("flags", "an empty list");
    }
    match FlagRequest::new(&words) {
        Ok(request) => (!words.is_empty()).then_some(request),
        Err(error) => {
            section.problem("flags", error);
            None
        }
    }
}

/// Parses a query; UIDs are none, since they name other messages in each mailbox.
fn program(text: &str, config: &UserConfig, options: QueryArgs) -> anyhow::Result<SearchProgram> {
    if text.trim().eq_ignore_ascii_case("all") {
        return Ok(SearchProgram::all());
    }
    let selector = Selector::changing("nothing is flagged");
    let selection = MessageSelection::parse_words(config, &[text.to_owned()], options, selector)?;
    let is_number = |node: &SearchNode| matches!(node, SearchNode::Key(SearchKey::Seq(_)));
    match selection {
        MessageSelection::Query(ref program)
            if !selection.names_uids() && !program.nodes().iter().any(is_number) =>
        {
            Ok(program.clone())
        }
        _ => Err(anyhow::anyhow!(
            "UIDs and sequence numbers name other messages in each mailbox, so no rule may; `all` \
             is every message"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let config = UserConfig::default();
        let found = match parse(Path::new("r.toml"), text, &config, QueryArgs::default()) {
            Ok(rules) => rules.iter().map(|rule| format!("{};", rule.name)).collect::<String>(),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn rules_are_read() {
        check("[[rule]]\nquery = \"list:a\"\nflags = \"+a\"\n", "list:a;");
        check(
            "[[rule]]\nname = \"one\"\nquery = \"list:a\"\nflags = [\"+a\", \"-b\"]\n\
             [[rule]]\nquery = \"b\"\nflags = [\"=\"]\n",
            "one;b;",
        );
    }

    #[test]
    fn every_problem_has_its_place() {
        check("", "r.toml:1:1: there are no rules");
        check("[[rule]]\nquery = \"all\"\nflags = \"+a\"\n", "all;");
        check(
            "[[rule]]\nquerry = \"a\"\nflags = []\n",
            "r.toml:1:1: [rule]: `query` is missing\n\
             r.toml:2:1: unknown key in [rule]: `querry`; did you mean `query`?\n\
             r.toml:3:9: rule.flags: an empty list",
        );
        check(
            "[[rule]]\nquery = \"form:ann\"\nflags = [\"rust\"]\n",
            "r.toml:2:9: rule.query: unknown search key `form:`; did you mean `from:`?\n\
             r.toml:3:10: rule.flags: write +rust to add it, -rust to remove it, or =rust to \
             remove all others",
        );
        check(
            "[[rule]]\nquery = \"1:5\"\nflags = [\"+a\", \"-a\"]\n",
            "r.toml:2:9: rule.query: UIDs and sequence numbers name other messages in each mailbox, so \
             no rule may; `all` is every message\n\
             r.toml:3:9: rule.flags: a cannot be both added and removed",
        );
    }
}
