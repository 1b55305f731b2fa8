//! Roundcube, served by PHP's own server, in a Chromium without a screen: clicks and keys.

use std::io;

use super::context::{ClientContext, check_equal};
use super::imaplib::PYTHON;

/// The program of Roundcube.
pub(super) const INDEX: &str = "/usr/share/roundcube/index.php";
/// The tables of its database.
pub(super) const TABLES: &str = "/usr/share/roundcube/SQL/sqlite.initial.sql";
/// The driver of the browser for Python.
pub(super) const SELENIUM: &str = "/usr/lib/python3/dist-packages/selenium/__init__.py";

/// Takes port, user, password and a folder for all files.
const PROGRAM: &str = include_str!("roundcube.py");

pub(super) fn run(context: &ClientContext<'_>) -> io::Result<()> {
    let login = context.login();
    let program = context.write("client.py", PROGRAM)?.to_string_lossy().into_owned();
    let (port, home) = (context.port().to_string(), context.home().to_string_lossy().into_owned());
    context.run_ok(PYTHON, &[&program, &port, &login.name, &login.password, &home])?;
    let subjects = |mailbox: &str| -> io::Result<Vec<String>> {
        Ok(context.messages(mailbox)?.into_iter().map(|message| message.subject).collect())
    };
    let expected = ["first", "second", "=?utf-8?q?dr=C3=A4tte?=", "Re: first"];
    check_equal("INBOX", subjects("INBOX")?, expected.map(str::to_owned).to_vec())?;
    check_equal("flag", context.find("INBOX", "first")?.flags, vec!["\\flagged".to_owned()])?;
    check_equal("read", context.find("INBOX", "second")?.flags, vec!["\\seen".to_owned()])?;
    check_equal("Archive", subjects("Archive")?, vec!["fifth".to_owned()])?;
    check_equal("Trash", subjects("Trash")?, vec!["fourth".to_owned()])?;
    check_equal("drafts", subjects("Drafts")?.len(), 1)
}
