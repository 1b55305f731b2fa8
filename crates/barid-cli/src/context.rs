//! What every command works with: options, standard output, and how to talk to the person.

use std::cell::Cell;
use std::env;
use std::ffi::OsStr;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use barid::caches::{self, Recovery};
use barid::vfs::OsVfs;
use barid::{
    Mailbox, MailboxSpec, Note, NoteKind, OpenOptions, Progress, ProgressFn, resolve_name,
};

use crate::cli::GlobalArgs;
use crate::dirs;
use crate::exit::WithHint;
use crate::output::escape::visible;
use crate::output::progress::ProgressLine;
use crate::output::sink::Sink;
use crate::output::style::Style;
use crate::output::tree::Glyphs;
use crate::signals;

/// The surroundings of a command.
pub(crate) struct Context {
    /// The global options.
    pub(crate) global: GlobalArgs,
    /// Standard output.
    pub(crate) out: Sink,
    /// The colours of standard output.
    pub(crate) style: Style,
    /// The colours of standard error.
    error_style: Style,
    /// Whether something that was opened has messages that cannot be read.
    pub(crate) is_incomplete: Cell<bool>,
    /// Whether a mailbox was changed, or may have been: then the command is not done once more.
    pub(crate) has_changed: Cell<bool>,
    /// The terminal knows no escape sequences.
    is_dumb: bool,
    /// Cells of a line, if standard output is a terminal.
    pub(crate) width: Option<usize>,
}

impl Context {
    /// Looks at the terminal and the environment.
    pub(crate) fn new(global: GlobalArgs) -> Self {
        let is_dumb = env::var_os("TERM").is_some_and(|value| value == "dumb");
        let no_color = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) || is_dumb;
        let terminal = io::stdout().is_terminal();
        let error_terminal = io::stderr().is_terminal();
        // A terminal that does not know its size gives none.
        let width = || terminal_size::terminal_size().map_or(80, |(width, _)| width.0.into());
        Self {
            style: Style::new(global.color, terminal, no_color),
            error_style: Style::new(global.color, error_terminal, no_color),
            width: terminal.then(width),
            out: Sink::new(),
            is_incomplete: Cell::new(false),
            has_changed: Cell::new(false),
            is_dumb,
            global,
        }
    }

    /// The branches that trees are drawn with: box drawing where the locale is UTF-8.
    pub(crate) fn glyphs(&self) -> Glyphs {
        let set = |name: &&str| env::var_os(name).is_some_and(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find(set).and_then(env::var_os);
        let locale = locale.unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let utf8 = locale.contains("utf-8") || locale.contains("utf8");
        if utf8 { Glyphs::UNICODE } else { Glyphs::ASCII }
    }

    /// The folder of the caches; `None` with `--no-cache`, or where there is no place for one.
    pub(crate) fn cache_dir(&self) -> Option<PathBuf> {
        if self.global.no_cache {
            return None;
        }
        self.global.cache_dir.clone().or_else(dirs::cache_dir)
    }

    /// The folder of the state.
    pub(crate) fn state_dir(&self) -> anyhow::Result<PathBuf> {
        let dir = self.global.state_dir.clone().or_else(dirs::state_dir);
        dir.ok_or_else(|| {
            WithHint::error(
                "no folder for state: neither XDG_STATE_HOME nor HOME is set",
                "name one with --state-dir DIR",
            )
        })
    }

    /// How mailboxes are opened, as the global options say.
    pub(crate) fn open_options(&self) -> anyhow::Result<OpenOptions> {
        let mut options = OpenOptions::new(self.cache_dir(), self.state_dir()?);
        options.store = self.global.store;
        options.compression = self.global.compress;
        options.read_only = self.global.read_only;
        options.full_check = self.global.full_check;
        Ok(options)
    }

    /// Opens a mailbox, with progress on a terminal, and prints what there is to note.
    pub(crate) fn open(&self, mailbox: &OsStr) -> anyhow::Result<Mailbox> {
        self.open_spec(&parse_spec(mailbox))
    }

    /// As [`Context::open`], for a mailbox whose path is known to be one.
    pub(crate) fn open_spec(&self, spec: &MailboxSpec) -> anyhow::Result<Mailbox> {
        self.open_with(spec, &|_| {})
    }

    /// As [`Context::open_spec`], with other options than the global ones say.
    pub(crate) fn open_with(
        &self,
        spec: &MailboxSpec,
        adjust: &dyn Fn(&mut OpenOptions),
    ) -> anyhow::Result<Mailbox> {
        Ok(self.open_adjusted(spec, adjust, |_| Ok(()))?.0)
    }

    /// As [`Context::open`], then does `work`, which tells its progress as opening does.
    pub(crate) fn open_and<T>(
        &self,
        mailbox: &OsStr,
        work: impl FnOnce(&mut Mailbox) -> barid::Result<T>,
    ) -> anyhow::Result<(Mailbox, T)> {
        self.open_adjusted(&parse_spec(mailbox), &|_| {}, work)
    }

    fn open_adjusted<T>(
        &self,
        spec: &MailboxSpec,
        adjust: &dyn Fn(&mut OpenOptions),
        work: impl FnOnce(&mut Mailbox) -> barid::Result<T>,
    ) -> anyhow::Result<(Mailbox, T)> {
        let opened = self.with_progress(|options| {
            let mut options = options.clone();
            adjust(&mut options);
            let open = || Mailbox::open_in(Arc::new(OsVfs), spec, &options);
            let mut mailbox = signals::while_idle(open)?;
            let done = work(&mut mailbox)?;
            Ok((mailbox, done))
        });
        let (mailbox, done) = opened.map_err(|error| match error.downcast_ref() {
            Some(barid::Error::Mailbox(barid::FormatError::NotAMailbox { .. }))
                if spec.format.is_some() =>
            {
                let hint = "leave out the format before the path, and it is found out";
                WithHint::error(error.to_string(), hint)
            }
            _ => error,
        })?;
        self.print_notes(&mailbox);
        Ok((mailbox, done))
    }

    /// Does long work that tells its progress through the options.
    pub(crate) fn with_progress<T>(
        &self,
        work: impl FnOnce(&OpenOptions) -> barid::Result<T>,
    ) -> anyhow::Result<T> {
        let mut options = self.open_options()?;
        let result = self.with_line(None, |progress| {
            options.progress = progress;
            work(&options)
        });
        Ok(result?)
    }

    /// Does long work that tells its progress, which stands on a line that also tells when `stop`
    /// is set.
    pub(crate) fn with_line<T>(
        &self,
        stop: Option<Arc<AtomicBool>>,
        work: impl FnOnce(Option<ProgressFn>) -> T,
    ) -> T {
        let is_shown = !self.global.quiet && !self.is_dumb && io::stderr().is_terminal();
        let is_answered = stop.is_some();
        let line = is_shown.then(|| Arc::new(ProgressLine::new(stop)));
        let shown = line.clone();
        let progress = (is_shown || is_answered).then(|| {
            Arc::new(move |progress: Progress| {
                if is_answered {
                    signals::note_progress(&progress);
                }
                if let Some(line) = &shown {
                    line.update(&progress);
                }
            }) as ProgressFn
        });
        let result = work(progress);
        if let Some(line) = line {
            line.clear();
        }
        result
    }

    /// Prints what an opening has noted, as far as it is of interest.
    pub(crate) fn print_notes(&self, mailbox: &Mailbox) {
        self.print_new_notes(mailbox, &[]);
    }

    /// Prints what was noted since there were these notes.
    pub(crate) fn print_new_notes(&self, mailbox: &Mailbox, known: &[Note]) {
        for note in mailbox.notes().iter().filter(|note| !known.contains(note)) {
            if note.kind == NoteKind::Unreadable {
                self.is_incomplete.set(true);
            }
            match note.kind {
                NoteKind::Mailbox if !self.global.verbose => {}
                NoteKind::Converted | NoteKind::Recovered if self.global.quiet => {}
                NoteKind::Converted | NoteKind::Recovered => {
                    self.error_line("note", &visible(note.text.as_bytes()))
                }
                _ => self.warn(&note.text),
            }
        }
    }

    /// Prepares for doing the command once more after an error of the cache, if that is what it is.
    /// A cache is checked as it is read, so damage may show itself after the mailbox was opened.
    pub(crate) fn recovers(&mut self, error: &anyhow::Error) -> bool {
        if self.has_changed.get() {
            return false;
        }
        let Some(cause) = error.downcast_ref() else { return false };
        let Ok(options) = self.open_options() else { return false };
        let Ok(Some(recovery)) = caches::recover(cause, &options) else { return false };
        match recovery {
            Recovery::Again => {}
            Recovery::Anew(kept_in) => {
                self.global.store = self.global.store.or(kept_in.map(|kept| kept.store));
                self.global.compress =
                    self.global.compress.or(kept_in.map(|kept| kept.compression));
                self.warn(&format!("{error}; it is made anew"));
            }
            Recovery::Without => {
                self.global.no_cache = true;
                self.warn(&format!("{error}; everything is read from the mailbox instead"));
            }
        }
        true
    }

    /// Warns, unless `--quiet`.
    pub(crate) fn warn(&self, text: &str) {
        if !self.global.quiet {
            self.error_line("warning", &visible(text.as_bytes()));
        }
    }

    /// Says something of interest, with `--verbose`.
    pub(crate) fn detail(&self, text: &str) {
        if self.global.verbose {
            self.error_line("note", &visible(text.as_bytes()));
        }
    }

    /// Prints a line to standard error, after its kind. The text is made of visible characters.
    pub(crate) fn error_line(&self, kind: &str, text: &str) {
        let style = self.error_style;
        let color = match kind {
            "error" => style.red,
            "warning" => style.yellow,
            _ => style.cyan,
        };
        let line = format!("{color}{kind}:{} {text}\n", style.reset);
        // Standard error may be closed; there is nobody left to tell.
        let _ = io::stderr().write_all(line.as_bytes());
    }
}

/// Parses `PATH` or `FORMAT:PATH`. The path may have bytes that are no UTF-8; a name as `barid
/// folders` tells it, below its Maildir, leads to the Maildir++ folder.
pub(crate) fn parse_spec(text: &OsStr) -> MailboxSpec {
    let spec = MailboxSpec::parse(&text.to_string_lossy());
    let bytes = text.as_bytes();
    let path = match (spec.format, bytes.iter().position(|byte| *byte == b':')) {
        (Some(_), Some(colon)) => &bytes[colon + 1..],
        _ => bytes,
    };
    let path = resolve_name(&OsVfs, Path::new(OsStr::from_bytes(path)));
    MailboxSpec { path, ..spec }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &[u8], has_format: bool, path: &[u8]) {
        let spec = parse_spec(OsStr::from_bytes(text));
        assert_eq!((spec.format.is_some(), spec.path.as_os_str().as_bytes()), (has_format, path));
    }

    #[test]
    fn a_path_is_any_bytes() {
        check(b"a/b", false, b"a/b");
        check(b"maildir:a:b", true, b"a:b");
        check(b"a:b", false, b"a:b");
        check(b"b\xff\xfe:d", false, b"b\xff\xfe:d");
        check(b"maildir:b\xff\xfed", true, b"b\xff\xfed");
    }
}
