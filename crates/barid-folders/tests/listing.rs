//! LIST and LSUB (RFC 9051 §6.3.9, RFC 5258).

use barid_folders::{FolderTree, Layout};
use barid_imap::backend::ListedMailbox;
use barid_imap::command::{ListCommand, ListSelection};

use crate::world::{create, disk, layouts, named, tree};

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

/// The requests of imaptest's script `listext`, on every layout: of each name that a request must
/// or must not return, the marks as in [`check`].
#[test]
fn the_script_of_imaptest_holds() {
    for layout in layouts() {
        let disk = disk();
        let tree = tree(&disk, layout);
        let named = |name: &str| named(&tree, &format!("box{name}"));
        for name in ["/", "/test1", "/test2/", "/test2/test1", "/test3", "/test4/test5"] {
            tree.create(&named(name), name.ends_with('/'), &[]).unwrap();
        }
        for name in ["/test4/test52", "/test6", "/test7/test7", "/test8/test8", "/test8/test9"] {
            tree.create(&named(name), false, &[]).unwrap();
        }
        for name in ["/test1", "/test2/test1", "/test6", "/test7/test7", "/test8/test8"] {
            tree.subscribe(&named(name), true).unwrap();
        }
        tree.subscribe(&named("/test8/test9"), true).unwrap();
        tree.delete(&named("/test6")).unwrap();
        let ask = |patterns: &[&str], subscribed: bool, recursive_match: bool| {
            let patterns = patterns.iter().map(|pattern| named(pattern).0).collect();
            let selection = ListSelection { subscribed, recursive_match, ..Default::default() };
            let command =
                ListCommand { response: "LIST", patterns, selection, ..ListCommand::default() };
            tree.list(&command).unwrap()
        };
        let of = |found: &[ListedMailbox], name: &str| {
            found.iter().find(|listed| listed.name == named(name).0).cloned()
        };
        let found = ask(&["/*2", "/test3"], false, false);
        for (name, is_listed) in [
            ("/test1", false),
            ("/test2", true),
            ("/test2/test1", false),
            ("/test3", true),
            ("/test4", false),
            ("/test4/test5", false),
            ("/test4/test52", true),
            ("/test6", false),
        ] {
            assert_eq!(of(&found, name).is_some(), is_listed, "{layout:?} {name}");
        }
        let found = ask(&["/*"], true, false);
        let gone = of(&found, "/test6").unwrap();
        assert!(gone.is_subscribed && !gone.exists);
        assert!(found.iter().all(|listed| listed.is_subscribed) && found.len() == 6);
        let found = ask(&["/test2%"], true, true);
        let parent = of(&found, "/test2").unwrap();
        assert!(parent.has_children && parent.has_subscribed_below && !parent.is_subscribed);
        assert_eq!(found.len(), 1);
        let found = ask(&["/%"], false, false);
        for (name, is_subscribed, has_children) in [
            ("/test1", true, false),
            ("/test2", false, true),
            ("/test3", false, false),
            ("/test4", false, true),
            ("/test7", false, true),
            ("/test8", false, true),
        ] {
            let listed = of(&found, name).unwrap();
            let marks = (listed.is_subscribed, listed.has_children);
            assert_eq!(marks, (is_subscribed, has_children), "{layout:?} {name}");
        }
        let found = ask(&["*test7"], true, true);
        assert!(of(&found, "/test7").is_none() && of(&found, "/test7/test7").is_some());
        assert!(of(&ask(&["*test8"], true, true), "/test8/test8").is_some());
        let found = ask(&["/test2", "/test2/test1"], true, true);
        assert!(of(&found, "/test2").is_none() && of(&found, "/test2/test1").is_some());
        assert!(of(&ask(&["/test2"], true, true), "/test2").is_some());
    }
}
