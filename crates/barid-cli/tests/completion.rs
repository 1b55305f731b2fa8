//! Completion in shells: what may stand at the cursor.

use std::process::Command;

use crate::support::World;

fn world() -> World {
    let world = World::new();
    let root = world.path("mail").display().to_string();
    for folder in ["inbox", "lists/rust", "lists/mutt"] {
        world.maildir(&format!("mail/{folder}"), &["Subject: a\n\nx\n"]);
    }
    let config = format!(
        "[mailboxes]\nlists = \"{root}/lists/rust\"\n[account.work]\nroot = \"{root}\"\n\
         [queries]\ntodo = \"is:flagged\"\n"
    );
    world.write("config.toml", config.as_bytes());
    world
}

/// Returns what the program answers for the last of these words, as the scripts ask it.
fn answers(world: &World, words: &[&str]) -> Vec<String> {
    let mut command = world.command();
    command.env("BARID_COMPLETE", "bash").env("BARID_CONFIG_FILE", world.path("config.toml"));
    command.env("_CLAP_COMPLETE_INDEX", words.len().to_string()).env("_CLAP_IFS", "\n");
    let output = command.args(["--", "barid"]).args(words).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn what_may_stand_at_the_cursor_is_known() {
    let world = world();
    let check = |words: &[&str], expected: &[&str]| {
        assert_eq!(answers(&world, words), expected, "{words:?}");
    };
    check(&["sea"], &["search"]);
    check(&["ls", "@"], &["@lists", "@work"]);
    check(&["ls", "@work/l"], &["@work/lists/mutt", "@work/lists/rust"]);
    check(&["search", "x", "fil"], &["filename:"]);
    check(&["search", "x", "-sub"], &["-subject:"]);
    check(&["search", "x", "is:un"], &["is:unread", "is:unflagged", "is:unanswered"]);
    check(&["search", "x", "query:"], &["query:todo"]);
    check(&["flag", "x", "query:t"], &["query:todo"]);
    check(&["search", "--sort", "si"], &["size"]);
    check(
        &["ls", "--sort", "reverse:d"],
        &["reverse:date", "reverse:displayfrom", "reverse:displayto"],
    );
    check(&["copy", "x", "1", "@li"], &["@lists"]);
    check(&["ls", "--tree", "@l"], &["@lists"]);
    check(&["search", "--to", "@l"], &[]);
    check(&["ls", "mai"], &["mail/"]);
    check(&["ls", "maildir:mail/i"], &["maildir:mail/inbox/"]);
    check(&["spam", "tr"], &["train"]);
}

#[test]
fn every_shell_has_a_script_that_asks() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = world.ok(&["completions", shell]);
        assert!(script.contains("BARID_COMPLETE") && script.contains("barid"), "{shell}");
    }
}

/// bash divides words at colons and at signs: its script has to know.
#[test]
fn bash_completes_pieces_of_words() {
    let world = world();
    world.write("script", world.ok(&["completions", "bash"]).as_bytes());
    let check = |line: &str, piece: &str, expected: &str| {
        let asked = format!(
            ". ./script; COMP_LINE='{line}'; COMP_POINT={}; _barid barid '{piece}' x; \
             echo \"${{COMPREPLY[*]}}\"",
            line.len()
        );
        let folder = std::path::Path::new(env!("CARGO_BIN_EXE_barid")).parent().unwrap();
        let path = format!("{}:/usr/bin:/bin", folder.display());
        let mut command = Command::new("bash");
        command.args(["--norc", "-c", &asked]).current_dir(world.path("."));
        command.env_clear().env("PATH", path).env("HOME", world.path("."));
        command.env("BARID_CONFIG_FILE", world.path("config.toml"));
        let output = command.output().unwrap();
        let found = String::from_utf8(output.stdout).unwrap();
        assert_eq!(
            found.trim_end(),
            expected,
            "{line}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    check("barid sea", "sea", "search");
    check("barid ls @li", "li", "lists");
    check("barid ls @li", "@li", "@lists");
    check("barid search x is:unr", "unr", "unread");
    check("barid search x fil", "fil", "filename:");
    check("barid search x query:", ":", ":todo");
    // Names of files are anybody's.
    world.write("zz$(touch x) *", b"");
    check("barid ls zz", "zz", "zz\\$\\(touch\\ x\\)\\ \\*");
}
