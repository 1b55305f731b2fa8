//! `barid flag box 1 -seen`, `barid search box -from:bob`: arguments that begin with a minus and
//! are not options.
//!
//! A positional argument that may begin with a minus would consume every option after it. So a flag
//! word that cannot be an option is moved after `--`. The words of a query must keep their order;
//! there the minus becomes `!`, which means the same.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use barid::SortProgram;
use clap::{Arg, Command};

use crate::lazy;

/// The subcommands whose arguments may begin with a minus.
const SUBCOMMANDS: [&str; 9] =
    [FLAG, "search", "count", "ls", "thread", "show", "attachments", "export", "expunge"];
/// A subcommand of a subcommand, whose arguments may begin with a minus, too.
const NESTED: (&str, &str) = ("spam", "move");
/// The subcommand whose flags may stand anywhere; the words of the others keep their order.
const FLAG: &str = "flag";

/// Moves flags to remove to the end, after `--`, and marks negated terms with `!`. `args` begins
/// with the name of the program; `define` returns the definition of its options.
pub(crate) fn separate(args: Vec<OsString>, define: fn() -> Command) -> Vec<OsString> {
    // Building the definition takes as long as many commands, and few command lines need it.
    let is_named = |arg: &OsString| is_known(arg) || arg == NESTED.0;
    let is_flag = args.iter().any(|arg| arg == FLAG);
    if !args.iter().any(is_named) || !args.iter().any(|arg| may_be_none(arg, is_flag)) {
        return args;
    }
    let command = &lazy::whole(define);
    let Some((at, sub)) = subcommand_at(&args, command) else { return args };
    let end = args[at..].iter().position(|arg| arg == "--").map_or(args.len(), |len| at + len);
    let is_removal = |arg: &OsString| {
        let text = arg.to_string_lossy();
        let letters = text.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        letters.is_some_and(|letters| !letters.is_empty() && !are_options(letters, sub, command))
    };
    if sub.get_name() != FLAG {
        // An option with a minus too few is refused, not looked for as a text.
        let is_removal = |arg: &OsString| is_removal(arg) && !is_long_option(arg, sub, command);
        let args = args.into_iter().enumerate();
        return args
            .map(|(number, arg)| match number > at && number < end && is_removal(&arg) {
                true => negated(&arg),
                false => arg,
            })
            .collect();
    }
    let (mut kept, mut moved) = (Vec::with_capacity(args.len() + 1), Vec::new());
    for (number, arg) in args.into_iter().enumerate() {
        match number {
            _ if number == end => {}
            _ if number > at && number < end && is_removal(&arg) => moved.push(arg),
            _ if number > end => moved.push(arg),
            _ => kept.push(arg),
        }
    }
    if !moved.is_empty() {
        kept.push("--".into());
        kept.append(&mut moved);
    }
    kept
}

/// Returns `true` if an argument begins with a minus and may not be an option. Without a look at
/// the definitions, only the usual options are known.
fn may_be_none(arg: &OsString, is_flag: bool) -> bool {
    match arg.as_bytes() {
        [b'-', b'-', ..] | [b'-'] => false,
        [b'-', b'q' | b'v' | b'h'] => false,
        [b'-', b'n'] => is_flag,
        bytes => bytes.starts_with(b"-"),
    }
}

/// Returns `true` if a word behind one minus is the name of a long option, perhaps with its value.
fn is_long_option(arg: &OsString, sub: &Command, command: &Command) -> bool {
    let text = arg.to_string_lossy();
    let name = text.trim_start_matches('-').split('=').next().unwrap_or_default();
    let mut all = command.get_arguments().chain(sub.get_arguments());
    all.any(|known| known.get_long() == Some(name))
}

/// Returns an argument with `!` in place of its minus.
fn negated(arg: &OsString) -> OsString {
    let mut negated = OsString::from("!");
    negated.push(OsStr::from_bytes(arg.as_bytes().get(1..).unwrap_or_default()));
    negated
}

fn is_known(name: &OsStr) -> bool {
    SUBCOMMANDS.iter().any(|known| name == *known)
}

/// Returns the index and the definition of the subcommand, if it is one of [`SUBCOMMANDS`] or
/// [`NESTED`].
fn subcommand_at<'a>(args: &[OsString], command: &'a Command) -> Option<(usize, &'a Command)> {
    let (mut at, mut above) = (1, None);
    while let Some(arg) = args.get(at) {
        let text = arg.to_string_lossy();
        let Some(option) = text.strip_prefix("--") else {
            if text.starts_with('-') {
                at += 1;
                continue;
            }
            let sub = above.unwrap_or(command).find_subcommand(arg);
            match above {
                None if arg == NESTED.0 => above = Some(sub?),
                None if is_known(arg) => return Some((at, sub?)),
                Some(_) if arg == NESTED.1 => return Some((at, sub?)),
                _ => return None,
            }
            at += 1;
            continue;
        };
        let takes_value =
            |known: &Arg| known.get_long() == Some(option) && known.get_action().takes_values();
        at += if command.get_arguments().any(takes_value) { 2 } else { 1 };
    }
    None
}

/// Returns `true` if all letters after a minus are short options, the last perhaps with its value.
fn are_options(letters: &str, sub: &Command, command: &Command) -> bool {
    for (at, letter) in letters.char_indices() {
        let mut known = command.get_arguments().chain(sub.get_arguments());
        match known.find(|arg| arg.get_short() == Some(letter)) {
            Some(arg) if arg.get_action().takes_values() => {
                return is_value(letter, &letters[at + letter.len_utf8()..]);
            }
            Some(_) => {}
            None if letter == 'h' => {}
            None => return false,
        }
    }
    true
}

/// Returns `true` if a text can be the value of a short option. `-news` is a term of a query.
fn is_value(letter: char, text: &str) -> bool {
    let is_free = text.is_empty() || text.starts_with('=');
    match letter {
        'n' => is_free || text.bytes().all(|byte| byte.is_ascii_digit()),
        's' => is_free || SortProgram::parse([text]).is_ok(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory as _;

    fn check(line: &str, expected: &str) {
        let args = line.split(' ').map(OsString::from).collect();
        let found = separate(args, Cli::command);
        let found: Vec<_> = found.iter().map(|arg| arg.to_string_lossy()).collect();
        assert_eq!(found.join(" "), expected);
    }

    #[test]
    fn what_cannot_be_an_option_is_a_flag() {
        check("barid flag b 1 -seen", "barid flag b 1 -- -seen");
        check("barid flag b 1 -seen --json +x", "barid flag b 1 --json +x -- -seen");
        check("barid flag b 1 +x -$Junk -\\Seen", "barid flag b 1 +x -- -$Junk -\\Seen");
        check("barid flag -q b 1 -seen -v", "barid flag -q b 1 -v -- -seen");
        check("barid flag b 1 -a -- -v", "barid flag b 1 -- -a -v");
        check("barid flag b 1 -n", "barid flag b 1 -- -n");
        check("barid flag b 1 -- -v -b", "barid flag b 1 -- -v -b");
        check("barid flag b 1 +x", "barid flag b 1 +x");
    }

    #[test]
    fn negated_terms_of_a_query_keep_their_place() {
        check("barid search b -from:x or -y", "barid search b !from:x or !y");
        check("barid search b -c -from:x --json", "barid search b -c !from:x --json");
        check("barid search b -- -from:x", "barid search b -- -from:x");
        check("barid ls -n 3 b -from:x", "barid ls -n 3 b !from:x");
        check("barid ls -n3 b -news -sdate", "barid ls -n3 b !news -sdate");
        check("barid search b -spam -lr", "barid search b !spam -lr");
        check("barid expunge --dry-run b x -y", "barid expunge --dry-run b x !y");
        check("barid expunge b -deleted", "barid expunge b -deleted");
        check("barid expunge b -dry-run from:ann", "barid expunge b -dry-run from:ann");
        check("barid expunge b -keep-days=3 x", "barid expunge b -keep-days=3 x");
    }

    #[test]
    fn the_subcommand_is_found_after_options() {
        check("barid --json -q flag b 1 -seen", "barid --json -q flag b 1 -- -seen");
        check("barid --state-dir d flag b 1 -s", "barid --state-dir d flag b 1 -- -s");
        check("barid --state-dir=d flag b 1 -s", "barid --state-dir=d flag b 1 -- -s");
    }

    #[test]
    fn negated_terms_of_spam_move_keep_their_place() {
        check("barid spam move b -from:x --to c", "barid spam move b !from:x --to c");
        check("barid -q spam --json move b -x y", "barid -q spam --json move b !x y");
        check("barid spam move b -dry-run x", "barid spam move b -dry-run x");
    }

    #[test]
    fn other_commands_are_left_alone() {
        for line in [
            "barid",
            "barid status -x",
            "barid --state-dir flag status -x",
            "barid status flag -x",
            "barid spam classify -x",
            "barid spam search -x",
            "barid move -x",
        ] {
            check(line, line);
        }
    }
}
