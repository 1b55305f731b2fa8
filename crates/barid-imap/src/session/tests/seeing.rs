//! Announcements of the changes that others make.

use super::{Client, MESSAGES};
use crate::memory::MemoryAccount;
use crate::session::Next;

fn two() -> (MemoryAccount, Client, Client) {
    let account = MemoryAccount::new(&MESSAGES);
    let (mut one, mut other) = (Client::new(&account), Client::new(&account));
    one.select();
    other.select();
    (account, one, other)
}

#[test]
fn expunges_wait_for_a_command_that_may_show_them() {
    let (_, mut one, mut other) = two();
    other.check("STORE 2 +FLAGS.SILENT (\\Deleted)", "x OK");
    other.check("EXPUNGE", "* 2 EXPUNGE / x OK");
    // Numbers stay, and the message that is gone is known as far as it was.
    one.check("FETCH 3 UID", "* 3 FETCH (UID 3) / x OK");
    one.check("FETCH 2 UID", "* 2 FETCH (UID 2) / x OK");
    one.check("SEARCH ALL", "* SEARCH 1 3 4 / x OK");
    one.check("SEARCH 3:4", "* SEARCH 3 4 / x OK");
    one.check("STORE 3 +FLAGS (\\Seen)", "* 3 FETCH (FLAGS (\\Seen \\Recent)) / x OK");
    one.check("NOOP", "* 2 EXPUNGE / x OK");
    one.check("FETCH 2 UID", "* 2 FETCH (UID 3) / x OK");
}

#[test]
fn new_messages_come_after_the_expunges_before_them() {
    let (_, mut one, mut other) = two();
    other.check("STORE 1 +FLAGS.SILENT (\\Deleted)", "x OK");
    other.check("EXPUNGE", "* 1 EXPUNGE / x OK");
    let answer = other.send(b"x APPEND INBOX {6+}\r\ne: 5\r\n\r\n");
    assert!(answer.contains("[APPENDUID 1 5]"), "{answer}");
    // The search is over what the session knew before; the changes are found at its end.
    one.check("SEARCH ALL", "* SEARCH 1 2 3 4 / x OK");
    one.check("SEARCH ALL", "* SEARCH 2 3 4 / x OK");
    one.check("UID SEARCH ALL", "* SEARCH 2 3 4 / * 1 EXPUNGE / * 4 EXISTS / * 3 RECENT / x OK");
    one.check("UID SEARCH ALL", "* SEARCH 2 3 4 5 / x OK");
}

#[test]
fn a_message_is_recent_in_one_session() {
    let account = MemoryAccount::new(&MESSAGES);
    let (mut one, mut other) = (Client::new(&account), Client::new(&account));
    assert!(one.send(b"x SELECT INBOX\r\n").contains("* 4 RECENT"));
    assert!(other.send(b"x SELECT INBOX\r\n").contains("* 0 RECENT"));
    one.check("FETCH 1 FLAGS", "* 1 FETCH (FLAGS (\\Recent)) / x OK");
    other.check("FETCH 1 FLAGS", "* 1 FETCH (FLAGS ()) / x OK");
    other.check("EXAMINE INBOX", &{
        let flags = "\\Answered \\Flagged \\Deleted \\Seen \\Draft";
        format!(
            "* FLAGS ({flags}) / * OK [PERMANENTFLAGS ()] / * 4 EXISTS / * 0 RECENT / \
             * OK [UNSEEN 1] / * OK [UIDVALIDITY 1] / * OK [UIDNEXT 5] / * OK [MAILBOXID (F1)] / \
             * OK [HIGHESTMODSEQ 5] / x OK [READ-ONLY]"
        )
    });
}

#[test]
fn a_mailbox_that_is_removed_ends_the_session() {
    let account = MemoryAccount::new(&[]);
    let (mut one, mut other) = (Client::new(&account), Client::new(&account));
    one.check("CREATE box", "x OK [MAILBOXID (F2)]");
    one.send(b"x SELECT box\r\n");
    other.check("RENAME box other", "x OK");
    one.check("NOOP", "* BYE [UNAVAILABLE]");
    assert_eq!(one.last, Next::Close);
    // Another mailbox of the name is another mailbox.
    let mut one = Client::new(&account);
    one.send(b"x SELECT other\r\n");
    other.check("DELETE other", "x OK");
    other.check("CREATE other", "x OK [MAILBOXID (F3)]");
    one.check("FETCH 1 FLAGS", "* BYE [UNAVAILABLE]");
    assert_eq!(one.last, Next::Close);
}

#[test]
fn commands_that_are_pipelined_are_answered_in_order() {
    let account = MemoryAccount::new(&MESSAGES);
    let mut client = Client::new(&account);
    let all = b"a SELECT INBOX\r\nb STORE 1 +FLAGS.SILENT (\\Deleted)\r\nc EXPUNGE\r\n\
                d UID SEARCH ALL\r\n\
                e APPEND INBOX {4}\r\n";
    let answer = client.send(all);
    let tags: Vec<&str> = answer
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(tag, _)| tag)
        .filter(|tag| *tag != "*")
        .collect();
    assert_eq!(tags, ["a", "b", "c", "d", "+"]);
    assert!(client.send(b"x\r\n\r\n\r\nf NOOP\r\n").contains("e OK [APPENDUID 1 5]"));
}

#[test]
fn a_client_that_comes_back_learns_what_has_changed() {
    let account = MemoryAccount::new(&MESSAGES);
    let (mut one, mut other) = (Client::new(&account), Client::new(&account));
    one.check("ENABLE QRESYNC", "* ENABLED QRESYNC / x OK");
    other.select();
    other.check("STORE 2 +FLAGS.SILENT (\\Deleted)", "x OK");
    other.check("EXPUNGE", "* 2 EXPUNGE / x OK");
    other.check("STORE 3 +FLAGS.SILENT (\\Flagged)", "x OK");
    let answer = one.send(b"x SELECT INBOX (QRESYNC (1 5 1:4))\r\n");
    assert!(answer.contains("* VANISHED (EARLIER) 2\r\n"), "{answer}");
    assert!(answer.contains("* 3 FETCH (UID 4 MODSEQ ("), "{answer}");
    let answer = one.send(b"x SELECT INBOX (QRESYNC (9 5 1:4))\r\n");
    assert!(!answer.contains("VANISHED") && !answer.contains("FETCH"), "{answer}");
}

#[test]
fn idle_announces_and_ends() {
    let (_, mut one, mut other) = two();
    assert_eq!(one.send(b"i IDLE\r\n"), "+ idling\r\n");
    assert_eq!(one.last, Next::Idle);
    other.check("STORE 4 +FLAGS.SILENT (\\Deleted)", "x OK");
    let answer = one.send(b"DONE\r\nj NOOP\r\n");
    assert!(answer.starts_with("* 4 FETCH (FLAGS (\\Deleted \\Recent))\r\ni OK "), "{answer}");
}

#[test]
fn saved_results_are_what_is_returned() {
    let account = MemoryAccount::new(&MESSAGES);
    let mut client = Client::new(&account);
    client.select();
    let esearch = |values: &str| format!("* ESEARCH (TAG \"x\"){values} / x OK");
    client.check("SEARCH RETURN (SAVE PARTIAL 2:3) ALL", &esearch(" PARTIAL (2:3 2:3)"));
    client.check("SEARCH $", "* SEARCH 2 3 / x OK");
    client.check("SEARCH RETURN (SAVE MAX PARTIAL 1:1) ALL", &esearch(" MAX 4 PARTIAL (1:1 1)"));
    client.check("SEARCH $", "* SEARCH 1 4 / x OK");
    client
        .check("SEARCH RETURN (SAVE COUNT PARTIAL 1:1) ALL", &esearch(" COUNT 4 PARTIAL (1:1 1)"));
    client.check("SEARCH $", "* SEARCH 1 2 3 4 / x OK");
    // The order of the account is the newest first.
    client.check("SORT RETURN (SAVE PARTIAL 1:1) (DATE) UTF-8 ALL", &esearch(" PARTIAL (1:1 4)"));
    client.check("SEARCH $", "* SEARCH 4 / x OK");
    client.check("SORT RETURN (SAVE) (DATE) X-NONE TEXT a", "x NO [BADCHARSET]");
    client.check("SEARCH $", "* SEARCH / x OK");
}

#[test]
fn the_output_learns_of_commands_before_they_write() {
    use crate::backend::Output;
    use crate::session::{Session, SessionSettings};
    use crate::wire::{Decoder, Event};

    #[derive(Default)]
    struct Noted(String);

    impl Output for Noted {
        fn write(&mut self, bytes: &[u8]) -> bool {
            self.0.push_str(&String::from_utf8_lossy(bytes));
            true
        }

        fn begin_command(&mut self, tag: &str) {
            self.0.push_str(&format!("<{tag}>"));
        }
    }

    let check = |disabled: &[&str], expected: &str| {
        let disabled = disabled.iter().map(|name| (*name).to_owned()).collect();
        let settings = SessionSettings { disabled, ..SessionSettings::default() };
        let account = MemoryAccount::new(&MESSAGES);
        let mut session = Session::new(account, settings, Decoder::new());
        let mut out = Noted::default();
        session.receive(b"a NOOP\r\nb BAD\r\nc STATUS INBOX (MESSAGES)\r\n");
        loop {
            match session.poll() {
                Event::More => break,
                event => session.handle(event, &mut out),
            };
        }
        assert_eq!(out.0, expected);
    };
    let rest = "b BAD Unknown command BAD.\r\n";
    let status = "* STATUS INBOX (MESSAGES 4)\r\nc OK Status completed\r\n";
    check(&[], &format!("<a>a OK NOOP completed\r\n{rest}<c>{status}"));
    check(&["INPROGRESS"], &format!("a OK NOOP completed\r\n{rest}{status}"));
}

#[test]
fn a_flag_that_was_changed_back_has_another_modseq() {
    let (account, mut one, mut other) = two();
    let mut plain = Client::new(&account);
    plain.select();
    one.check("ENABLE CONDSTORE", "* ENABLED CONDSTORE / * OK [HIGHESTMODSEQ 5] / x OK");
    other.check("STORE 2 +FLAGS.SILENT (\\Seen)", "x OK");
    other.check("STORE 2 -FLAGS.SILENT (\\Seen)", "x OK");
    one.check("NOOP", "* 2 FETCH (MODSEQ (7) FLAGS (\\Recent)) / x OK");
    plain.check("NOOP", "x OK");
    one.check("NOOP", "x OK");
}

#[test]
fn identifiers_are_the_same_everywhere() {
    let mut client = Client::new(&MemoryAccount::new(&MESSAGES));
    client.check("CREATE box", "x OK [MAILBOXID (F2)]");
    client.check("STATUS box (MAILBOXID)", "* STATUS box (MAILBOXID (F2)) / x OK");
    client.check("RENAME box other", "x OK");
    assert!(client.send(b"x SELECT other\r\n").contains("* OK [MAILBOXID (F2)] "));
    client.select();
    client.check("FETCH 2 (EMAILID THREADID)", "* 2 FETCH (EMAILID (M2) THREADID NIL) / x OK");
    client.check("SEARCH EMAILID M2", "* SEARCH 2 / x OK");
    client.check("SEARCH THREADID M2", "* SEARCH / x OK");
    client.check("SEARCH NOT (THREADID M2)", "* SEARCH 1 2 3 4 / x OK");
    client.check("SEARCH EMAILID \"M 2\"", "x BAD");
    client.check("SEARCH EMAILID \"\"", "x BAD");
}
