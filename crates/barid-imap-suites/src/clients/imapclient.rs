//! IMAPClient of Python, which Debian does not have: downloaded with pip.

use std::io;

use super::context::{ClientContext, check_equal};
use super::imaplib::PYTHON;

/// Takes host, port, user and password.
const PROGRAM: &str = r#"
import sys
sys.path.insert(0, sys.argv[5])
import imapclient
c = imapclient.IMAPClient(sys.argv[1], port=int(sys.argv[2]), ssl=False)
c.login(sys.argv[3], sys.argv[4])
assert c.select_folder('INBOX')[b'EXISTS'] == 5
uids = c.search(['ALL'])
assert len(uids) == 5
items = ['ENVELOPE', 'BODYSTRUCTURE', 'FLAGS', 'RFC822.SIZE', 'INTERNALDATE', 'BODY.PEEK[]']
data = c.fetch(uids, items)
assert len(data) == 5
assert data[uids[0]][b'ENVELOPE'].subject == b'first'
assert len(data[uids[0]][b'BODY[]']) == data[uids[0]][b'RFC822.SIZE']
assert data[uids[1]][b'BODYSTRUCTURE'].is_multipart
c.add_flags(uids[1], [imapclient.FLAGGED, 'Custom'])
c.copy([uids[1]], 'Archive')
if c.has_capability('MOVE'):
    c.move([uids[4]], 'Archive')
if c.has_capability('SORT'):
    assert c.sort('REVERSE DATE')[-1] == uids[0]
if c.has_capability('THREAD=REFERENCES'):
    c.thread()
other = imapclient.IMAPClient(sys.argv[1], port=int(sys.argv[2]), ssl=False)
other.login(sys.argv[3], sys.argv[4])
c.idle()
other.append('INBOX', b'Subject: pushed\r\n\r\nx\r\n')
seen = []
for _ in range(30):
    seen += c.idle_check(1)
    if any(response[1] == b'EXISTS' for response in seen if len(response) == 2):
        break
else:
    raise SystemExit('no EXISTS: %r' % seen)
c.idle_done()
names = [name for _, _, name in c.list_folders()]
assert 'INBOX' in names and 'Archive' in names
c.create_folder('Gr\u00fc\u00dfe')
assert c.folder_exists('Gr\u00fc\u00dfe')
c.delete_folder('Gr\u00fc\u00dfe')
c.logout()
other.logout()
"#;

pub(super) fn run(context: &ClientContext<'_>) -> io::Result<()> {
    let login = context.login();
    let libraries = context.home().join("libraries").to_string_lossy().into_owned();
    let install = ["-m", "pip", "install", "-q", "--target", &libraries, "imapclient"];
    context.run_ok(PYTHON, &install)?;
    let program = context.write("client.py", PROGRAM)?;
    let (program, port) = (program.to_string_lossy().into_owned(), context.port().to_string());
    let args = [&program, "127.0.0.1", &port, &login.name, &login.password, &libraries];
    context.run_ok(PYTHON, &args)?;
    check_equal("messages in Archive", context.messages("Archive")?.len(), 2)?;
    context.find("INBOX", "pushed").map(drop)
}
