//! The environment of every command: options, standard output, and messages to the user.

use std::cell::{Cell, OnceCell};
use std::env;
use std::ffi::OsStr;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use barid::caches::{self, CacheRecovery};
use barid::vfs::OsVfs;
use barid::{
    AttachmentReader, Mailbox, MailboxSpec, Note, NoteKind, OpenOptions, Progress, ProgressFn,
    resolve_name,
};

use crate::config::UserConfig;
use crate::dirs;
use crate::exit::{WithHint, of_library};
use crate::global::GlobalArgs;
use crate::mail::extraction::DocumentReader;
use crate::mail::query::QueryArgs;
use crate::mail::standard_input::StandardInput;
use crate::output::escape::visible;
use crate::output::progress::ProgressLine;
use crate::output::sink::Sink;
use crate::output::style::Style;
use crate::output::tree::Glyphs;
use crate::signals;

/// The environment of a command.
pub(crate) struct Context {
    /// The global options.
    pub(crate) global: GlobalArgs,
    /// The configuration of the program.
    pub(crate) config: UserConfig,
    /// Standard output.
    pub(crate) out: Sink,
    /// The colours of standard output.
    pub(crate) style: Style,
    /// The colours of standard error.
    error_style: Style,
    /// `true` if an opened mailbox has messages that cannot be read.
    pub(crate) is_incomplete: Cell<bool>,
    /// `true` if a mailbox was or may have been changed: then the command is not retried.
    pub(crate) has_changed: Cell<bool>,
    /// `true` if searches look into attachments.
    reads_attachments: Cell<bool>,
    /// The reader of these, once it was needed.
    attachment_reader: OnceCell<Arc<DocumentReader>>,
    /// `true` if the terminal does not support escape sequences.
    is_dumb: bool,
    /// Columns of a line, if standard output is a terminal.
    pub(crate) width: Option<usize>,
}

impl Context {
    /// Inspects the terminal and the environment.
    pub(crate) fn new(global: GlobalArgs, config: UserConfig) -> Self {
        let is_dumb = env::var_os("TERM").is_some_and(|value| value == "dumb");
        let no_color = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) || is_dumb;
        let terminal = io::stdout().is_terminal();
        let error_terminal = io::stderr().is_terminal();
        // 80 columns if the terminal does not report its size.
        let width = || terminal_size::terminal_size().map_or(80, |(width, _)| width.0.into());
        Self {
            style: Style::new(global.color, terminal, no_color),
            error_style: Style::new(global.color, error_terminal, no_color),
            width: terminal.then(width),
            out: Sink::new(),
            is_incomplete: Cell::new(false),
            has_changed: Cell::new(false),
            reads_attachments: Cell::new(false),
            attachment_reader: OnceCell::new(),
            is_dumb,
            global,
            config,
        }
    }

    /// Returns the characters of tree branches: box drawing if the locale is UTF-8.
    pub(crate) fn glyphs(&self) -> Glyphs {
        let set = |name: &&str| env::var_os(name).is_some_and(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find(set).and_then(env::var_os);
        let locale = locale.unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let utf8 = locale.contains("utf-8") || locale.contains("utf8");
        if utf8 { Glyphs::UNICODE } else { Glyphs::ASCII }
    }

    /// Returns the folder of the caches; `None` with `--no-cache`, or if no folder is known.
    pub(crate) fn cache_dir(&self) -> Option<PathBuf> {
        if self.global.no_cache {
            return None;
        }
        self.global.cache_dir.clone().or_else(dirs::cache_dir)
    }

    /// Returns the folder of the state.
    pub(crate) fn state_dir(&self) -> anyhow::Result<PathBuf> {
        let dir = self.global.state_dir.clone().or_else(dirs::state_dir);
        dir.ok_or_else(|| {
            WithHint::error(
                "no folder for state: neither XDG_STATE_HOME nor HOME is set",
                "name one with --state-dir DIR",
            )
        })
    }

    /// Returns the options for opening mailboxes, from the global options.
    pub(crate) fn open_options(&self) -> anyhow::Result<OpenOptions> {
        let mut options = OpenOptions::new(self.cache_dir(), self.state_dir()?);
        options.store = self.global.store;
        options.compression = self.global.compress;
        options.read_only = self.global.read_only;
        options.full_check = self.global.full_check;
        options.use_index = !self.global.no_index;
        options.attachments = self.attachment_reader();
        Ok(options)
    }

    /// Takes the options of a query that concern the mailboxes that are opened for it.
    pub(crate) fn prepare(&self, query: QueryArgs) {
        if query.reads_attachments() {
            self.read_attachments();
        }
    }

    /// Makes the mailboxes that are opened from now on look into attachments.
    pub(crate) fn read_attachments(&self) {
        self.reads_attachments.set(true);
    }

    /// Returns `true` if searches look into attachments.
    pub(crate) fn reads_attachments(&self) -> bool {
        self.reads_attachments.get()
    }

    fn attachment_reader(&self) -> Option<Arc<dyn AttachmentReader>> {
        let make = || Arc::new(DocumentReader::new(self.cache_dir()));
        let shared = || Arc::clone(self.attachment_reader.get_or_init(make));
        self.reads_attachments().then(|| shared() as Arc<dyn AttachmentReader>)
    }

    /// Returns the folders for input that is too large for memory: those of the caches and of the
    /// state, and that for temporary files.
    pub(crate) fn spool_folders(&self) -> Vec<PathBuf> {
        let folders = [self.cache_dir(), self.state_dir().ok(), Some(env::temp_dir())];
        folders.into_iter().flatten().collect()
    }

    /// Returns the mailbox that a text names, which must not be standard input.
    ///
    /// # Errors
    /// As [`Context::spec`], and if it is standard input.
    pub(crate) fn spec_on_disk(&self, mailbox: &OsStr) -> anyhow::Result<MailboxSpec> {
        let spec = self.spec(mailbox)?;
        match is_stdin(&spec) {
            false => Ok(spec),
            true => Err(WithHint::error(
                "standard input is a mailbox that can only be read, and has no cache",
                "save it to a file and name that; `barid copy - all DST` copies its messages",
            )),
        }
    }

    /// Returns the mailbox that a text names: `PATH`, `FORMAT:PATH`, or a name of the
    /// configuration.
    ///
    /// # Errors
    /// If the configuration does not have the name.
    pub(crate) fn spec(&self, mailbox: &OsStr) -> anyhow::Result<MailboxSpec> {
        Ok(parse_spec(&self.config.mailbox_named(mailbox)?))
    }

    /// Opens a mailbox, with progress on a terminal, and prints the notes.
    pub(crate) fn open(&self, mailbox: &OsStr) -> anyhow::Result<Mailbox> {
        self.open_spec(&self.spec(mailbox)?)
    }

    /// Does the same as [`Context::open`], for a mailbox that must not be standard input.
    pub(crate) fn open_on_disk(&self, mailbox: &OsStr) -> anyhow::Result<Mailbox> {
        self.open_spec(&self.spec_on_disk(mailbox)?)
    }

    /// Does the same as [`Context::open`], for a parsed mailbox name.
    pub(crate) fn open_spec(&self, spec: &MailboxSpec) -> anyhow::Result<Mailbox> {
        self.open_with(spec, &|_| {})
    }

    /// Does the same as [`Context::open_spec`], with options changed by `adjust`.
    pub(crate) fn open_with(
        &self,
        spec: &MailboxSpec,
        adjust: &dyn Fn(&mut OpenOptions),
    ) -> anyhow::Result<Mailbox> {
        Ok(self.open_adjusted(spec, adjust, |_| Ok(()))?.0)
    }

    /// Does the same as [`Context::open`], then runs `work` with the same progress display.
    pub(crate) fn open_and<T>(
        &self,
        mailbox: &OsStr,
        work: impl FnOnce(&mut Mailbox) -> barid::Result<T>,
    ) -> anyhow::Result<(Mailbox, T)> {
        self.open_adjusted(&self.spec(mailbox)?, &|_| {}, work)
    }

    /// Does the same as [`Context::open_and`], for a parsed mailbox name.
    pub(crate) fn open_spec_and<T>(
        &self,
        spec: &MailboxSpec,
        work: impl FnOnce(&mut Mailbox) -> barid::Result<T>,
    ) -> anyhow::Result<(Mailbox, T)> {
        self.open_adjusted(spec, &|_| {}, work)
    }

    fn open_adjusted<T>(
        &self,
        spec: &MailboxSpec,
        adjust: &dyn Fn(&mut OpenOptions),
        work: impl FnOnce(&mut Mailbox) -> barid::Result<T>,
    ) -> anyhow::Result<(Mailbox, T)> {
        if is_stdin(spec) {
            let input = StandardInput::read(&self.spool_folders(), None)?;
            let mut mailbox = input.into_any_mailbox(spec.format, self.attachment_reader())?;
            let done = work(&mut mailbox)?;
            self.print_notes(&mailbox);
            return Ok((mailbox, done));
        }
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
                let hint = "leave out the format before the path to have it detected";
                WithHint::error(error.to_string(), hint)
            }
            _ => error,
        })?;
        self.print_notes(&mailbox);
        Ok((mailbox, done))
    }

    /// Runs long work that reports its progress through the options.
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

    /// Runs long work that reports its progress, shown on a line that also indicates when `stop` is
    /// set.
    pub(crate) fn with_line<T>(
        &self,
        stop: Option<Arc<AtomicBool>>,
        work: impl FnOnce(Option<ProgressFn>) -> T,
    ) -> T {
        let is_shown = self.shows_progress();
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

    fn shows_progress(&self) -> bool {
        !self.global.quiet && !self.is_dumb && io::stderr().is_terminal()
    }

    /// Removes the line of progress that work on an opened mailbox may have shown.
    pub(crate) fn clear_progress(&self) {
        if self.shows_progress() {
            // Nobody reads a closed standard error.
            let _ = io::stderr().write_all(b"\r\x1b[K");
        }
    }

    /// Prints the notes of an opening that are of interest.
    pub(crate) fn print_notes(&self, mailbox: &Mailbox) {
        self.print_new_notes(mailbox, &[]);
    }

    /// Prints the notes that are not in `known`.
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

    /// Prepares a retry of the command after an error of the cache; returns `false` for other
    /// errors. Caches are checked as they are read, so damage may appear after the mailbox was
    /// opened.
    pub(crate) fn recovers(&mut self, error: &anyhow::Error) -> bool {
        if self.has_changed.get() {
            return false;
        }
        let Some(cause) = of_library(error) else { return false };
        let Ok(options) = self.open_options() else { return false };
        let Ok(Some(recovery)) = caches::recover(cause, &options) else { return false };
        match recovery {
            CacheRecovery::Again => {}
            CacheRecovery::Anew(kept_in) => {
                self.global.store = self.global.store.or(kept_in.map(|kept| kept.store));
                self.global.compress =
                    self.global.compress.or(kept_in.map(|kept| kept.compression));
                self.warn(&format!("{error}; it is rebuilt"));
            }
            CacheRecovery::Without => {
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

    /// Prints a note, unless `--quiet`.
    pub(crate) fn note(&self, text: &str) {
        if !self.global.quiet {
            self.error_line("note", &visible(text.as_bytes()));
        }
    }

    /// Prints a note with `--verbose`.
    pub(crate) fn detail(&self, text: &str) {
        if self.global.verbose {
            self.error_line("note", &visible(text.as_bytes()));
        }
    }

    /// Prints a line to standard error, after its kind. `text` must consist of visible characters.
    pub(crate) fn error_line(&self, kind: &str, text: &str) {
        let style = self.error_style;
        let color = match kind {
            "error" => style.red,
            "warning" => style.yellow,
            _ => style.cyan,
        };
        let line = format!("{color}{kind}:{} {text}\n", style.reset);
        // Nobody reads a closed standard error.
        let _ = io::stderr().write_all(line.as_bytes());
    }
}

/// Returns `true` for the mailbox on standard input, `-` or `FORMAT:-`; `./-` is a file.
fn is_stdin(spec: &MailboxSpec) -> bool {
    spec.path == Path::new("-")
}

/// Parses `PATH` or `FORMAT:PATH`. The path may contain bytes that are not UTF-8; a name as printed
/// by `barid folders`, below its Maildir, is resolved to the Maildir++ folder.
fn parse_spec(text: &OsStr) -> MailboxSpec {
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
