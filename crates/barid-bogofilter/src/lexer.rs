//! The program `bogolexer`.

use std::io::{BufWriter, Write};

use barid_bayes::{AddressPrefix, Options, Tokenizer, WordEncoding};
use barid_vfs::OsVfs;

use crate::config::{self, text, yes};
use crate::getopt::{Known, Long};
use crate::help;
use crate::input::{Source, each_of};
use crate::limits::BUFFER_LEN;
use crate::options::whole;
use crate::output::{Stop, path_of, shown};
use crate::places::{expanded, reason};

/// The options of bogolexer.
const KNOWN: Known = Known {
    letters: ":c:CDhHI:nO:pqvVx:X:m",
    longs: &[
        Long::named("block-on-subnets"),
        Long::named("charset-default"),
        Long::named("user-config-file"),
        Long::named("replace-nonascii-characters"),
    ],
};

/// The settings from arguments and configuration files.
struct LexerSettings {
    // Without a word list there is no version that requires a different prefix.
    options: Options,
    prints: bool,
    counts: bool,
    without_config: bool,
    input: Option<Vec<u8>>,
    output: Option<Vec<u8>>,
}

/// Runs the program and returns its exit code.
pub(crate) fn run(args: &[Vec<u8>]) -> Result<u8, Stop> {
    let options = Options { address_prefix: AddressPrefix::Url, ..Options::default() };
    let mut asked = LexerSettings {
        options,
        prints: false,
        counts: false,
        without_config: false,
        input: None,
        output: None,
    };
    let parsed = KNOWN.parse(args);
    parsed.each(&mut |key, value| asked.apply(key, value.unwrap_or_default()))?;
    if let Some(name) = parsed.others.first() {
        let text = format!("Extra arguments given, first: {}. Aborting.", shown(name));
        return Err(Stop::error(text));
    }
    if !asked.without_config {
        asked.config(config::SITE.as_bytes())?;
        asked.config(config::USER)?;
    }
    if !asked.prints && !asked.counts {
        return Err(Stop::error("bogolexer: words are printed with -p, and counted with -q"));
    }
    asked.run()
}

impl LexerSettings {
    fn apply(&mut self, key: &str, value: &[u8]) -> Result<(), Stop> {
        let options = &mut self.options;
        match key {
            "c" | "config-file" => {
                self.without_config = true;
                self.config(value)?;
            }
            "C" => self.without_config = true,
            "h" => return Err(Stop::success(help::LEXER.to_owned())),
            "V" => return Err(Stop::success(help::version("bogolexer"))),
            "H" => options.header_prefixes = false,
            "I" => self.input = Some(value.to_vec()),
            "O" => self.output = Some(value.to_vec()),
            "n" => options.replace_non_ascii = true,
            "p" => self.prints = true,
            "q" => self.counts = true,
            "min-token-len" => options.token_len_min = whole(value) as usize,
            "max-token-len" => options.token_len_max = whole(value) as usize,
            "max-multi-token-len" => options.multi_token_len_max = whole(value) as usize,
            "multi-token-count" => options.multi_token_count = whole(value) as usize,
            "block-on-subnets" => options.block_on_subnets = yes(value)?,
            "charset-default" => options.charset_default = shown(&text(value)).into_owned(),
            "replace-nonascii-characters" => options.replace_non_ascii = yes(value)?,
            "unicode" => {
                let is_unicode = yes(value)?;
                options.word_encoding =
                    if is_unicode { WordEncoding::Utf8 } else { WordEncoding::Raw };
            }
            _ => {}
        }
        Ok(())
    }

    fn config(&mut self, path: &[u8]) -> Result<(), Stop> {
        // A file that cannot be read is skipped, as by bogofilter.
        let _ = config::read(&expanded(path), &KNOWN, &mut |(_, setting)| {
            setting.map_or(Ok(()), |(key, value)| self.apply(key, value))
        })?;
        Ok(())
    }

    fn run(&self) -> Result<u8, Stop> {
        let source = Source::open(self.input.as_deref().map(path_of))?;
        let out: Box<dyn Write> = match &self.output {
            None => Box::new(std::io::stdout().lock()),
            Some(path) => {
                let unwritten = |_| Stop::error(format!("Can't write file '{}'", shown(path)));
                Box::new(OsVfs.open_output(path_of(path), 0o666).map_err(unwritten)?)
            }
        };
        let failed = |error: std::io::Error| Stop::error(reason(&error));
        let mut out = BufWriter::with_capacity(BUFFER_LEN, out);
        let mut tokenizer = Tokenizer::new(self.options.clone());
        let (mut count, mut written) = (0_u64, Ok(()));
        each_of(&source, &mut |message, _| {
            tokenizer.tokens(message, &mut |token| {
                count += 1;
                if self.prints && written.is_ok() {
                    written = out.write_all(token).and_then(|()| out.write_all(b"\n"));
                }
            });
            std::mem::replace(&mut written, Ok(())).map_err(failed)
        })?;
        if !self.prints {
            write!(out, "quiet mode.\n{count} tokens read.\n").map_err(failed)?;
        }
        out.flush().map(|()| 0).map_err(failed)
    }
}
