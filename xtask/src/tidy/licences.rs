//! Checks the dependencies by `deny.toml`: licences, versions that occur twice, and sources.
//!
//! `cargo deny` does the same, but building it takes longer than all tests, and it needs a network.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use barid_testkit::disk;
use serde_json::Value;

use super::Problems;

/// Platforms other than Linux bring dependencies that nobody downloads.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";
/// Fewer dependencies than there are: a check of none would find nothing.
const PACKAGES_MIN: usize = 50;

/// A dependency from outside.
struct Package<'a> {
    name: &'a str,
    version: &'a str,
    licence: &'a str,
    source: &'a str,
}

/// Checks every dependency that is built, in whatever kind of build.
pub(super) fn check(root: &Path, problems: &mut Problems) -> Result<()> {
    let rules = disk::read_text(&root.join("deny.toml"))?;
    let (allowed, skipped) = (strings(&rules, "allow = ["), strings(&rules, "skip = ["));
    let registries = strings(&rules, "allow-registry = [");
    let metadata = metadata(root)?;
    let packages = packages(&metadata)?;
    ensure!(packages.len() >= PACKAGES_MIN, "cargo metadata names {} packages", packages.len());
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in &packages {
        let Package { name, version, licence, source } = package;
        if !is_allowed(licence, &allowed) {
            problems.push(format!("{name} {version}: the licence {licence} is not in deny.toml"));
        }
        let registry = source.strip_prefix("registry+").unwrap_or_default();
        if !registries.contains(registry) {
            problems.push(format!("{name} {version}: the source {source} is not in deny.toml"));
        }
        versions.entry(name).or_default().insert(version);
    }
    for (name, versions) in versions {
        match (versions.len() > 1, skipped.contains(name)) {
            (true, false) => problems.push(format!("{name}: built in versions {versions:?}")),
            (false, true) => problems.push(format!("deny.toml: {name} is there only once")),
            _ => {}
        }
    }
    Ok(())
}

/// Returns the answer of `cargo metadata`, from the lock file and what is downloaded already.
fn metadata(root: &Path) -> Result<Value> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let args = ["metadata", "--format-version=1", "--locked", "--offline"];
    let output = Command::new(program)
        .args(args)
        .args(["--filter-platform", PLATFORM])
        .current_dir(root)
        .output()
        .context("cargo metadata")?;
    let message = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo metadata: {message}");
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Returns the packages from outside that the dependency graph reaches.
fn packages(metadata: &Value) -> Result<Vec<Package<'_>>> {
    let nodes = metadata["resolve"]["nodes"].as_array().context("no dependency graph")?;
    let reached: BTreeSet<&str> = nodes.iter().filter_map(|node| node["id"].as_str()).collect();
    let all = metadata["packages"].as_array().context("no packages")?;
    let is_reached =
        |package: &Value| package["id"].as_str().is_some_and(|id| reached.contains(id));
    let outside = all.iter().filter(|package| package["source"].is_string() && is_reached(package));
    Ok(outside
        .map(|package| Package {
            name: package["name"].as_str().unwrap_or_default(),
            version: package["version"].as_str().unwrap_or_default(),
            licence: package["license"].as_str().unwrap_or("not stated"),
            source: package["source"].as_str().unwrap_or_default(),
        })
        .collect())
}

/// Returns the strings of the list that begins with a text, up to its closing bracket.
fn strings(rules: &str, start: &str) -> BTreeSet<String> {
    let mut lists = rules.match_indices(start);
    let at = lists.find(|(at, _)| *at == 0 || rules.as_bytes()[at - 1] == b'\n');
    let list = at.map_or("", |(at, _)| &rules[at + start.len()..]);
    let list = list.split(']').next().unwrap_or_default();
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns `true` if the allowed licences satisfy an SPDX expression: one of the alternatives of
/// OR, and all of AND, which binds tighter. A slash is an OR of older crates.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let expression = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = expression.split_whitespace().collect();
    let mut rest = words.as_slice();
    alternatives(&mut rest, allowed) && rest.is_empty()
}

fn alternatives(rest: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut is_one = all_of(rest, allowed);
    while let Some((&"OR", after)) = rest.split_first() {
        *rest = after;
        is_one |= all_of(rest, allowed);
    }
    is_one
}

fn all_of(rest: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut are_all = licence(rest, allowed);
    while let Some((&"AND", after)) = rest.split_first() {
        *rest = after;
        are_all &= licence(rest, allowed);
    }
    are_all
}

fn licence(rest: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let Some((&word, after)) = rest.split_first() else { return false };
    *rest = after;
    if word == "(" {
        let is_one = alternatives(rest, allowed);
        return match rest.split_first() {
            Some((&")", after)) => {
                *rest = after;
                is_one
            }
            _ => false,
        };
    }
    if let [with @ "WITH", exception, after @ ..] = after {
        *rest = after;
        return allowed.contains(&format!("{word} {with} {exception}"));
    }
    allowed.contains(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_evaluated() {
        let rules =
            "x\nallow = [\n    \"MIT\", # one\n    \"A WITH B\",\n]\nskip = [{ name = \"s\" }]\n";
        let allowed = strings(rules, "allow = [");
        assert_eq!(allowed.len(), 2);
        assert_eq!(strings(rules, "skip = [").into_iter().collect::<Vec<_>>(), ["s"]);
        let check = |expression: &str, expected| {
            assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
        };
        check("MIT", true);
        check("GPL-3.0", false);
        check("GPL-3.0 OR MIT", true);
        check("GPL-3.0/MIT", true);
        check("MIT AND GPL-3.0", false);
        check("GPL-3.0 AND X OR MIT", true);
        check("(GPL-3.0 OR MIT) AND MIT", true);
        check("(GPL-3.0 OR X) AND MIT", false);
        check("A WITH B AND MIT", true);
        check("A", false);
        check("not stated", false);
        check("", false);
        check("(MIT", false);
    }
}
