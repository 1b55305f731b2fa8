//! Opens a mailbox and prints what that cost in calls of the file system and bytes.
//!
//! `cargo run --release -p barid --example cost -- CACHE_DIR STATE_DIR MAILBOX`
#![expect(clippy::print_stdout, reason = "it is a program")]

use std::path::Path;
use std::sync::Arc;

use barid::vfs::{CountingVfs, OsVfs};
use barid::{Mailbox, MailboxSpec, OpenOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, cache_dir, state_dir, mailbox] = &args[..] else {
        return Err("usage: cost CACHE_DIR STATE_DIR MAILBOX".into());
    };
    let options = OpenOptions::new(Some(cache_dir.into()), state_dir.into());
    let spec = MailboxSpec::parse(mailbox);
    let vfs = CountingVfs::new(OsVfs);
    let opened = Mailbox::open_in(Arc::new(vfs.clone()), &spec, &options)?;
    let status = opened.status();
    drop(opened);
    let (counts, of) = (vfs.counts(), |path: &Path| vfs.counts().bytes_under(path));
    println!("{} messages, {:?}", status.messages, status.cache);
    println!("{} calls, {:?}", counts.calls(), counts);
    println!("mailbox {:?}", of(&spec.path));
    println!("cache {:?}", of(Path::new(cache_dir)));
    println!("state {:?}", of(Path::new(state_dir)));
    Ok(())
}
