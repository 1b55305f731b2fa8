//! Rules for every source file.

use std::path::Path;

use anyhow::Result;
use barid_testkit::disk;

use super::Problems;

/// Most lines of a file without its tests.
const FILE_LINES_MAX: usize = 700;
/// Most lines of a function.
const FUNCTION_LINES_MAX: usize = 70;
/// Most columns of a line.
const WIDTH_MAX: usize = 100;
/// Texts specific to one machine, or to unfinished work. They are split so that this file contains
/// none.
const FORBIDDEN: [&str; 6] = [
    concat!("/wo", "rk/"),
    concat!("/tmp/cor", "pora"),
    concat!("/ro", "ot/"),
    concat!("FIX", "ME"),
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
];
/// The folder of the only crate that accesses the disk.
const DISK_FOLDER: &str = "crates/barid-vfs/";

pub(super) fn check(root: &Path, problems: &mut Problems) -> Result<()> {
    for path in tracked(root)? {
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        let text = disk::read_text(&path)?;
        forbidden(&name, &text, problems);
        if name.ends_with(".rs") {
            lengths(&name, &text, problems);
            only_vfs_uses_the_disk(&name, &text, problems);
            reasons_are_given(&name, &text, problems);
        }
    }
    Ok(())
}

/// Returns the text files of the repository.
pub(super) fn tracked(root: &Path) -> Result<Vec<std::path::PathBuf>> {
    let mut files = Vec::new();
    for folder in ["crates", "xtask", "peers", "docs", "fuzz", ".ci", ".cargo"] {
        if disk::exists(&root.join(folder)) {
            files.extend(disk::list_files(&root.join(folder))?);
        }
    }
    files.extend(disk::list(root)?.into_iter().filter(|path| path.extension().is_some()));
    let endings = ["rs", "md", "toml", "c", "run"];
    files.retain(|path| {
        let ending = path.extension().or(path.file_name()).unwrap_or_default();
        endings.iter().any(|known| ending == *known)
    });
    Ok(files)
}

fn forbidden(name: &str, text: &str, problems: &mut Problems) {
    for (number, line) in text.lines().enumerate() {
        for word in FORBIDDEN.iter().filter(|word| line.contains(**word)) {
            problems.push(format!("{name}:{}: {word} must not be here", number + 1));
        }
    }
}

/// Returns `true` if a line contains a string literal or the continuation of one.
fn is_text(line: &str) -> bool {
    line.contains('"') || line.ends_with('\\')
}

fn lengths(name: &str, text: &str, problems: &mut Problems) {
    let lines: Vec<&str> = text.lines().collect();
    let is_test = name.contains("/tests/");
    let tests_at = lines.iter().position(|line| *line == "mod tests {").unwrap_or(lines.len());
    if !is_test && tests_at > FILE_LINES_MAX {
        problems.push(format!("{name}: {tests_at} lines, at most {FILE_LINES_MAX}"));
    }
    for (number, line) in lines.iter().enumerate() {
        // The formatter cannot break a string, and one broken by hand is hard to search for.
        if line.chars().count() > WIDTH_MAX && !is_text(line) {
            problems.push(format!("{name}:{}: wider than {WIDTH_MAX}", number + 1));
        }
        let len = function_len(&lines[number..]);
        if len > FUNCTION_LINES_MAX {
            let place = format!("{name}:{}", number + 1);
            problems.push(format!("{place}: {len} lines, at most {FUNCTION_LINES_MAX}"));
        }
    }
}

/// Returns the number of lines of the function that starts in the first line, or 0 if none does.
/// Relies on rustfmt: the end is a `}` with the same indentation as the start.
fn function_len(lines: &[&str]) -> usize {
    let start = lines[0].trim_start();
    let words = start.split(' ').take_while(|word| !word.contains('('));
    let is_function = words.clone().count() < 8 && {
        let mut before = words.take_while(|word| *word != "fn");
        let known = ["pub", "const", "async", "unsafe", "extern", "\"C\""];
        before.all(|word| known.contains(&word) || word.starts_with("pub("))
            || start.starts_with("pub(")
    };
    if !is_function || !(start.starts_with("fn ") || start.contains(" fn ")) {
        return 0;
    }
    let indent = lines[0].len() - start.len();
    let end = format!("{}}}", " ".repeat(indent));
    let without_body =
        |line: &&str| line.len() - line.trim_start().len() == indent && line.ends_with(';');
    let ends = |line: &&str| {
        **line == end || without_body(line) || (line.ends_with('}') && line.starts_with(&end))
    };
    let on_one_line = lines[0].ends_with(['}', ';']);
    if on_one_line { 1 } else { lines.iter().position(ends).map_or(0, |at| at + 1) }
}

/// Checks that only `barid-vfs` names the standard library's file functions, unless the file states
/// a reason.
fn only_vfs_uses_the_disk(name: &str, text: &str, problems: &mut Problems) {
    let used = concat!("std::", "fs");
    let excused = text.contains("clippy::disallowed_");
    if !name.starts_with(DISK_FOLDER)
        && !name.starts_with("xtask/src/tidy/")
        && text.contains(used)
        && !excused
    {
        problems.push(format!("{name}: {used} outside barid-vfs"));
    }
}

/// Checks that lints are silenced with `expect`, and that an `expect` of a value states the
/// invariant.
fn reasons_are_given(name: &str, text: &str, problems: &mut Problems) {
    let (call, because) = (concat!(".exp", "ect(\""), concat!(".exp", "ect(\"because "));
    for (number, line) in text.lines().enumerate() {
        let place = format!("{name}:{}", number + 1);
        if line.contains(concat!("[al", "low(")) {
            problems.push(format!("{place}: use expect with a reason"));
        }
        if line.contains(call) && !line.contains(because) {
            problems.push(format!("{place}: expect says \"because\" and the invariant"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_counted() {
        let check = |text: &str, expected| {
            let lines: Vec<_> = text.lines().collect();
            assert_eq!(function_len(&lines), expected, "{text}");
        };
        check("fn a() {\n    b();\n}\nfn c() {}", 3);
        check("    pub(crate) const fn a() {\n        {\n        }\n    }", 4);
        check("    fn a(&self) -> u8;\n    fn b();\n}", 1);
        check("    fn a(&self) {}\n    fn b() {\n    }", 1);
        check("let a = b;\n}", 0);
        check("fn a(\n    b: u8,\n) -> u8 {\n    b\n}", 5);
    }
}
