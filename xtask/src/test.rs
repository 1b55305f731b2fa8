//! `cargo xtask test`: every check and every test.

use std::path::{Component, Path};

use anyhow::{Result, ensure};
use barid_testkit::{corpora, disk};

use crate::args::Args;
use crate::shell::{cargo, step};
use crate::{dist, install, tidy};

pub(crate) fn run(mut args: Args) -> Result<()> {
    let no_install = args.switch("--no-install");
    let own_corpora = args.switch("--own-corpora");
    args.finish()?;
    if own_corpora {
        return with_own_corpora();
    }
    if !no_install {
        step("install", || {
            install::components();
            install::packages()
        })?;
    }
    step("fmt", || cargo(&["fmt", "--all", "--check"], &[]))?;
    step("tidy", tidy::check)?;
    let with = |before: &[&'static str], after: &[&'static str]| {
        [before, &["--workspace"], after].concat()
    };
    step("clippy", || {
        cargo(&with(&["clippy", "-q"], &["--all-targets", "--", "-D", "warnings"]), &[])
    })?;
    step("doc", || {
        cargo(&with(&["doc", "-q"], &["--no-deps"]), &[("RUSTDOCFLAGS", "-D warnings")])
    })?;
    let dist = corpora::target_folder().join("dist-dev");
    step("dist", || dist::build("dev", &dist))?;
    // The tests run last, so that the output ends with their results.
    cargo(&with(&["test"], &["--no-fail-fast"]), &[("BARID_DIST", &dist.to_string_lossy())])
}

/// Runs the tests that use corpora as on a machine without real mail.
fn with_own_corpora() -> Result<()> {
    let modules = modules_with_corpora()?;
    ensure!(modules.len() > 10, "only {modules:?} use corpora");
    let modules: Vec<&str> = modules.iter().map(String::as_str).collect();
    let args = ["test", "--workspace", "--tests", "--no-fail-fast", "--"];
    let none = corpora::target_folder().join("no-corpora");
    let variables = [("BARID_CORPORA", &*none.to_string_lossy()), ("CI", "")];
    cargo(&[&args[..], &modules].concat(), &variables)
}

/// Calls that load a corpus.
const CALLS: [&str; 3] = ["corpora::files(", "corpora::find(", "Mail::of("];

/// Returns the modules that use corpora, as prefixes of test names.
fn modules_with_corpora() -> Result<Vec<String>> {
    let mut modules = Vec::new();
    for path in disk::list_files(&corpora::repository().join("crates"))? {
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        if !is_source {
            continue;
        }
        let text = disk::read_text(&path)?;
        if CALLS.iter().any(|call| text.contains(call)) {
            modules.push(module_of(&path));
        }
    }
    Ok(modules)
}

/// Returns the module path of a file below `src` or `tests`.
fn module_of(path: &Path) -> String {
    let path = path.with_extension("");
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => name.to_str(),
        _ => None,
    });
    let names: Vec<&str> = names.collect();
    let is_root = |name: &&str| ["src", "tests"].contains(name);
    let root = names.iter().position(|name| *name == "crates").map_or(0, |at| at + 2);
    let below = names[root..].iter().skip_while(|name| !is_root(name)).skip(1);
    below.filter(|name| **name != "mod").map(|name| format!("{name}::")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_modules() {
        let check = |path: &str, expected: &str| assert_eq!(module_of(path.as_ref()), expected);
        check("/src/x/crates/barid-cli/tests/real_mail.rs", "real_mail::");
        check("/x/crates/barid-formats/tests/mix/corpora.rs", "mix::corpora::");
        check("/x/crates/barid-formats/src/plan/tests/mod.rs", "plan::tests::");
        let modules = modules_with_corpora().unwrap();
        assert!(modules.iter().any(|module| module == "bogofilter::"), "{modules:?}");
    }
}
