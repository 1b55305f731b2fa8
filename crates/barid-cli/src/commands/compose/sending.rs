//! Editing a draft in the user's editor, and passing it to the program that sends mail.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;

use anyhow::Context as _;
use barid::vfs::{Host as _, OpenOptions, OsVfs, Vfs as _};
use barid_extract::find_program;

use super::draft::MailDraft;
use crate::exit::WithHint;
use crate::limits::DRAFT_LEN_MAX;
use crate::signals;

/// Programs that send, where the search path has none.
const SENDMAIL: [&str; 2] = ["/usr/sbin/sendmail", "/usr/lib/sendmail"];

/// A draft that its author has changed, and the file with it, which stays until it is sent.
pub(super) struct EditedDraft {
    draft: MailDraft,
    path: PathBuf,
}

/// Lets the author change a draft in an editor; `None` if it was left as it was.
///
/// # Errors
///
/// Returns an error that names the file with the text, which then stays.
pub(super) fn edit(draft: MailDraft) -> anyhow::Result<Option<EditedDraft>> {
    // The editor has the terminal: its Ctrl-C is not for this program.
    signals::set_on_signal(&Arc::default()).context("signals cannot be caught")?;
    let template = draft.template();
    let path = new_file(template.as_bytes())?;
    let edited = run_editor(&path).and_then(|()| {
        let bytes = OsVfs.read(&path, DRAFT_LEN_MAX)?;
        String::from_utf8(bytes).context("the text is not UTF-8")
    });
    match edited {
        Ok(text) if text == template => {
            remove(&path)?;
            Ok(None)
        }
        Ok(text) => {
            let draft = draft.edited(&text).map_err(|error| kept(error, &path))?;
            Ok(Some(EditedDraft { draft, path }))
        }
        Err(error) => Err(kept(error, &path)),
    }
}

impl EditedDraft {
    /// Sends the draft; returns the addresses of the recipients.
    ///
    /// # Errors
    ///
    /// Returns an error that names the file with the text, which then stays.
    pub(super) fn send(self, command: Option<&OsStr>) -> anyhow::Result<Vec<String>> {
        let Self { draft, path } = self;
        let send = || {
            let recipients = draft.recipients()?;
            pass(&draft.message()?, command)?;
            Ok(recipients)
        };
        let recipients = send().map_err(|error| kept(error, &path))?;
        // It is sent: a file that stays is no error.
        let _ = remove(&path);
        Ok(recipients)
    }
}

fn remove(path: &Path) -> anyhow::Result<()> {
    OsVfs.remove_file(path).with_context(|| path.display().to_string())
}

fn kept(error: anyhow::Error, path: &Path) -> anyhow::Error {
    let path = path.display();
    WithHint::error(
        format!("not sent: {error:#}"),
        format!("what you wrote is in {path}; `mutt -H {path}` goes on with it"),
    )
}

/// Creates a file among the temporary ones that only its owner can read.
fn new_file(content: &[u8]) -> anyhow::Result<PathBuf> {
    let mut random = [0; 8];
    OsVfs.random(&mut random).context("no random bytes for the name of a file")?;
    let name = format!("barid-draft-{:016x}.eml", u64::from_le_bytes(random));
    let path = env::temp_dir().join(name);
    let write = || {
        let file = OsVfs.open(&path, OpenOptions::create_new(0o600))?;
        file.write_all_at(content, 0)
    };
    write().with_context(|| path.display().to_string())?;
    Ok(path)
}

fn run_editor(path: &Path) -> anyhow::Result<()> {
    let named = |name| env::var_os(name).filter(|value| !value.is_empty());
    let editor = named("VISUAL").or_else(|| named("EDITOR")).unwrap_or_else(|| "vi".into());
    let status =
        shell(&editor).arg(path).status().with_context(|| format!("{}", editor.display()))?;
    check(&editor, status)
}

/// Returns a command that the shell runs with the arguments that are added to it.
fn shell(text: &OsStr) -> Command {
    let mut script = text.to_owned();
    script.push(" \"$@\"");
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).arg("sh");
    command
}

/// Passes a message to the program that sends it.
fn pass(message: &[u8], command: Option<&OsStr>) -> anyhow::Result<()> {
    let (name, mut command) = match command {
        Some(text) => (text.to_owned(), shell(text)),
        None => {
            let program = sendmail();
            let mut command = Command::new(&program);
            command.args(["-t", "-oi"]);
            (program, command)
        }
    };
    let mut child = command
        .stdin(Stdio::piped())
        .spawn()
        .with_context(|| format!("{}", name.display()))
        .map_err(|error| WithHint::error(format!("{error:#}"), "--sendmail names another"))?;
    let written = child.stdin.take().map_or(Ok(()), |mut input| input.write_all(message));
    let status = child.wait().with_context(|| format!("{}", name.display()))?;
    check(&name, status)?;
    // A program that succeeds without reading everything has not sent everything.
    written.with_context(|| format!("{}: it did not read the whole message", name.display()))
}

fn sendmail() -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let usual = || SENDMAIL.map(PathBuf::from).into_iter().find(|it| OsVfs.metadata(it).is_ok());
    let found = find_program(&OsVfs, &path, "sendmail").or_else(usual);
    found.map_or_else(|| SENDMAIL[0].into(), PathBuf::into_os_string)
}

fn check(program: &OsStr, status: ExitStatus) -> anyhow::Result<()> {
    let name = program.display();
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => anyhow::bail!("{name} ended with status {code}"),
        (None, Some(signal)) => anyhow::bail!("{name} was ended by signal {signal}"),
        (None, None) => anyhow::bail!("{name} ended without a status"),
    }
}
