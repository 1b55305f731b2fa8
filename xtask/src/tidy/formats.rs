//! Checks that a mailbox format is named in its own folder alone.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use barid_testkit::disk;

use super::Problems;

/// The crates that ask a format for its properties.
const CRATES: [&str; 6] =
    ["barid", "barid-cache", "barid-formats", "barid-mailbox", "barid-query", "barid-state"];
/// Texts before the name of a format where it is registered.
const BEFORE_NAMES: [&str; 2] = ["FormatProperties::new(\"", "name: \""];

/// Checks the sources of [`CRATES`] up to their tests.
pub(super) fn check(root: &Path, problems: &mut Problems) -> Result<()> {
    let (mut names, mut others) = (BTreeSet::new(), Vec::new());
    for name in CRATES {
        for path in disk::list_files(&root.join("crates").join(name).join("src"))? {
            let file = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            if !file.ends_with(".rs") || file.contains("/tests") {
                continue;
            }
            let text = disk::read_text(&path)?;
            match file.ends_with("/format.rs") && name == "barid-formats" {
                true => names.extend(registered(&text)),
                false => others.push((file, text)),
            }
        }
    }
    for (file, text) in others {
        problems.extend(named(&file, &text, &names));
    }
    Ok(())
}

/// Returns the names of formats in a source that registers them.
fn registered(text: &str) -> BTreeSet<String> {
    let after = BEFORE_NAMES.iter().flat_map(|before| text.split(before).skip(1));
    after.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())).collect()
}

/// Returns the problems of a source: quoted names of formats before its tests.
fn named(file: &str, text: &str, names: &BTreeSet<String>) -> Problems {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let quoted = |name: &&String| code.contains(&format!("\"{name}\""));
    let problem = |name| format!("{file}: names the format {name}; ask it for a property instead");
    names.iter().filter(quoted).map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_outside_the_registry_are_found() {
        let names = registered("x = FormatProperties::new(\"mh\", y); z { name: \"mbox\", ..a }");
        assert_eq!(names.iter().collect::<Vec<_>>(), ["mbox", "mh"]);
        assert_eq!(named("a.rs", "if format.name() == \"mh\" {}", &names).len(), 1);
        assert!(named("a.rs", "\"mhx\" #[cfg(test)] \"mh\"", &names).is_empty());
    }
}
