//! fetchmail: takes messages away, or leaves them.

use std::io;

use barid_testkit::peers::PeerUser;
use rustix::fs::{Mode, chmod};

use super::context::{ClientContext, check, check_equal};

pub(super) fn run(context: &ClientContext<'_>) -> io::Result<()> {
    let login = context.login();
    let fetch = |name: &str, keeps: &str, options: &[&str]| {
        let config = format!(
            "poll 127.0.0.1 proto imap port {} user {} pass {} sslproto '' {keeps} mda \
             'cat >>{}/{name}.out'\n",
            context.port(),
            login.name,
            login.password,
            context.home().display()
        );
        let path = context.write(&format!("{name}.rc"), &config)?;
        chmod(&path, Mode::RUSR | Mode::WUSR)?;
        PeerUser::get()?.take(&path)?;
        let path = path.to_string_lossy().into_owned();
        let ids = context.home().join("fetchids").to_string_lossy().into_owned();
        let args = [&["-v", "-f", &path, "-i", &ids][..], options].concat();
        context.run("fetchmail", &args)
    };
    let ended = fetch("keep", "keep", &["--fetchall"])?;
    check(ended.status.success(), || format!("fetchmail: {}", ended.status))?;
    let text = context.read("keep.out")?;
    check_equal("messages in the output", text.matches("Message-ID: <").count(), 5)?;
    check(text.contains("text of the second"), || "no second message".to_owned())?;
    check_equal("messages left", context.messages("INBOX")?.len(), 5)?;
    let ended = fetch("take", "nokeep", &["--fetchall"])?;
    check(ended.status.success(), || format!("fetchmail: {}", ended.status))?;
    check_equal("messages taken", context.messages("INBOX")?.len(), 0)?;
    // 1 means that there was no mail.
    let ended = fetch("none", "nokeep", &[])?;
    check_equal("no mail", ended.status.code(), Some(1))
}
