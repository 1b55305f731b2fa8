//! Checks that required files exist, and that no test module is forgotten.

use std::path::Path;

use anyhow::Result;
use barid_testkit::disk;

use super::Problems;

/// Files that readers and lawyers expect.
const NEEDED: [&str; 8] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "docs/deviations.md",
    "docs/glossary.md",
];

pub(super) fn check(root: &Path, problems: &mut Problems) -> Result<()> {
    for name in NEEDED {
        if !disk::exists(&root.join(name)) {
            problems.push(format!("{name} is missing"));
        }
    }
    for folder in disk::list_folders(&root.join("crates"))? {
        let manifest = disk::read_text(&folder.join("Cargo.toml"))?;
        if !manifest.contains("license.workspace = true") {
            problems.push(format!("{}: no licence", folder.display()));
        }
        if !manifest.contains("[lints]\nworkspace = true") {
            problems.push(format!("{}: the workspace's lints are not used", folder.display()));
        }
        described(&folder, problems)?;
        tests_are_run(&folder, problems)?;
    }
    Ok(())
}

/// Checks that the root file of a crate begins with a description of it.
fn described(folder: &Path, problems: &mut Problems) -> Result<()> {
    let roots = ["src/lib.rs", "src/main.rs"].map(|name| folder.join(name));
    let Some(root) = roots.iter().find(|path| disk::exists(path)) else {
        problems.push(format!("{}: neither library nor program", folder.display()));
        return Ok(());
    };
    let text = disk::read_text(root)?;
    let words =
        text.lines().take_while(|line| line.starts_with("//!")).flat_map(str::split_whitespace);
    if words.count() < 6 {
        problems.push(format!("{}: does not say what the crate is", root.display()));
    }
    Ok(())
}

/// Checks that every Rust file and module folder in `tests` is a module of `tests/runner.rs`.
fn tests_are_run(folder: &Path, problems: &mut Problems) -> Result<()> {
    let tests = folder.join("tests");
    if !disk::exists(&tests) {
        return Ok(());
    }
    let entries = disk::list(&tests)?;
    if entries.is_empty() {
        return Ok(());
    }
    let runner_path = tests.join("runner.rs");
    if !disk::exists(&runner_path) {
        problems.push(format!("{}: has no runner.rs", tests.display()));
        return Ok(());
    }
    let runner = disk::read_text(&runner_path)?;
    for entry in entries {
        let name = entry.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_rust = entry.extension().is_some_and(|extension| extension == "rs")
            || disk::exists(&entry.join("mod.rs"));
        let declared =
            runner.lines().any(|line| line.trim_start_matches("pub ") == format!("mod {name};"));
        if is_rust && name != "runner" && !declared {
            problems.push(format!("{}: not a module of runner.rs", entry.display()));
        }
    }
    Ok(())
}
