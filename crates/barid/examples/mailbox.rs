//! Opens a mailbox, lists its newest messages, marks those of a search as seen, and lists new ones
//! as they arrive: `cargo run -p barid --example mailbox -- MAILBOX`.
#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use std::sync::Arc;

use barid::query::parse_imap;
use barid::vfs::OsVfs;
use barid::{
    ChangeOptions, ChangeRequest, Flag, FlagChange, FlagSet, Mailbox, MailboxChange, OpenOptions,
    SortProgram, UidSet, View, WatchOptions, Watcher, Window,
};

fn print(view: &View, rows: &[u32]) -> barid::Result<()> {
    view.summaries(rows, &mut |message| {
        let subject = message.fields.subject.unwrap_or_default();
        println!("{} {}", message.uid, barid::message::decode_words(subject));
        true
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("name a mailbox")?;
    let folder = std::env::temp_dir().join("barid-example");
    let options = OpenOptions::new(Some(folder.join("cache")), folder.join("state"));
    let mut mailbox = Mailbox::open(&path, &options)?;
    let view = mailbox.view();
    print(&view, &view.sorted(&SortProgram::parse(["date"])?, Window::Last(20))?.rows)?;
    let unseen = view.search(&parse_imap(b"UNSEEN FROM bob")?.program, &UidSet::new())?.rows;
    let seen = FlagChange { add: FlagSet::EMPTY.with(Flag::Seen), ..FlagChange::default() };
    let mut request = ChangeRequest::default();
    request.flags.push_all(view.uids_of(&unseen)?, &seen);
    mailbox.change(&request, &ChangeOptions::default())?;
    let mut watcher = Watcher::new(Arc::new(OsVfs), WatchOptions::default());
    watcher.add(mailbox);
    loop {
        for (number, changes) in watcher.next(None) {
            let view = watcher.mailbox(number).view();
            for change in changes? {
                let MailboxChange::New(uid) = change else { continue };
                print(&view, view.row_of(uid)?.as_slice())?;
            }
        }
    }
}
