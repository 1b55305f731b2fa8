//! Checks the dependencies between crates: ARCHITECTURE.md against the manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use barid_testkit::disk;

use super::Problems;

/// The crates that each crate may use.
pub(crate) type Edges = BTreeMap<String, BTreeSet<String>>;

/// Checks the dependencies of every crate except those of its tests.
pub(super) fn check(root: &Path, problems: &mut Problems) -> Result<()> {
    let allowed = allowed(&disk::read_text(&root.join("ARCHITECTURE.md"))?);
    let mut manifests = disk::list_folders(&root.join("crates"))?;
    manifests.push(root.join("xtask"));
    for folder in manifests {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let used = dependencies(&disk::read_text(&folder.join("Cargo.toml"))?);
        let Some(allowed) = allowed.get(&name) else {
            problems.push(format!("ARCHITECTURE.md: the edges of {name} are not listed"));
            continue;
        };
        for other in used.difference(allowed) {
            problems.push(format!("{name}/Cargo.toml: {other} is not an allowed edge"));
        }
    }
    Ok(())
}

/// Parses the list under `## Allowed edges`: lines of "- `crate`: `other`, `other`".
pub(crate) fn allowed(text: &str) -> Edges {
    let section = text.split("## Allowed edges").nth(1).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    let lines = section.lines().filter_map(|line| line.strip_prefix("- ")?.split_once(':'));
    lines
        .map(|(name, others)| (ticked(name).collect(), ticked(others).collect::<BTreeSet<_>>()))
        .map(|(name, others): (Vec<String>, _)| (name.concat(), others))
        .collect()
}

/// Returns the words between backticks.
pub(crate) fn ticked(text: &str) -> impl Iterator<Item = String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned)
}

/// Returns the workspace's crates among the dependencies of a manifest, except those of tests.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut counts = false;
    for line in manifest.lines() {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            counts = section.ends_with("dependencies") && !section.ends_with("dev-dependencies");
        } else if counts {
            let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
            if name == "barid" || name.starts_with("barid-") {
                found.insert(name.to_owned());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_read() {
        let text =
            "x\n## Allowed edges\n\n- `a`: nothing\n- `b`: `a`, `c`\n\n## More\n- `d`: `e`\n";
        let edges = allowed(text);
        assert_eq!(edges.len(), 2);
        assert!(edges["a"].is_empty());
        assert_eq!(edges["b"].iter().collect::<Vec<_>>(), ["a", "c"]);
    }

    #[test]
    fn dependencies_of_tests_do_not_count() {
        let text = "[dependencies]\nbarid.workspace = true\nbarid-vfs = { path = \"x\" }\n\
                    memchr = \"2\"\n[dev-dependencies]\nbarid-testkit.workspace = true\n";
        assert_eq!(dependencies(text).into_iter().collect::<Vec<_>>(), ["barid", "barid-vfs"]);
    }
}
