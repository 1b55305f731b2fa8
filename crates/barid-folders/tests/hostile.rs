//! Names and links that lead where they should not.

use std::path::Path;
use std::sync::Arc;

use barid::{FormatName, MailboxSpec};
use barid_folders::{FolderOptions, FolderTree, Layout};
use barid_vfs::{MemVfs, OpenOptions, Vfs};

use crate::world::{
    ROOT, create, disk, layouts, list_all, nests, options, selectable, tree, tree_with,
};

const MBOX: &str = "From a Thu Jan  1 00:00:00 1970\n\nb\n";

fn write(disk: &MemVfs, path: &str, text: &str) {
    let path = Path::new(path);
    disk.create_dir_all(path.parent().unwrap(), 0o700).unwrap();
    let file = disk.open(path, OpenOptions::create_new(0o600)).unwrap();
    file.write_all_at(text.as_bytes(), 0).unwrap();
}

fn maildir(disk: &MemVfs, path: &str) {
    for part in ["new", "cur", "tmp"] {
        disk.create_dir_all(&Path::new(path).join(part), 0o700).unwrap();
    }
}

/// No name leads out of the root, whatever is asked for.
#[test]
fn names_that_lead_out_are_refused() {
    let names = [
        "..",
        "../x",
        "../../etc/passwd",
        "a/../../x",
        "/etc/passwd",
        "./x",
        "a//b",
        "a/./b",
        "",
        ".",
        "/",
        "//",
        "a\0b",
        "a\nb",
        "a\r\nb",
        "\u{7f}",
        "~",
        "~root/x",
        "..x",
        ".imap/barid-trash/1",
        ".hidden",
        "a/.hidden",
        "x.lock",
        "a.b/../..",
        "a...b",
        "..a",
    ];
    for layout in layouts() {
        let disk = disk();
        write(&disk, "/home/x", MBOX);
        maildir(&disk, "/home/.x");
        let tree = tree(&disk, layout);
        create(&tree, "INBOX");
        create(&tree, "a");
        let before = list_all(&tree);
        for name in names {
            let name = name.into();
            let refused = |code: Option<&str>| matches!(code, Some("CANNOT" | "NONEXISTENT"));
            let open = tree.spec_of(&name).unwrap_err();
            assert!(refused(open.code()), "{layout:?} {name:?} {open}");
            let delete = tree.delete(&name).unwrap_err();
            assert!(refused(delete.code()), "{layout:?} {name:?} {delete}");
            let subscribe = tree.subscribe(&name, true).unwrap_err();
            assert!(refused(subscribe.code()), "{layout:?} {name:?} {subscribe}");
            // In Maildir++ a dot separates, so that some are names like others.
            if let Err(error) = tree.create(&name, false, &[]) {
                assert_eq!(error.code(), Some("CANNOT"), "{layout:?} {name:?}");
            } else {
                let is_one = matches!(name.0.as_str(), "x.lock" | "a...b");
                assert!(is_one, "{layout:?} {name:?}");
                tree.delete(&name).unwrap();
            }
            if tree.rename(&"a".into(), &name).is_ok() {
                let _ = tree.rename(&name, &"a".into()).unwrap();
            }
            assert!(tree.rename(&name, &"b".into()).is_err(), "{layout:?} {name:?}");
        }
        assert_eq!(list_all(&tree), before, "{layout:?}");
    }
}

#[test]
fn links_out_of_the_root_are_not_followed() {
    for layout in layouts() {
        let disk = disk();
        let tree = tree(&disk, layout);
        create(&tree, "INBOX");
        create(&tree, "real");
        maildir(&disk, "/home/out");
        maildir(&disk, "/home/out/below");
        maildir(&disk, "/home/out/.below");
        write(&disk, "/home/mbox", MBOX);
        let link = |target: &str, name: &str| {
            disk.symlink(Path::new(target), &Path::new(ROOT).join(name)).unwrap();
        };
        for name in ["out", ".out"] {
            link("/home/out", name);
        }
        link("/home/mbox", "mbox");
        link("/home", "home");
        link("/nowhere", "nowhere");
        let is_file = !nests(layout);
        if is_file {
            link(&format!("{ROOT}/real"), "alias");
        }
        let expected: &[&str] =
            if is_file { &["INBOX", "alias", "real"] } else { &["INBOX", "real"] };
        assert_eq!(selectable(&tree), expected, "{layout:?}");
        assert_eq!(list_all(&tree).len(), expected.len(), "{layout:?}");
        for name in ["out", "out/below", "mbox", "home", "home/mbox", "nowhere", "out.below"] {
            let error = tree.spec_of(&name.into()).unwrap_err();
            assert!(matches!(error.code(), Some("CANNOT" | "NONEXISTENT")), "{name} {error}");
            assert!(tree.delete(&name.into()).is_err());
            assert!(tree.rename(&name.into(), &"real2".into()).is_err(), "{layout:?} {name}");
            // The files of Maildir++ have other names than those links.
            let is_link = layout != Layout::MaildirPlusPlus && name != "out.below";
            if is_link || name == "out" {
                assert!(tree.create(&name.into(), false, &[]).is_err(), "{layout:?} {name}");
            }
        }
        assert!(tree.rename(&"real".into(), &"home/x".into()).is_err());
        assert_eq!(selectable(&tree), expected, "{layout:?}");
        assert!(disk.metadata(Path::new("/home/mbox")).is_ok());
        assert!(disk.metadata(Path::new("/home/out/below/cur")).is_ok());
    }
}

/// Names on the disk that no name of IMAP leads to are not listed, and harm nothing.
#[test]
fn names_on_the_disk_may_be_anything() {
    use std::os::unix::ffi::OsStrExt;
    let disk = disk();
    let tree_plus = tree(&disk, Layout::MaildirPlusPlus);
    create(&tree_plus, "INBOX");
    let names: [&[u8]; 14] = [
        b".ok",
        b".a&b",
        b".&AOQ-",
        b".a\xff",
        b".a\nb",
        b".&AAA-",
        b".&AC8-",
        b"..x",
        b".x.",
        b".x..y",
        b".INBOX",
        b".Inbox.x",
        b".INBOX.y",
        b".a b\x7f",
    ];
    for name in names {
        let folder = Path::new(ROOT).join(std::ffi::OsStr::from_bytes(name));
        for part in ["new", "cur"] {
            disk.create_dir_all(&folder.join(part), 0o700).unwrap();
        }
    }
    maildir(&disk, &format!("{ROOT}/.ä"));
    let found = selectable(&tree_plus);
    // The folder `.&AC8-` is not the mailbox `/`, and `.ä` is hidden by the one in UTF-7.
    assert_eq!(found, ["INBOX", "&AC8-", "INBOX/y", "a&b", "ok", "ä"]);
    for name in found {
        let name = name.replace('/', ".");
        let spec = tree_plus.spec_of(&name.as_str().into()).unwrap();
        assert!(!spec.path.ends_with(".ä"));
        assert!(disk.metadata(&spec.path.join("cur")).is_ok(), "{name}");
    }
    tree_plus.delete(&"ä".into()).unwrap();
    let spec = tree_plus.spec_of(&"ä".into()).unwrap();
    assert!(spec.path.ends_with(".ä"));
}

#[test]
fn other_files_are_not_mailboxes() {
    let format = FormatName::named("mboxrd").unwrap().format();
    let disk = disk();
    let tree = tree(&disk, Layout::Files(format));
    create(&tree, "INBOX");
    create(&tree, "real");
    for (name, text) in [
        ("subscriptions", ""),
        ("real.lock", ""),
        ("real.lock.77.host", ""),
        ("notes", "text\n"),
        (".subscriptions", "real\n"),
        ("dovecot-uidvalidity.0000001a", ""),
        ("dovecot.index.log", ""),
        (".imap/real/dovecot.index", "x"),
        (".hidden", MBOX),
    ] {
        write(&disk, &format!("{ROOT}/{name}"), text);
    }
    assert_eq!(selectable(&tree), ["INBOX", "real"]);
    assert_eq!(list_all(&tree).len(), 2);
}

#[test]
fn inbox_may_be_elsewhere() {
    for layout in layouts() {
        let disk = disk();
        write(&disk, "/var/mail/ann", MBOX);
        let tree = tree_with(&disk, |options| {
            options.layout = Some(layout);
            options.inbox = Some(MailboxSpec::parse("/var/mail/ann"));
        });
        create(&tree, "a");
        create(&tree, "INBOX/x");
        assert_eq!(selectable(&tree), ["INBOX", "INBOX/x", "a"], "{layout:?}");
        let spec = tree.spec_of(&"inbox".into()).unwrap();
        assert_eq!(spec.path, Path::new("/var/mail/ann"));
        assert!(tree.create(&"INBOX".into(), false, &[]).is_err());
        disk.remove_file(Path::new("/var/mail/ann")).unwrap();
        assert_eq!(tree.spec_of(&"INBOX".into()).unwrap_err().code(), Some("NONEXISTENT"));
        tree.create(&"INBOX".into(), false, &[]).unwrap();
        assert!(tree.spec_of(&"INBOX".into()).is_ok(), "{layout:?}");
    }
}

/// A folder that contains INBOX stays where it is.
#[test]
fn inbox_is_not_moved_with_others() {
    let disk = disk();
    let tree = tree_with(&disk, |options| {
        options.layout = Some(Layout::NestedMaildirs);
        options.inbox = Some(MailboxSpec::parse("/home/mail/top/in"));
    });
    create(&tree, "top");
    create(&tree, "top/x");
    tree.create(&"INBOX".into(), false, &[]).unwrap();
    assert_eq!(selectable(&tree), ["INBOX", "top", "top/x"]);
    assert_eq!(tree.rename(&"top".into(), &"b".into()).unwrap_err().code(), Some("CANNOT"));
    assert_eq!(tree.delete(&"top".into()).unwrap_err().code(), Some("CANNOT"));
    tree.delete(&"top/x".into()).unwrap();
    assert_eq!(selectable(&tree), ["INBOX", "top"]);
}

#[test]
fn layouts_are_detected() {
    let check = |make: &dyn Fn(&MemVfs), expected: Layout, inbox: &str| {
        let disk = disk();
        make(&disk);
        let found =
            FolderTree::open(Arc::new(disk.clone()), FolderOptions::new(ROOT.into(), options()))
                .unwrap();
        assert_eq!(found.layout(), expected);
        if !inbox.is_empty() {
            let spec = found.spec_of(&"INBOX".into()).unwrap();
            assert_eq!(spec.path, Path::new(inbox), "{expected:?}");
        }
    };
    let format = |name| Layout::Files(FormatName::named(name).unwrap().format());
    check(&|_| {}, Layout::MaildirPlusPlus, "");
    check(&|disk| maildir(disk, ROOT), Layout::MaildirPlusPlus, ROOT);
    let dotted = |disk: &MemVfs| maildir(disk, "/home/mail/.a");
    check(&dotted, Layout::MaildirPlusPlus, "");
    let nested = |disk: &MemVfs| {
        maildir(disk, "/home/mail/Inbox");
        maildir(disk, "/home/mail/lists/rust");
    };
    check(&nested, Layout::NestedMaildirs, "/home/mail/Inbox");
    let nested_in_inbox = |disk: &MemVfs| {
        maildir(disk, ROOT);
        maildir(disk, "/home/mail/sent");
    };
    check(&nested_in_inbox, Layout::NestedMaildirs, ROOT);
    let mboxes = |disk: &MemVfs| {
        write(disk, "/home/mail/subscriptions", "");
        write(disk, "/home/mail/InBox", MBOX);
        write(disk, "/home/mail/sent", MBOX);
    };
    check(&mboxes, format("mboxo"), "/home/mail/InBox");
    let empty_inbox = |disk: &MemVfs| write(disk, "/home/mail/inbox", "");
    check(&empty_inbox, format("mboxo"), "/home/mail/inbox");
    check(&|disk| write(disk, "/home/mail/sent", ""), Layout::MaildirPlusPlus, "");
    let numbers = |disk: &MemVfs| {
        write(disk, "/home/mail/inbox/.mh_sequences", "");
        write(disk, "/home/mail/sent/.mh_sequences", "");
    };
    check(&numbers, format("mh"), "/home/mail/inbox");
    check(&|disk| write(disk, ROOT, MBOX), format("mboxo"), ROOT);
}

/// A root that is a mailbox file is an account with INBOX alone.
#[test]
fn one_file_is_an_account() {
    let disk = disk();
    write(&disk, ROOT, MBOX);
    let tree = tree_with(&disk, |_| {});
    assert_eq!(selectable(&tree), ["INBOX"]);
    assert_eq!(tree.create(&"a".into(), false, &[]).unwrap_err().code(), Some("CANNOT"));
    assert_eq!(tree.subscribe(&"INBOX".into(), true).unwrap_err().code(), Some("CANNOT"));
    assert_eq!(tree.delete(&"INBOX".into()).unwrap_err().code(), Some("CANNOT"));
}

#[test]
fn separators_and_prefixes_are_checked() {
    let open = |separator: Option<char>, prefix: &str| {
        let mut options = FolderOptions::new(ROOT.into(), options());
        (options.separator, options.prefix) = (separator, prefix.to_owned());
        FolderTree::open(Arc::new(disk()), options).is_ok()
    };
    assert!(open(None, "") && open(Some('/'), "") && open(None, "INBOX.") && open(Some('/'), "a/"));
    for (separator, prefix) in
        [(Some('a'), ""), (Some('%'), ""), (Some('\n'), ""), (Some('"'), ""), (Some('\\'), "")]
    {
        assert!(!open(separator, prefix), "{separator:?}");
    }
    assert!(!open(None, "INBOX") && !open(None, ".") && !open(None, "a\n."));
}

/// Courier's names: everything is below INBOX.
#[test]
fn a_prefix_is_before_all_names_but_inbox() {
    let disk = disk();
    let tree = tree_with(&disk, |options| options.prefix = "INBOX.".to_owned());
    assert_eq!(tree.namespaces()[0].prefix, "INBOX.");
    tree.create(&"INBOX".into(), false, &[]).unwrap();
    tree.create(&"inbox.a.b".into(), false, &[]).unwrap();
    tree.create(&"INBOX.Sent".into(), false, &[]).unwrap();
    assert!(disk.metadata(&Path::new(ROOT).join(".a.b/cur")).is_ok());
    assert_eq!(tree.create(&"a".into(), false, &[]).unwrap_err().code(), Some("CANNOT"));
    let names: Vec<_> = list_all(&tree).into_iter().map(|listed| listed.name).collect();
    assert_eq!(names, ["INBOX", "INBOX.Sent", "INBOX.a", "INBOX.a.b"]);
    assert!(list_all(&tree)[0].has_children);
    assert_eq!(tree.special_use(&"INBOX.Sent".into()).unwrap(), ["\\Sent"]);
    tree.subscribe(&"INBOX.a.b".into(), true).unwrap();
    let file = disk.read(&Path::new(ROOT).join("subscriptions"), 99).unwrap();
    assert_eq!(file, b"V\t2\n\na\tb\n");
    assert!(list_all(&tree)[3].is_subscribed);
}
