//! offlineimap: synchronises with a Maildir, both ways.

use std::io;

use super::context::{ClientContext, check, check_equal, maildir_files};

pub(super) fn run(context: &ClientContext<'_>) -> io::Result<()> {
    let login = context.login();
    let local = context.home().join("local");
    let config = format!(
        "[general]\naccounts = a\nui = basic\nmetadata = {home}/metadata\n[Account a]\n\
         localrepository = l\nremoterepository = r\n[Repository l]\ntype = Maildir\n\
         localfolders = {local}\nsync_deletes = yes\n[Repository r]\ntype = IMAP\n\
         remotehost = 127.0.0.1\nremoteport = {port}\nremoteuser = {user}\nremotepass = {pass}\n\
         ssl = no\nstarttls = no\nexpunge = yes\n",
        home = context.home().display(),
        local = local.display(),
        port = context.port(),
        user = login.name,
        pass = login.password
    );
    let config = context.write("offlineimaprc", &config)?;
    let config = config.to_string_lossy().into_owned();
    let sync = || {
        let output = context.run_ok("offlineimap", &["-o", "-c", &config])?;
        check(!output.contains("ERROR"), || "it reports an error".to_owned())
    };
    let inbox = local.join("INBOX");
    sync()?;
    check_equal("files after the first run", maildir_files(&inbox)?.len(), 5)?;
    let before = maildir_files(&inbox)?;
    sync()?;
    check_equal("an idle run", maildir_files(&inbox)?, before)?;

    let text = "From: n@example.org\nSubject: local\nMessage-ID: <local@x>\n\nlocal\n";
    context.write("local/INBOX/new/1700000000_0.1.host", text)?;
    let mut connection = context.connection()?;
    connection.ok("SELECT INBOX")?;
    connection.ok("STORE 2 +FLAGS (\\Flagged)")?;
    connection.ok("STORE 5 +FLAGS (\\Deleted)")?;
    connection.ok("EXPUNGE")?;
    connection.logout()?;
    sync()?;
    context.find("INBOX", "local")?;
    check_equal("messages on the server", context.messages("INBOX")?.len(), 5)?;
    let files = maildir_files(&inbox)?;
    check_equal("files at the end", files.len(), 5)?;
    let names = files.iter().map(|path| path.to_string_lossy().into_owned());
    let flagged = names.filter(|name| name.rsplit(',').next().is_some_and(|l| l.contains('F')));
    check_equal("flagged files", flagged.count(), 1)
}
