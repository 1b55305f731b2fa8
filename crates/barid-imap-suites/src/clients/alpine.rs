//! alpine, on a terminal.

use std::io;

use super::context::{ClientContext, check, check_equal};

pub(super) fn run(context: &ClientContext<'_>) -> io::Result<()> {
    let login = context.login();
    let server =
        format!("{{127.0.0.1:{}/novalidate-cert/notls/user={}}}", context.port(), login.name);
    let config = format!(
        "inbox-path={server}INBOX\nfolder-collections=Mail {server}[]\nsort-key=arrival\n\
         feature-list=enable-aggregate-command-set,expunge-without-confirm-everywhere,\
         quit-without-confirm,enable-flag-cmd,save-will-not-delete,disable-password-caching,\
         disable-password-file-saving\n\
         initial-keystroke-list=\npersonal-name=Test\nuser-domain=example.org\n\
         last-version-used=9.99\nnew-version-threshold=9.99\n"
    );
    let config = context.write("pinerc", &config)?;
    // The password; the first message is flagged and saved, the last one deleted and expunged.
    let password = format!("{}\r", login.password);
    let keys = [
        ("PASSWORD", password.as_str()),
        ("fifth", "1"),
        ("", "\r"),
        ("", "*"),
        ("", "*"),
        ("", "s"),
        ("", "Archive\r"),
        ("", "5"),
        ("", "\r"),
        ("", "d"),
        ("", "x"),
        ("", "q"),
    ];
    let line = format!("alpine -p {} -i", config.display());
    let ended = context.on_terminal(&line, &keys)?;
    check(ended.status.success(), || format!("alpine: {}", ended.status))?;
    context.find("Archive", "first")?;
    let first = context.find("INBOX", "first")?;
    check(first.flags.contains(&"\\flagged".to_owned()), || format!("{first:?}"))?;
    check_equal("messages in INBOX", context.messages("INBOX")?.len(), 4)
}
