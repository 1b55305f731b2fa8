//! Sessions of `barid serve` that copy between two mailboxes in both directions at the same time.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use barid_imap_suites::{MailFormat, Transport, open};

use crate::serve_qresync::serve;

/// Copies in each direction.
const COPIES: usize = 12;
/// Messages of a copy.
const MESSAGES: usize = 8;
/// The longest time that one copy may take. Two that wait for each other take 30 s.
const LONGEST: Duration = Duration::from_secs(15);

fn copy_both_ways(format: MailFormat) {
    let server = serve(format);
    let mut first = open(&server, 1, Transport::Tcp).unwrap();
    for mailbox in ["one", "two"] {
        first.ok(&format!("CREATE {mailbox}")).unwrap();
        for number in 0..MESSAGES {
            let message = format!("Subject: {number}\r\n\r\n{}", "A line\r\n".repeat(60_000));
            assert!(first.append(mailbox, "", message.as_bytes()).unwrap().is_ok());
        }
    }
    let begin = Barrier::new(2);
    let copy = |from: &str, to: &str| {
        let mut connection = open(&server, 1, Transport::Tcp).unwrap();
        connection.ok(&format!("SELECT {from}")).unwrap();
        begin.wait();
        let mut longest = Duration::ZERO;
        for _ in 0..COPIES {
            let start = Instant::now();
            connection.ok(&format!("UID COPY 1:{MESSAGES} {to}")).unwrap();
            longest = longest.max(start.elapsed());
        }
        longest
    };
    let (there, back) = std::thread::scope(|scope| {
        let back = scope.spawn(|| copy("two", "one"));
        (copy("one", "two"), back.join().unwrap())
    });
    assert!(there < LONGEST && back < LONGEST, "{}: {there:?}, {back:?}", format.name());
    for mailbox in ["one", "two"] {
        let status = first.ok(&format!("STATUS {mailbox} (MESSAGES)")).unwrap();
        let messages = (COPIES + 1) * MESSAGES;
        let line = status.find("STATUS").unwrap();
        assert!(line.contains(&format!("MESSAGES {messages})")), "{line}");
    }
}

#[test]
fn copies_both_ways_between_mboxes_do_not_wait_for_each_other() {
    copy_both_ways(MailFormat::Mbox);
}

#[test]
fn copies_both_ways_between_mbxes_do_not_wait_for_each_other() {
    copy_both_ways(MailFormat::Mbx);
}

#[test]
fn copies_both_ways_between_mixes_do_not_wait_for_each_other() {
    copy_both_ways(MailFormat::Mix);
}
