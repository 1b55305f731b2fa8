//! Costs of many sessions of one process: memory and bytes read.
//!
//! `sessions views [MESSAGES [VIEWS]]`: one mailbox with as many handles as views, each view taken
//! after another change. `sessions watched [MAILBOXES [MESSAGES]]`: many mailboxes, open and
//! watched. `sessions delivery [MESSAGES]`: one delivery to an open mailbox.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a program for measuring")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use barid::vfs::{CountingVfs, OsVfs};
use barid::{
    Cancel, ChangeOptions, ChangeRequest, Flag, FlagChange, Mailboxes, NewMessage, OpenOptions,
    SharedMailbox, Uid, WatchOptions,
};
use barid_testkit::{Scratch, disk};

/// Resident memory in bytes: now, and at its peak.
fn memory() -> (u64, u64) {
    let status = disk::read_text(Path::new("/proc/self/status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
    };
    (field("VmRSS:"), field("VmHWM:"))
}

fn text(number: usize) -> String {
    format!(
        "From: Sender {} <sender{}@example.org>\nTo: list@example.org\nSubject: About matter \
         {number}\nMessage-ID: <{number}@example.org>\nDate: Sat, 3 Jan 1998 01:05:34 +0000\n\nText\n",
        number % 500,
        number % 500
    )
}

fn write_mbox(path: &Path, messages: usize) {
    let from = "From a@b Sat Jan  3 01:05:34 1998\n";
    let all: String = (0..messages).map(|number| format!("{from}{}\n", text(number))).collect();
    disk::write(path, all.as_bytes()).unwrap();
}

fn options(root: &Path) -> OpenOptions {
    OpenOptions::new(Some(root.join("cache")), root.join("state"))
}

fn open(mailboxes: &Mailboxes, path: &Path) -> SharedMailbox {
    mailboxes.open(&format!("mboxrd:{}", path.display())).unwrap()
}

fn deliver(path: &Path, number: usize) {
    let text = text(number);
    disk::append(path, format!("From a@b Sat Jan  3 01:05:34 1998\n{text}\n").as_bytes()).unwrap();
}

/// Makes another change: flags of a message, or a new one.
fn change(shared: &SharedMailbox, number: usize, messages: usize) {
    let uid = Uid::new((number * 97 % messages) as u32 + 1).unwrap();
    let flags = FlagChange { add: [Flag::Flagged].into_iter().collect(), ..FlagChange::default() };
    let bytes = text(messages + number).into_bytes();
    let appends = [NewMessage { bytes: &bytes, ..NewMessage::default() }];
    let request = match number % 2 {
        0 => ChangeRequest {
            flags: [(uid, flags)].into_iter().collect(),
            ..ChangeRequest::default()
        },
        _ => ChangeRequest { appends: &appends, ..ChangeRequest::default() },
    };
    let options = ChangeOptions::default();
    shared.update(&Cancel::new(), |mailbox, _| mailbox.change(&request, &options)).unwrap();
}

fn views(messages: usize, views: usize) {
    let scratch = Scratch::new("sessions").unwrap();
    let path = scratch.path().join("box");
    write_mbox(&path, messages);
    let mailboxes = Mailboxes::new(Arc::new(OsVfs), options(scratch.path()), None);
    drop(open(&mailboxes, &path));
    let start = memory().0;
    let first = open(&mailboxes, &path);
    let program = barid::SortProgram::parse(["date"]).unwrap();
    first.view().sorted(&program, barid::Window::Last(50)).unwrap();
    let one = memory().0 - start;
    println!("{messages} messages, one handle and one view: {} KB", one >> 10);
    let mut held = vec![(first.clone(), first.view())];
    let began = Instant::now();
    for number in 0..views {
        change(&first, number, messages);
        held.push((open(&mailboxes, &path), first.view()));
    }
    let all = memory().0 - start;
    let took = began.elapsed();
    println!("{views} handles and views, each after another change: {} KB", all >> 10);
    println!("{:.1} times the memory of one, in {took:.1?}", all as f64 / one as f64);
    let lens: Vec<u32> = held.iter().map(|(_, view)| view.len()).collect();
    assert!(lens.windows(2).all(|pair| pair[0] <= pair[1]), "{lens:?}");
}

fn watched(count: usize, messages: usize) {
    let scratch = Scratch::new("sessions").unwrap();
    let paths: Vec<PathBuf> =
        (0..count).map(|number| scratch.path().join(number.to_string())).collect();
    paths.iter().for_each(|path| write_mbox(path, messages));
    let start = memory().0;
    let watch = Some(WatchOptions::default());
    let mailboxes = Mailboxes::new(Arc::new(OsVfs), options(scratch.path()), watch);
    let began = Instant::now();
    let open_all = || -> Vec<_> { paths.iter().map(|path| open(&mailboxes, path)).collect() };
    let mut handles = open_all();
    println!("{count} mailboxes of {messages}, opened first in {:.1?}", began.elapsed());
    for is_again in [false, true] {
        if is_again {
            drop(handles);
            handles = open_all();
        }
        let before: Vec<_> = handles.iter().map(SharedMailbox::view).collect();
        let began = Instant::now();
        for (number, path) in paths.iter().enumerate() {
            deliver(path, messages + number);
        }
        for (handle, before) in handles.iter().zip(&before) {
            let newer = handle.wait_for_newer(before, Duration::from_secs(60)).unwrap();
            assert_eq!(newer.len(), before.len() + 1);
        }
        let took = began.elapsed();
        for view in &before {
            let rows: Vec<u32> = (view.len() - 50..view.len()).collect();
            view.summaries(&rows, &mut |_| true).unwrap();
        }
        let (now, peak) = memory();
        let open = if is_again { "opened again" } else { "opened first" };
        println!("{open}, a delivery to each is seen by all in {took:.1?}");
        println!("memory: {} MB, at most {} MB", (now - start) >> 20, peak >> 20);
    }
}

fn delivery(messages: usize) {
    let scratch = Scratch::new("sessions").unwrap();
    let path = scratch.path().join("box");
    write_mbox(&path, messages);
    let vfs = CountingVfs::new(OsVfs);
    let mailboxes = Mailboxes::new(Arc::new(vfs.clone()), options(scratch.path()), None);
    drop(open(&mailboxes, &path));
    let shared = open(&mailboxes, &path);
    // The first look after opening reads what it keeps.
    deliver(&path, messages);
    shared.refresh(&Cancel::new()).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    for number in 1..4 {
        deliver(&path, messages + number);
        let (before, read) = (memory(), vfs.counts().bytes().read);
        let view = shared.refresh(&Cancel::new()).unwrap();
        let after = memory();
        assert_eq!(view.len() as usize, messages + number + 1);
        println!(
            "{messages} messages: a delivery reads {} bytes, and takes {} KB (peak {} KB more)",
            vfs.counts().bytes().read - read,
            (after.0.saturating_sub(before.0)) >> 10,
            (after.1 - before.1) >> 10,
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, default: usize| args.get(at).map_or(default, |text| text.parse().unwrap());
    match args.first().map(String::as_str) {
        Some("views") => views(number(1, 100_000), number(2, 1000)),
        Some("watched") => watched(number(1, 200), number(2, 100_000)),
        Some("delivery") => delivery(number(1, 1_000_000)),
        _ => println!("sessions views|watched|delivery"),
    }
}
