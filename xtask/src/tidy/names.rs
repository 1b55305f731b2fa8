//! Checks that no type name is defined twice in a crate.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use barid_testkit::disk;

use super::Problems;

/// Folders of siblings that are shaped alike, with the reason: a name may be defined in each.
const SIBLINGS: [(&str, &str); 3] = [
    ("crates/barid-kv/src/ffi", "the bindings of each library have an Api, a Handle and a Mode"),
    ("crates/barid-kv/src/stores", "each store has the two ends of its sessions"),
    ("crates/barid-bench/src", "each bench has its Options, Rounds, Results and Report"),
];

/// Names that a crate may define once for each module, with the reason.
const ALIASES: [(&str, &str); 1] = [("Result", "the result of the module's own error")];

/// Definitions of one name: file and line.
type Definitions = Vec<String>;

pub(super) fn check(root: &Path, problems: &mut Problems) -> Result<()> {
    for folder in disk::list_folders(&root.join("crates"))? {
        let mut names: BTreeMap<String, Definitions> = BTreeMap::new();
        for path in disk::list_files(&folder.join("src"))? {
            let place = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            let is_test = place.contains("/tests/") || place.ends_with("/tests.rs");
            let is_sibling = SIBLINGS.iter().any(|(folder, _)| place.starts_with(folder));
            if !place.ends_with(".rs") || is_test || is_sibling {
                continue;
            }
            for (line, name) in defined(&disk::read_text(&path)?) {
                names.entry(name.to_owned()).or_default().push(format!("{place}:{line}"));
            }
        }
        names.retain(|name, _| ALIASES.iter().all(|(alias, _)| alias != name));
        problems.extend(
            names.into_iter().filter(|(_, all)| all.len() > 1).map(|(name, all)| {
                format!("{}: defined {} times: {name}", all.join(", "), all.len())
            }),
        );
    }
    Ok(())
}

/// Returns the types that a file defines outside its tests and functions, with their lines.
fn defined(text: &str) -> Vec<(usize, &str)> {
    let code = text.lines().take_while(|line| *line != "mod tests {").enumerate();
    code.filter_map(|(number, line)| Some((number + 1, type_name(line)?))).collect()
}

/// Returns the name of the type that a line without indentation defines.
fn type_name(line: &str) -> Option<&str> {
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.trim_start(),
        None => line,
    };
    let (keyword, rest) = line.split_once(' ')?;
    let is_type = ["struct", "enum", "trait", "type", "union"].contains(&keyword);
    let len = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
    is_type.then_some(&rest[..len])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found() {
        let text = "pub struct A<T>;\npub(super) enum B {\n    type Item = u8;\ntype C = u8;\n\
                    fn d() {}\nmod tests {\nstruct A;\n";
        assert_eq!(defined(text), [(1, "A"), (2, "B"), (4, "C")]);
    }
}
