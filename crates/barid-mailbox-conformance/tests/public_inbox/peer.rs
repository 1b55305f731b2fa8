//! Archives that public-inbox's own programs make, change and rewrite: the messages that its
//! overview lists, in its order, with its dates.

use std::path::{Path, PathBuf};
use std::process::Command;

use barid_mailbox::ReadAs;
use barid_mailbox_conformance::StorageHandle;
use barid_testkit::peers::program;
use barid_testkit::{disk, skip_or_fail};

use super::archive::{GitArchive, output_of};

const ADDRESS: &str = "list@example.org";

/// Lists number, blob and time of all messages that public-inbox shows.
const LIST: &str = r#"
use PublicInbox::Inbox;
my $inbox = PublicInbox::Inbox->new({
    inboxdir => $ARGV[0], name => "x", address => ["list\@example.org"], version => 2 });
my ($over, $last) = ($inbox->over, 0);
while (1) {
    my $found = $over->query_xover($last + 1, $last + 1000);
    last unless @$found;
    for my $message (@$found) {
        print "$message->{num} $message->{blob} $message->{ts}\n";
        $last = $message->{num};
    }
}
"#;

/// The programs of public-inbox, and the archive that they use.
struct Peer<'a> {
    archive: &'a GitArchive,
    path: PathBuf,
    editor: &'static str,
}

impl Peer<'_> {
    fn run(&self, name: &str, args: &[&str], input: &[u8]) -> String {
        let home = self.archive.folder();
        let mut command = Command::new(name);
        command
            .args(args)
            .env("HOME", home)
            .env("PI_CONFIG", home.join("config"))
            .env("PI_EMERGENCY", home.join("emergency"))
            .env("ORIGINAL_RECIPIENT", ADDRESS)
            .env("MAIL_EDITOR", self.editor)
            .env("EDITOR", self.editor);
        String::from_utf8_lossy(&output_of(&mut command, input)).into_owned()
    }

    /// Compares what both list; returns the number of messages.
    fn compare(&self, handle: &StorageHandle<'_>) -> usize {
        let listed = self.run("perl", &["-e", LIST, self.path.to_str().unwrap()], b"");
        let ours: Vec<String> = handle
            .known
            .rows()
            .iter()
            .map(|row| {
                let (text, _) = handle.read(row, ReadAs::Stored).unwrap();
                format!("{} {}", self.archive.blob_name(&text), row.date.unix_seconds)
            })
            .collect();
        let theirs: Vec<String> =
            listed.lines().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect();
        assert_eq!(ours, theirs);
        ours.len()
    }
}

fn message(number: u32) -> Vec<u8> {
    let zone = ["+0000", "+0130", "-0800"][number as usize % 3];
    format!(
        "From: A <a@example.org>\nTo: {ADDRESS}\nSubject: message {number}\n\
         Date: Mon, 02 Jan 2017 10:{:02}:00 +0100\nMessage-ID: <{number}@example.org>\n\
         Received: from x by y; Tue, 03 Jan 2017 12:{:02}:01 {zone}\n\nbody {number}\n",
        number % 60,
        number * 7 % 60
    )
    .into_bytes()
}

#[test]
fn public_inbox_lists_the_same_messages() {
    let Some(archive) = GitArchive::new() else { return };
    let programs =
        ["init", "mda", "learn", "purge", "edit"].map(|name| format!("public-inbox-{name}"));
    if programs.iter().any(|name| program(name).is_none()) || program("perl").is_none() {
        skip_or_fail("public-inbox");
        return;
    }
    let path = archive.folder().join("peer");
    let peer =
        Peer { archive: &archive, path: path.clone(), editor: "sed -i 's/^body 9$/edited/'" };
    disk::create_dir(&archive.folder().join("emergency")).unwrap();
    disk::write(&archive.folder().join("config"), b"[publicinboxmda]\n\tspamcheck = none\n")
        .unwrap();
    let dir = path.to_str().unwrap();
    peer.run("public-inbox-init", &["-V2", "x", dir, "http://example.org/x", ADDRESS], b"");
    for number in 0..12 {
        peer.run("public-inbox-mda", &[], &message(number));
    }
    let opened = archive.at(path.clone());
    let mut handle = StorageHandle::scanned(&opened);
    let mut compared = peer.compare(&handle);
    assert_eq!(compared, 12);
    // The same message again, and another one.
    peer.run("public-inbox-mda", &[], &message(3));
    peer.run("public-inbox-mda", &[], &message(12));
    peer.run("public-inbox-learn", &["rm"], &message(5));
    let report = handle.scan();
    assert_eq!((report.expunged.len(), report.stats.messages_read), (1, 1));
    compared += peer.compare(&handle);
    peer.run("public-inbox-purge", &[dir], &message(7));
    let report = handle.scan();
    assert_eq!((report.expunged.len(), report.stats.messages_read), (1, 0));
    compared += peer.compare(&handle);
    peer.run("public-inbox-edit", &["--raw", "-m", "9@example.org", dir], b"");
    let report = handle.scan();
    assert_eq!((report.expunged.len(), report.stats.messages_read), (1, 1));
    // public-inbox gives the edited message its old number; in IMAP it is a new message.
    let mut rows: Vec<u32> = handle.uids().iter().map(|uid| uid.get()).collect();
    assert_eq!(rows.pop(), Some(14));
    compared += peer.compare(&StorageHandle::scanned(&archive.at(copy_of(&archive, &path))));
    println!("compared: {compared} messages");
    assert!(compared >= 45, "{compared}");
}

/// Clones the only epoch as public-inbox-clone does, so that nothing of ours is known of it.
fn copy_of(archive: &GitArchive, path: &Path) -> PathBuf {
    let to = archive.folder().join("copy");
    disk::create_dir_all(&to.join("git")).unwrap();
    let (from, epoch) = (path.join("git/0.git"), to.join("git/0.git"));
    let args = ["clone", "-q", "--mirror", from.to_str().unwrap(), epoch.to_str().unwrap()];
    archive.git(archive.folder(), &args, b"");
    to
}
