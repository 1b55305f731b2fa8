//! LIST and LSUB (RFC 9051 §6.3.9, RFC 5258).

use barid_folders::{FolderTree, Layout};
use barid_imap::command::{ListCommand, ListSelection};

use crate::world::{create, disk, named, tree};

fn prepared(layout: Layout) -> FolderTree {
    let tree = tree(&disk(), layout);
    for name in ["INBOX", "a", "b/x/y", "b/z", "Sent", "gone", "gone2/x"] {
        create(&tree, name);
    }
    for name in ["a", "b/x/y", "gone", "gone2/x", "INBOX"] {
        tree.subscribe(&named(&tree, name), true).unwrap();
    }
    for name in ["gone", "gone2/x"] {
        tree.delete(&named(&tree, name)).unwrap();
    }
    if layout == Layout::NestedMaildirs {
        tree.delete(&named(&tree, "gone2")).unwrap();
    }
    tree
}

/// Compares the names of an answer. Marks: `!` does not exist, `-` cannot be selected, `+` has
/// children, `s` subscribed, `b` subscribed below.
#[track_caller]
fn check(command: ListCommand, expected: &[&str]) {
    for layout in [Layout::MaildirPlusPlus, Layout::NestedMaildirs] {
        let tree = prepared(layout);
        let separator = tree.separator().to_string();
        let translate = |text: &String| text.replace('/', &separator);
        let command = ListCommand {
            reference: translate(&command.reference),
            patterns: command.patterns.iter().map(translate).collect(),
            ..command.clone()
        };
        let found: Vec<String> = tree
            .list(&command)
            .unwrap()
            .into_iter()
            .map(|listed| {
                let is_level = layout == Layout::NestedMaildirs && listed.has_children;
                let marks = [
                    (!listed.exists && !is_level, "!"),
                    (!listed.is_selectable, "-"),
                    (listed.has_children, "+"),
                    (listed.is_subscribed, "s"),
                    (listed.has_subscribed_below, "b"),
                ];
                let marks = marks.iter().filter(|(has, _)| *has).map(|(_, mark)| *mark);
                let marks: String = marks.collect();
                // What only begins other names is a folder in one layout and nothing in the other.
                let marks = marks.replace("!-+", "-+");
                format!("{}{marks}", listed.name.replace(&separator, "/") + " ").trim().to_owned()
            })
            .collect();
        assert_eq!(found, expected, "{layout:?}");
    }
}

fn list(patterns: &[&str]) -> ListCommand {
    let patterns = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
    ListCommand { response: "LIST", patterns, ..ListCommand::default() }
}

fn subscribed(patterns: &[&str], recursive_match: bool) -> ListCommand {
    let selection = ListSelection { subscribed: true, recursive_match, ..Default::default() };
    ListCommand { selection, ..list(patterns) }
}

#[test]
fn patterns_select() {
    check(list(&["*"]), &["INBOX s", "Sent", "a s", "b -+b", "b/x -+b", "b/x/y s", "b/z"]);
    check(list(&["%"]), &["INBOX s", "Sent", "a s", "b -+b"]);
    check(list(&["b/%"]), &["b/x -+b", "b/z"]);
    check(list(&["b/%", "a", "inb*"]), &["INBOX s", "a s", "b/x -+b", "b/z"]);
    check(ListCommand { reference: "b/".into(), ..list(&["*"]) }, &["b/x -+b", "b/x/y s", "b/z"]);
    check(list(&["b/x/"]), &["b/x -+b"]);
    check(list(&["nothing"]), &[]);
    check(list(&[""]), &[]);
}

#[test]
fn subscriptions_select() {
    check(subscribed(&["*"], false), &["INBOX s", "a s", "b/x/y s", "gone !-s", "gone2/x !-s"]);
    check(subscribed(&["%"], false), &["INBOX s", "a s", "gone !-s"]);
    check(subscribed(&["%"], true), &["INBOX s", "a s", "b -+b", "gone !-s", "gone2 !-b"]);
    // Parents stand only for what is not returned itself (RFC 5258 §3.5).
    check(subscribed(&["*"], true), &["INBOX s", "a s", "b/x/y s", "gone !-s", "gone2/x !-s"]);
    check(subscribed(&["b", "b/x/y"], true), &["b/x/y s"]);
    check(subscribed(&["b", "b/x"], true), &["b -+b", "b/x -+b"]);
    let lsub = |pattern: &str| ListCommand { response: "LSUB", ..list(&[pattern]) };
    check(lsub("%"), &["INBOX s", "a s", "b -+b", "gone !-s", "gone2 !-b"]);
    check(lsub("*"), &["INBOX s", "a s", "b/x/y s", "gone !-s", "gone2/x !-s"]);
    check(lsub("b/%"), &["b/x -+b"]);
}

/// Clients ask for special uses as a selection, or as a return option, which selects nothing.
#[test]
fn special_uses_select() {
    let selection = ListSelection { special_use: true, ..Default::default() };
    check(ListCommand { selection, ..list(&["*"]) }, &["Sent"]);
    let mut returned = list(&["%"]);
    returned.returns.special_use = true;
    check(returned, &["INBOX s", "Sent", "a s", "b -+b"]);
    let tree = prepared(Layout::MaildirPlusPlus);
    let sent = tree.list(&list(&["Sent"])).unwrap();
    assert_eq!(sent[0].special_use, ["\\Sent"]);
}

/// INBOX is first, then names in order.
#[test]
fn answers_are_in_order() {
    let tree = tree(&disk(), Layout::MaildirPlusPlus);
    for name in ["a b", "a.b", "a", "B", "INBOX.z", "Z"] {
        create(&tree, name);
    }
    let names: Vec<_> =
        tree.list(&list(&["*"])).unwrap().into_iter().map(|listed| listed.name).collect();
    assert_eq!(names, ["INBOX", "B", "INBOX.z", "Z", "a", "a b", "a.b"]);
}
