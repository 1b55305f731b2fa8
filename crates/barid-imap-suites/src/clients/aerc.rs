//! aerc, on a terminal.

use std::io;

use barid_testkit::peers::PeerUser;
use rustix::fs::{Mode, chmod};

use super::context::{ClientContext, check, check_equal};

pub(super) fn run(context: &ClientContext<'_>) -> io::Result<()> {
    let login = context.login();
    let account = format!(
        "[test]\nsource = imap+insecure://{}:{}@127.0.0.1:{}\ndefault = INBOX\nfrom = a@example.org\n\
         archive = Archive\ncache-headers = false\n",
        login.name,
        login.password,
        context.port()
    );
    let path = context.write(".config/aerc/accounts.conf", &account)?;
    chmod(&path, Mode::RUSR | Mode::WUSR)?;
    PeerUser::get()?.take(&path)?;
    let piped = context.home().join("piped");
    // The last message is at the top. aerc 0.14 can block for ever if it gets a command while
    // another one is being answered, so that each is sent after the result of the one before.
    let pipe = format!(":pipe -m -b tee {}\r", piped.display());
    let keys = [
        ("first", ":select -1\r"),
        ("", ":flag -t\r"),
        ("successful", ":copy Archive\r"),
        ("copied", pipe.as_str()),
        ("", ":select 0\r"),
        ("", ":archive flat\r"),
        ("archived", ":select 0\r"),
        ("", ":delete-message\r"),
        ("deleted", ":quit\r"),
    ];
    let ended = context.on_terminal("aerc", &keys)?;
    check(ended.status.success(), || format!("aerc: {}", ended.status))?;
    let first = context.find("INBOX", "first")?;
    check(first.flags.contains(&"\\flagged".to_owned()), || format!("{first:?}"))?;
    check_equal("messages in INBOX", context.messages("INBOX")?.len(), 3)?;
    context.find("Archive", "first")?;
    context.find("Archive", "fifth").map(drop)
}
