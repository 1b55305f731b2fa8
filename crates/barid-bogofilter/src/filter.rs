//! The program `bogofilter`.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use barid_vfs::{FileType, OsVfs, Stream, Vfs};
use barid_wordlist::{remote, today};

use crate::dropin::{Ahead, BogofilterRun, Formats, Lists, Opening, Reply};
use crate::input::Source;
use crate::options::Options;
use crate::output::{Stop, print, print_error};
use crate::places::{reason, user_name};
use crate::{input, query, syslog};

/// Runs the program and returns its exit code.
pub(crate) fn run(args: &[Vec<u8>]) -> Result<u8, Stop> {
    let mut options = Options::read(args)?;
    let source = Arc::new(Source::open(options.input.as_deref())?);
    let specs = options.list_specs()?;
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
    let settings = &mut options.settings;
    if settings.writes() || options.query > 0 {
        let date = options.date.unwrap_or_else(|| today(&*vfs));
        settings.date = if options.timestamps { date } else { 0 };
    }
    if names_user(&settings.formats) {
        settings.user = user_name();
    }
    let opening = match (options.query > 0, settings.writes()) {
        (true, _) => Opening::Ask,
        (_, true) => Opening::Write { date: settings.date },
        (_, false) => Opening::Read,
    };
    // For a single message a daemon is fastest, as it has the list open.
    let is_long = input::is_long(&options, &source);
    let mut by = |path: &Path| if is_long { None } else { remote::connect(path) };
    let lists = Lists::open_by(&vfs, &specs, opening, options.settings.encoding, &mut by)?;
    let mut session = BogofilterRun::new(vfs, options.settings.clone(), lists)?;
    if options.query > 0 {
        let text = query::text(&options, session.judge().settings(), &specs)?;
        return print(&text).map(|()| 0).map_err(|error| Stop::error(reason(&error)));
    }
    // From here on messages are consumed, so another program could not read them again. If a daemon
    // stops answering, its list may still be one that this program cannot read.
    let done = filter(&options, &source, session, is_long);
    done.map_err(|stop| Stop { list_is_foreign: false, ..stop })
}

/// Reads messages, and processes them as the options say.
fn filter(
    options: &Options,
    source: &Arc<Source>,
    mut session: BogofilterRun,
    is_long: bool,
) -> Result<u8, Stop> {
    let mut output = Output::open(options)?;
    let mut reply = Reply::default();
    let ahead = if is_long { read_ahead(options, source, &mut session)? } else { None };
    if let Some(mut ahead) = ahead {
        while let Some(mut message) = ahead.take() {
            session.read_message(&mut message, &mut reply)?;
            output.write(&mut reply)?;
            ahead.give_back(message);
        }
        ahead.finish()?;
    } else {
        input::each(options, source, &mut |message, name| {
            session.message(message, name, &mut reply)?;
            output.write(&mut reply)
        })?;
    }
    session.finish(&mut reply)?;
    output.write(&mut reply)?;
    Ok(if options.ham_is_true { 0 } else { session.exit_code() })
}

/// Starts to read in threads; returns `None` if no threads can be started.
fn read_ahead(
    options: &Options,
    source: &Arc<Source>,
    session: &mut BogofilterRun,
) -> Result<Option<Ahead<Result<(), Stop>>>, Stop> {
    let (options, source) = (options.clone(), Arc::clone(source));
    let token_options = session.judge().token_options()?.clone();
    let sorts = session.judge().settings().classifies();
    let ahead = Ahead::start(&token_options, sorts, move |reading| {
        input::each(&options, &source, &mut |message, name| match reading.put(message, name) {
            true => Ok(()),
            false => Err(Stop::error("the reading thread's results are no longer taken")),
        })
    });
    Ok(ahead.ok())
}

/// Returns `true` if a format may contain the name of the user.
fn names_user(formats: &Formats) -> bool {
    let Formats { header, terse, log_header, log_update, .. } = formats;
    [header, terse, log_header, log_update].iter().any(|format| {
        let starts = format.iter().enumerate().filter(|(_, byte)| **byte == b'%');
        let letter = |at: usize| {
            let is_part = |byte: &&u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'#' | b'.');
            format[at + 1..].iter().find(|byte| !is_part(byte))
        };
        starts.map(|(at, _)| at).any(|at| letter(at) == Some(&b'u'))
    })
}

/// The destination of output.
struct Output {
    file: Option<(std::path::PathBuf, Stream)>,
    tells_on_output: bool,
}

impl Output {
    fn open(options: &Options) -> Result<Self, Stop> {
        let path = options.output.as_ref().filter(|_| options.settings.passes_through);
        let open = |path: &std::path::PathBuf| match OsVfs.open_output(path, 0o666) {
            Ok(stream) => Ok((path.clone(), stream)),
            Err(error) => {
                let (path, reason) = (path.display(), reason(&error));
                Err(Stop::error(format!("Cannot open {path}: {reason}")))
            }
        };
        let file = path.map(open).transpose()?;
        Ok(Self { file, tells_on_output: options.tells_on_output })
    }

    /// Writes the reply, and empties it.
    fn write(&mut self, reply: &mut Reply) -> Result<(), Stop> {
        if self.tells_on_output {
            self.out(&reply.diagnostics)?;
        } else if !reply.diagnostics.is_empty() {
            print_error(&reply.diagnostics);
        }
        self.out(&reply.out)?;
        reply.logged.iter().for_each(|line| syslog::write(line));
        reply.diagnostics.clear();
        reply.out.clear();
        reply.logged.clear();
        Ok(())
    }

    fn out(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        if bytes.is_empty() {
            return Ok(());
        }
        let written = match &mut self.file {
            None => print(bytes),
            Some((_, stream)) => stream.write_all(bytes),
        };
        written.map_err(|error| {
            // No message is better than a partial one.
            let is_file =
                |stream: &Stream| stream.metadata().is_ok_and(|it| it.file_type == FileType::File);
            if let Some((path, stream)) = &self.file
                && is_file(stream)
            {
                drop(OsVfs.remove_file(path));
            }
            Stop::error(format!("cannot write: {}", reason(&error)))
        })
    }
}
