//! getmail: retrieves each message once.

use std::io;

use super::context::{ClientContext, check_equal, maildir_files};

pub(super) fn run(context: &ClientContext<'_>) -> io::Result<()> {
    let login = context.login();
    let maildir = context.home().join("mail");
    for folder in ["cur", "new", "tmp"] {
        context.write(&format!("mail/{folder}/.keep"), "")?;
        barid_testkit::disk::remove_file(&maildir.join(folder).join(".keep"))?;
    }
    let config = format!(
        "[retriever]\ntype = SimpleIMAPRetriever\nserver = 127.0.0.1\nport = {}\nusername = {}\n\
         password = {}\nmailboxes = (\"INBOX\",)\n[destination]\ntype = Maildir\npath = {}/\n\
         [options]\nread_all = false\n",
        context.port(),
        login.name,
        login.password,
        maildir.display()
    );
    context.write("getmail/rc", &config)?;
    let folder = context.home().join("getmail").to_string_lossy().into_owned();
    let retrieve = || context.run_ok("getmail", &["-g", &folder, "-r", "rc"]);
    retrieve()?;
    check_equal("files", maildir_files(&maildir)?.len(), 5)?;
    retrieve()?;
    check_equal("files after a second run", maildir_files(&maildir)?.len(), 5)?;
    let mut connection = context.connection()?;
    connection.append("INBOX", "", b"Subject: sixth\r\n\r\nx\r\n")?;
    connection.logout()?;
    retrieve()?;
    check_equal("files after a new message", maildir_files(&maildir)?.len(), 6)
}
