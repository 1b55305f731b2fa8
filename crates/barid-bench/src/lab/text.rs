//! Numbers and command lines for people.

use std::process::Command;

/// Formats a command as typed in a shell.
pub(crate) fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| quoted(&word.to_string_lossy())).collect();
    words.join(" ")
}

/// Quotes a word for a shell.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_=/.,:+%@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Shortens a command line for an error message.
pub(crate) fn short(line: &str) -> String {
    const LEN_MAX: usize = 200;
    match line.char_indices().nth(LEN_MAX) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.to_owned(),
    }
}

/// Formats a count with its noun: `1 run`, `1,234 runs`.
pub(crate) fn counted(number: u64, name: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {name}{plural}", grouped(number))
}

/// Formats `1234567` as `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let chunks = digits.as_bytes().rchunks(3).rev().map(|chunk| String::from_utf8_lossy(chunk));
    chunks.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_can_be_pasted() {
        let mut command = Command::new("a/b");
        command.args(["--x=1", "my mail", "it's", ""]);
        assert_eq!(command_line(&command), "a/b --x=1 'my mail' 'it'\\''s' ''");
    }

    #[test]
    fn numbers_are_grouped() {
        let check = |number, expected| assert_eq!(grouped(number), expected);
        check(0, "0");
        check(999, "999");
        check(1_234_567, "1,234,567");
        assert_eq!(counted(1, "run"), "1 run");
        assert_eq!(counted(1200, "run"), "1,200 runs");
    }
}
