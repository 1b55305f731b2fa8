//! The decoder of IMAP.

use barid_imap::limits::DATA_PIECE_LEN;
use barid_imap::memory::MemoryAccount;
use barid_imap::session::{Next, Session, SessionSettings};
use barid_imap::wire::{Decoder, Event};

/// Decodes the bytes of a client. The first byte selects the state of the session, the second the
/// length of the pieces, and the third the events after which a caller drops the command.
pub(crate) fn decoder(bytes: &[u8]) {
    let (head, input) = bytes.split_at(bytes.len().min(3));
    let at = |at: usize| head.get(at).copied().unwrap_or(0);
    let make = || {
        let mut decoder = Decoder::new();
        decoder.set_logged_in(at(0) & 1 == 0);
        decoder.set_utf8(at(0) & 2 != 0);
        decoder
    };
    let whole = events(make(), input, usize::MAX, 0);
    let pieces = events(make(), input, usize::from(at(1)) + 1, 0);
    assert_eq!(whole, pieces, "pieces change the events");
    let data: usize = whole.iter().map(data_len).sum();
    assert!(data <= input.len(), "more bytes of messages than were sent");
    for event in &whole {
        if let Event::Bad { text, .. } | Event::Fatal(text) = event {
            assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{text:?}");
        }
    }
    events(make(), input, usize::from(at(1)) + 1, at(2));
}

fn data_len(event: &Event) -> usize {
    if let Event::Data(bytes) = event { bytes.len() } else { 0 }
}

/// Returns the events of an input in pieces, with the bytes of a literal as one event. After every
/// event whose number is divisible by `abandoned`, if that is not 0, the command is dropped.
fn events(mut decoder: Decoder, input: &[u8], piece_len: usize, abandoned: u8) -> Vec<Event> {
    let mut found: Vec<Event> = Vec::new();
    let mut pieces = input.chunks(piece_len);
    // Each event takes a byte of the input, or is one of a few that follow from the last line.
    let calls_max = 16 * input.len() + 64;
    for call in 1..=calls_max {
        match decoder.next() {
            Event::More => match pieces.next() {
                Some(piece) => decoder.push(piece),
                None => return found,
            },
            Event::Data(bytes) => {
                assert!((1..=DATA_PIECE_LEN).contains(&bytes.len()));
                match found.last_mut() {
                    Some(Event::Data(before)) => before.extend_from_slice(&bytes),
                    _ => found.push(Event::Data(bytes)),
                }
            }
            event => found.push(event),
        }
        if abandoned != 0 && call % usize::from(abandoned) == 0 {
            decoder.abandon();
        }
    }
    panic!("the decoder does not come to an end");
}

/// Output of a session for each byte of its input, beyond a constant: a command of a few bytes may
/// fetch all messages.
const OUTPUT_FACTOR: usize = 2000;

/// Runs the bytes of a client in a session over an account in memory, while another session of the
/// same user deletes and adds messages. The first byte selects the settings, the second the length
/// of the pieces, and the third the events between two changes of the other session.
pub(crate) fn session(bytes: &[u8]) {
    let (head, input) = bytes.split_at(bytes.len().min(3));
    let at = |at: usize| head.get(at).copied().unwrap_or(0);
    let account = MemoryAccount::new(&["a: 1\r\n\r\nx", "b: 2\r\n\r\ny", "c: 3\r\n\r\nz"]);
    let settings = SessionSettings {
        offers_uid_only: at(0) & 1 != 0,
        can_compress: true,
        can_unauthenticate: true,
        ..SessionSettings::default()
    };
    let mut other = Session::new(account.clone(), settings.clone(), Decoder::new());
    let mut client = Session::new(account, settings, Decoder::new());
    other.receive(b"o SELECT INBOX\r\n");
    let (mut out, mut theirs, mut events) = (Vec::new(), Vec::new(), 0_usize);
    for piece in input.chunks(usize::from(at(1)) + 1) {
        client.receive(piece);
        loop {
            let event = client.poll();
            if event == Event::More {
                break;
            }
            events += 1;
            if at(2) != 0 && events % usize::from(at(2)) == 0 {
                other.receive(b"p APPEND INBOX {6+}\r\nd: 4\r\n\r\n");
                other.receive(b"q STORE 1 +FLAGS (\\Deleted)\r\nr EXPUNGE\r\n");
            }
            while let event = other.poll()
                && event != Event::More
            {
                other.handle(event, &mut theirs);
            }
            let next = client.handle(event, &mut out);
            if !matches!(next, Next::Continue | Next::Idle) {
                return check_output(&out, input.len());
            }
        }
        if client.is_idle() {
            client.announce(&mut out);
        }
    }
    check_output(&out, input.len());
}

fn check_output(out: &[u8], input_len: usize) {
    assert!(out.is_empty() || out.ends_with(b"\r\n"), "a response without an end");
    assert!(out.len() <= 100_000 + input_len * OUTPUT_FACTOR, "{} bytes of answers", out.len());
}

/// Sessions of clients.
pub(crate) fn decoder_seeds() -> Vec<Vec<u8>> {
    let sessions = [
        "a1 CAPABILITY\r\na2 ID (\"name\" \"x\" \"os\" NIL)\r\na3 LOGIN {3}\r\nann {2+}\r\npw\r\n",
        "b1 ENABLE QRESYNC UTF8=ACCEPT\r\nb2 AUTHENTICATE PLAIN AGFubgBwdw==\r\nb3 IDLE\r\nDONE\r\n",
        "c1 LIST (SUBSCRIBED RECURSIVEMATCH) \"\" (% \"a*\") RETURN (STATUS (MESSAGES SIZE))\r\n\
         c2 LSUB \"\" *\r\nc3 CREATE &AOQ-/b/ (USE (\\Sent))\r\nc4 STATUS inbox (UIDNEXT)\r\n",
        "d1 SELECT x (QRESYNC (7 8 1:3,5 (1,2 3,4)) CONDSTORE)\r\nd2 EXAMINE \"a \\\" b\"\r\n",
        "e1 APPEND x (\\Seen $a) \"17-Jul-1996 02:44:25 -0700\" {5+}\r\nhello ~{2}\r\n\0\0\r\n\
         e2 APPEND x UTF8 (~{3+}\r\nabc)\r\ne3 UID REPLACE 4 x {1+}\r\na\r\ne4 NOOP\r\n",
        "f1 APPEND {1+}\r\nx CATENATE (URL \"/y;UID=1\" TEXT {3}\r\nabc URL {2+}\r\n/z)\r\n",
        "g1 UID FETCH 1:*,$ (FLAGS BODY.PEEK[HEADER.FIELDS (To {4+}\r\nDate)]<0.9> PREVIEW (LAZY)) \
         (CHANGEDSINCE 5 VANISHED PARTIAL -1:-9)\r\ng2 FETCH 1 ALL\r\n",
        "h1 UID SEARCH RETURN (MIN PARTIAL 1:9) CHARSET UTF-8 OR SEEN (TEXT {3}\r\nabc)\r\n\
         h2 SORT (REVERSE DATE) UTF-8 ALL\r\nh3 THREAD REFS US-ASCII $\r\n",
        "i1 UID STORE 1 (UNCHANGEDSINCE 5) +FLAGS.SILENT (\\Seen x)\r\ni2 UID MOVE 1 y\r\n\
         i3 UID EXPUNGE $\r\ni4 UIDBATCHES 9 1:2\r\ni5 CANCELUPDATE \"h1\"\r\n\
         i6 ESEARCH IN (subtree (a b) selected) RETURN (COUNT) 1:2\r\n",
        "j1 SETMETADATA x (/private/a ~{2+}\r\n\0z /shared/b NIL)\r\nj2 GETMETADATA (DEPTH 1) \"\" \
         (/private/a)\r\nj3 SETQUOTA \"\" (STORAGE 9)\r\nj4 SETACL x ann +lr\r\n",
        "k1 NOTIFY SET STATUS (selected (MessageNew (FLAGS) MessageExpunge)) (subtree \"a\" NONE)\r\n",
        "l1 FOO {5+}\r\n12345{4+}\r\n1234\r\nl2 LOGIN \"x {3}\r\nl3 NOOP\n\nl4 COMPRESS DEFLATE\r\n",
    ];
    let seeds = sessions.iter().enumerate();
    seeds.map(|(at, text)| [&[at as u8 & 2, 7, 5], text.as_bytes()].concat()).collect()
}

/// Sessions of clients that have logged in.
pub(crate) fn session_seeds() -> Vec<Vec<u8>> {
    let sessions = [
        "a SELECT INBOX\r\nb FETCH 1:* (UID FLAGS BODY.PEEK[])\r\nc STORE 2 +FLAGS (\\Seen x)\r\n\
         d SEARCH RETURN (SAVE) SEEN\r\ne COPY $ INBOX\r\nf NOOP\r\n",
        "a ENABLE QRESYNC UIDONLY\r\nb SELECT INBOX (QRESYNC (1 1 1:3))\r\nc UID FETCH 1:* FLAGS\r\n\
         d UID MOVE 1 x\r\ne UIDBATCHES 500\r\n\
         e1 ESEARCH IN (personal) RETURN (ALL) ALL\r\n\
         e2 NOTIFY SET STATUS (selected (MessageNew (FLAGS) MessageExpunge FlagChange)) \
         (subtree x (MessageNew MessageExpunge MailboxName SubscriptionChange))\r\n\
         e3 NOTIFY NONE\r\nf IDLE\r\nDONE\r\ng UID SEARCH ALL\r\n",
        "a CREATE x\r\nb SELECT x\r\nc RENAME x y\r\nd APPEND y {3+}\r\nabc {3}\r\nabc\r\ne NOOP\r\n",
        "a SELECT INBOX\r\nb SEARCH RETURN (UPDATE COUNT) UNSEEN\r\nc STORE 1 FLAGS (\\Seen)\r\n\
         d SORT RETURN (UPDATE PARTIAL 1:2) (DATE) UTF-8 ALL\r\ne EXPUNGE\r\nf CANCELUPDATE \"b\"\r\n",
        "a SELECT INBOX\r\nb UID REPLACE 2 INBOX {1+}\r\na\r\nc UID EXPUNGE 1:*\r\nd CLOSE\r\n\
         e LIST \"\" * RETURN (STATUS (MESSAGES UIDNEXT))\r\nf COMPRESS DEFLATE\r\n",
    ];
    let seeds = sessions.iter().enumerate();
    seeds.map(|(at, text)| [&[at as u8, 200, 2], text.as_bytes()].concat()).collect()
}

/// Words that mutations insert.
pub(crate) const IMAP_WORDS: &[&str] = &[
    "\r\n",
    "\n",
    "\0",
    " ",
    "(",
    ")",
    "\"",
    "\\",
    "{3}\r\n",
    "{3+}\r\n",
    "~{3+}\r\n",
    "{0}\r\n",
    "{999999999999}\r\n",
    "{99999999999999999999+}\r\n",
    "a UID ",
    "APPEND x ",
    "CATENATE (",
    "URL /x ",
    "UTF8 (",
    "RETURN (",
    "BODY[",
    "]",
    "<0.1>",
    "1:*",
    "$",
    "&AOQ-",
    "NIL",
];
