//! NeoMutt, with and without header cache, CONDSTORE and QRESYNC, and through a tunnel; and mutt.

use std::io;

use barid_testkit::disk;

use super::context::{ClientContext, check, check_equal};

/// Settings of both programs.
const COMMON: &str = "set ssl_starttls=no\nset ssl_force_tls=no\nset sort=date\nset quit=yes\n\
    set confirmappend=no\nset confirmcreate=no\nset delete=yes\nset wait_key=no\nset mark_old=no\nset resolve=no\n\
    set mail_check=1\nset timeout=1\n";

pub(super) fn neomutt(context: &ClientContext<'_>) -> io::Result<()> {
    let cache = format!("set header_cache={}\n", context.home().join("hc").display());
    let quick = "set imap_condstore=yes\nset imap_qresync=yes\n";
    for (number, more) in
        ["", &cache, &format!("{cache}{quick}"), &format!("{cache}{quick}")].into_iter().enumerate()
    {
        session(context, "neomutt", number, more)?;
    }
    if let Some(tunnel) = context.tunnel()? {
        let tunnel = format!("set tunnel=\"{}\"\n", tunnel.replace('"', "\\\""));
        session(context, "neomutt", 4, &tunnel)?;
    }
    Ok(())
}

pub(super) fn mutt(context: &ClientContext<'_>) -> io::Result<()> {
    session(context, "mutt", 0, "")?;
    let cache = format!("set header_cache={}\n", context.home().join("hc").display());
    session(context, "mutt", 1, &cache)?;
    session(context, "mutt", 2, &cache)
}

/// Flags the first message, copies it, pipes it, deletes the last one, which is new, and leaves.
fn session(
    context: &ClientContext<'_>,
    program: &str,
    number: usize,
    more: &str,
) -> io::Result<()> {
    let login = context.login();
    let url = format!("imap://{}@127.0.0.1:{}/", login.name, context.port());
    let config = format!(
        "set folder=\"{url}\"\nset spoolfile=\"{url}INBOX\"\nset imap_pass=\"{}\"\n{COMMON}{more}",
        login.password
    );
    let config = context.write(&format!("{program}{number}.rc"), &config)?;
    let mut connection = context.connection()?;
    let date = "Date: Tue, 02 Jul 2024 10:00:00 +0000\r\n";
    let last = format!("{date}From: a@example.org\r\nSubject: doomed\r\n\r\nx\r\n");
    connection.append("INBOX", "(\\Seen)", last.as_bytes())?;
    connection.ok("SELECT INBOX")?;
    connection.ok("STORE 1 FLAGS ()")?;
    connection.logout()?;
    let (inbox, archive) = (context.messages("INBOX")?, context.messages("Archive")?);

    let piped = context.home().join(format!("{program}{number}.piped"));
    let keys = format!(
        "<first-entry><flag-message><copy-message>=Archive<enter><pipe-message>cat >{}<enter>\
         <last-entry><delete-message><sync-mailbox><quit>",
        piped.display()
    );
    let line = format!("{program} -F {} -e 'push \"{keys}\"'", config.display());
    let ended = context.on_terminal(&line, &[])?;
    check(ended.status.success(), || format!("{program}: {}", ended.status))?;

    let text = disk::read_text(&piped)?;
    let expected = context.message(1).replace("\r\n", "\n");
    check_equal("the piped message", text.replace("\r\n", "\n"), expected)?;
    let first = context.find("INBOX", "first")?;
    let is_flagged = first.flags.contains(&"\\flagged".to_owned());
    check(is_flagged, || format!("{program} {number}: not flagged: {first:?}"))?;
    check_equal("messages in INBOX", context.messages("INBOX")?.len(), inbox.len() - 1)?;
    check_equal("messages in Archive", context.messages("Archive")?.len(), archive.len() + 1)?;
    let doomed = context.messages("INBOX")?.into_iter().any(|message| message.subject == "doomed");
    check(!doomed, || "the deleted message is there".to_owned())
}
