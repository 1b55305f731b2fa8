//! imaplib of Python.

use std::io;

use super::context::{ClientContext, check_equal};

/// Python of Debian; others may not be readable for the user of the clients.
pub(super) const PYTHON: &str = "/usr/bin/python3";

/// Takes host, port, user and password.
const PROGRAM: &str = r#"
import imaplib, sys, time
host, port, user, password = sys.argv[1:5]
c = imaplib.IMAP4(host, int(port))
def ok(answer):
    assert answer[0] == 'OK', answer
    return answer[1]
ok(c.login(user, password))
assert b'INBOX' in b' '.join(ok(c.list()))
ok(c.create('"a b"'))
assert ok(c.select('INBOX')) == [b'5']
assert ok(c.search(None, 'SUBJECT', 'first')) == [b'1']
assert ok(c.uid('SEARCH', 'CHARSET', 'UTF-8', 'BODY', '"body of the third"'))[0]
parts = ok(c.fetch('1:5', '(UID FLAGS RFC822.SIZE ENVELOPE BODYSTRUCTURE BODY.PEEK[])'))
bodies = [part[1] for part in parts if isinstance(part, tuple)]
assert len(bodies) == 5 and b'body of the first' in bodies[0], bodies
ok(c.store('2', '+FLAGS', r'(\Flagged Custom)'))
ok(c.copy('2', '"a b"'))
ok(c.append('"a b"', r'(\Seen)', imaplib.Time2Internaldate(time.time()), b'Subject: by imaplib\r\n\r\nx\r\n'))
ok(c.store('5', '+FLAGS', r'(\Deleted)'))
assert ok(c.expunge()) == [b'5']
assert b'MESSAGES 2' in ok(c.status('"a b"', '(MESSAGES UIDNEXT)'))[0]
if 'SORT' in c.capabilities:
    assert ok(c.sort('(REVERSE DATE)', 'UTF-8', 'ALL')) == [b'4 3 2 1']
if 'THREAD=REFERENCES' in c.capabilities:
    assert ok(c.thread('REFERENCES', 'UTF-8', 'ALL')) == [b'(1 4)(2)(3)']
if 'NAMESPACE' in c.capabilities:
    ok(c.namespace())
ok(c.subscribe('"a b"'))
assert b'"a b"' in b' '.join(ok(c.lsub()))
ok(c.rename('"a b"', 'renamed'))
ok(c.noop())
ok(c.close())
assert c.logout()[0] == 'BYE'
"#;

pub(super) fn run(context: &ClientContext<'_>) -> io::Result<()> {
    let login = context.login();
    let program = context.write("client.py", PROGRAM)?;
    let (program, port) = (program.to_string_lossy().into_owned(), context.port().to_string());
    context.run_ok(PYTHON, &[&program, "127.0.0.1", &port, &login.name, &login.password])?;
    check_equal("messages in INBOX", context.messages("INBOX")?.len(), 4)?;
    check_equal("flags", context.find("renamed", "by imaplib")?.flags, vec!["\\seen".to_owned()])?;
    let expected = vec!["\\flagged".to_owned(), "custom".to_owned()];
    check_equal("copied flags", context.find("renamed", "second")?.flags, expected)
}
