//! Memory of a scan of an mbox by many threads, whatever its messages are.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use barid::{Mailbox, OpenOptions};
use barid_testkit::child::{Child, ChildEvent, print_line};
use barid_testkit::{Scratch, disk};

/// Peak of the resident memory of the child in bytes, including the program itself.
const PEAK_MAX: u64 = 64_000_000;

/// Opens an mbox with its cache, as a new program does.
pub(crate) fn open(args: &[&str]) {
    let root = Path::new(args[0]);
    let cache = root.join("cache");
    let mut options = OpenOptions::new(Some(cache), root.join("state"));
    options.threads = args[1].parse().unwrap();
    let mailbox = Mailbox::open(&format!("mbox:{}", root.join("box").display()), &options).unwrap();
    let status = disk::read(Path::new("/proc/self/status")).unwrap();
    let status = String::from_utf8(status).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak_kb: u64 = peak.trim().strip_suffix(" kB").unwrap().parse().unwrap();
    print_line(&format!("{} {}", mailbox.len(), peak_kb << 10));
}

/// Opens an mbox of copies of one text, of `len` bytes in all.
fn check(name: &str, text: &str, len: usize) {
    let scratch = Scratch::new("scan-memory").unwrap();
    let count = len / text.len();
    let mut file = std::io::BufWriter::new(disk::create(&scratch.path().join("box")).unwrap());
    (0..count).for_each(|_| file.write_all(text.as_bytes()).unwrap());
    file.flush().unwrap();
    let root = scratch.path().to_str().unwrap();
    for threads in ["8", "16"] {
        let mut child = Child::spawn("open an mbox", &[root, threads]);
        let said = match child.next(Duration::from_secs(300)) {
            ChildEvent::Line(line) => line,
            other => panic!("{name}: {other:?}"),
        };
        let (found, peak) = said.split_once(' ').unwrap();
        assert_eq!(found, count.to_string(), "{name}");
        let peak: u64 = peak.parse().unwrap();
        assert!(peak <= PEAK_MAX, "{name}, {threads} threads: {peak} bytes");
        disk::remove_tree(&scratch.path().join("cache")).unwrap();
    }
}

#[test]
fn threads_share_a_bound() {
    let from = "From a@b Sat Jan  3 01:05:34 1996\n";
    let field = |name: &str| format!("{name}: {}\n", "x".repeat(80 << 10));
    let names = ["From", "To", "Cc", "Bcc", "Subject", "Message-ID", "In-Reply-To", "Reply-To"];
    let fields = names.map(field).concat();
    let ids = format!("References: {}\n", "<a@b>\n ".repeat(20_000));
    check("long fields", &format!("{from}{fields}\n"), 128 << 20);
    check("endless headers", &format!("{from}{}\n", fields.repeat(16)), 128 << 20);
    check("references", &format!("{from}{ids}\nx\n\n"), 64 << 20);
    // Their rows are larger than the messages, so that waiting chunks cost most here.
    check("small messages", &format!("{from}\n\n"), 28 << 20);
}
