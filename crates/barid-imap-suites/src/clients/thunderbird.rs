//! Thunderbird without a screen, driven through its Marionette: as far as possible by what a click
//! calls.

use std::io;

use super::context::{ClientContext, check, check_equal};
use super::imaplib::PYTHON;

/// Takes port, port with TLS or 0, certificate, user, password and a folder for all files.
const PROGRAM: &str = include_str!("thunderbird.py");

pub(super) fn run(context: &ClientContext<'_>) -> io::Result<()> {
    let login = context.login();
    let program = context.write("client.py", PROGRAM)?.to_string_lossy().into_owned();
    let port = context.port().to_string();
    let (tls_port, certificate) = match context.tls() {
        Some(tls) => {
            let certificate = tls.certificate.unwrap_or_default().to_string_lossy().into_owned();
            (tls.address.port().to_string(), certificate)
        }
        None => ("0".to_owned(), String::new()),
    };
    let home = context.home().to_string_lossy().into_owned();
    let args = [&program, &port, &tls_port, &certificate, &login.name, &login.password, &home];
    context.run_ok(PYTHON, &args.map(String::as_str))?;
    let subjects: Vec<String> =
        context.messages("INBOX")?.into_iter().map(|message| message.subject).collect();
    let expected = ["first", "second", "=?utf-8?q?dr=C3=A4tte?=", "pushed"];
    check_equal("INBOX", subjects, expected.map(str::to_owned).to_vec())?;
    let expected = vec!["$label1".to_owned(), "\\answered".to_owned()];
    check_equal("flags", context.find("INBOX", "first")?.flags, expected)?;
    check_equal("read", context.find("INBOX", "second")?.flags, vec!["\\seen".to_owned()])?;
    context.find("Archive", "fifth")?;
    context.find("Trash", "fourth")?;
    let drafts = context.messages("Drafts")?;
    check(drafts.len() == 1 && drafts[0].flags.contains(&"\\draft".to_owned()), || {
        format!("drafts: {drafts:?}")
    })
}
