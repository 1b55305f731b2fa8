//! mbsync: two-way synchronisation, through a port and through a tunnel. A run without changes must
//! change nothing.

use std::io;
use std::path::{Path, PathBuf};

use barid_testkit::disk;

use super::context::{ClientContext, check, check_equal, maildir_files};

pub(super) fn run(context: &ClientContext<'_>) -> io::Result<()> {
    let login = context.login();
    let mut stores = Vec::new();
    let tls = match context.tls().and_then(|tls| tls.certificate) {
        Some(file) => format!("SSLType STARTTLS\nCertificateFile {}", file.display()),
        None => "SSLType None".to_owned(),
    };
    stores.push(format!(
        "Host localhost\nPort {}\nUser {}\nPass {}\nAuthMechs *\n{tls}",
        context.port(),
        login.name,
        login.password
    ));
    if let Some(tunnel) = context.tunnel()? {
        // Double quotes enclose a value of mbsync.
        stores.push(format!("Tunnel \"{}\"", tunnel.replace('"', "\\\"")));
    }
    for (number, store) in stores.iter().enumerate() {
        round(context, number, store)?;
    }
    Ok(())
}

fn round(context: &ClientContext<'_>, number: usize, store: &str) -> io::Result<()> {
    let near = context.home().join(format!("near{number}"));
    let config = format!(
        "IMAPStore r\n{store}\nPipelineDepth 50\n\nMaildirStore l\nPath {near}/\nInbox {near}/INBOX\n\
         SubFolders Verbatim\n\nChannel c\nFar :r:\nNear :l:\nPatterns *\nCreate Both\nExpunge Both\n\
         SyncState *\n",
        near = near.display()
    );
    let config = context.write(&format!("mbsyncrc{number}"), &config)?;
    context.write(&format!("near{number}/.keep"), "")?;
    let config = config.to_string_lossy().into_owned();
    let sync = || context.run_ok("mbsync", &["-V", "-c", &config, "-a"]);
    let inbox = near.join("INBOX");
    sync()?;
    let far = context.messages("INBOX")?;
    check_equal("files after the first run", maildir_files(&inbox)?.len(), far.len())?;

    let before = (maildir_files(&inbox)?, state(context)?);
    sync()?;
    check_equal("an idle run", (maildir_files(&inbox)?, state(context)?), before)?;

    // A new message here, a flag there.
    let subject = format!("near {number}");
    let text =
        format!("From: n@example.org\nSubject: {subject}\nMessage-ID: <n{number}@x>\n\nnear\n");
    context.write(&format!("near{number}/INBOX/new/1.near{number}"), &text)?;
    let mut connection = context.connection()?;
    connection.ok("SELECT INBOX")?;
    connection.ok("STORE 1 +FLAGS (\\Flagged)")?;
    connection.logout()?;
    sync()?;
    let pushed = context.find("INBOX", &subject)?;
    let flagged = maildir_files(&inbox)?.into_iter().filter(|path| has_letter(path, 'F')).count();
    check(flagged >= 1, || "no file is flagged".to_owned())?;

    // The message is deleted here.
    let mine = maildir_files(&inbox)?.into_iter().find(|path| is_subject(path, &subject));
    let mine = mine.ok_or_else(|| io::Error::other("the new message is gone"))?;
    mark_deleted(&mine, &inbox)?;
    sync()?;
    let left = context.messages("INBOX")?;
    check(left.iter().all(|message| message.uid != pushed.uid), || format!("{left:?}"))?;
    check_equal("files at the end", maildir_files(&inbox)?.len(), left.len())
}

/// Returns all that an idle run must not change.
fn state(context: &ClientContext<'_>) -> io::Result<Vec<String>> {
    let mut connection = context.connection()?;
    let status = "(MESSAGES UIDNEXT UIDVALIDITY UNSEEN)";
    let mut state = Vec::new();
    for mailbox in ["INBOX", "Archive"] {
        let reply = connection.ok(&format!("STATUS {mailbox} {status}"))?;
        state.extend(reply.find("STATUS"));
    }
    connection.logout()?;
    Ok(state)
}

fn has_letter(path: &Path, letter: char) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.rsplit_once(":2,").is_some_and(|(_, letters)| letters.contains(letter))
}

fn is_subject(path: &Path, subject: &str) -> bool {
    disk::read_text(path).is_ok_and(|text| text.contains(&format!("Subject: {subject}")))
}

/// Gives a file the letter of \Deleted.
fn mark_deleted(path: &Path, maildir: &Path) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (base, letters) = name.split_once(":2,").unwrap_or((&name, ""));
    let to: PathBuf = maildir.join("cur").join(format!("{base}:2,{letters}T"));
    disk::rename(path, &to)
}
