//! `bogolexer`.

use barid::bayes::{AddressPrefix, Options, Tokenizer, WordEncoding};
use barid::spam::dropin::{Messages, Separation};
use barid::vfs::{OpenOptions, OsVfs, Vfs as _};

use super::config::{self, text, yes};
use super::getopt::{Item, Known, Long};
use super::input::{Stream, stdin};
use super::options::whole;
use super::places::{expanded, reason};
use super::{Stop, help, path_of, shown, tell, tell_out};
use crate::limits::{BOGO_BUFFER_LEN, MESSAGE_LEN_MAX};

/// The options that bogolexer knows.
const KNOWN: Known = Known {
    letters: ":c:CDhHI:nO:pqvVx:X:m",
    longs: &[
        Long::named("config-file"),
        Long::flag("no-config-file", "C"),
        Long::flag("help", "h"),
        Long::value("input-file", "I"),
        Long::value("output-file", "O"),
        Long::named("min-token-len"),
        Long::named("max-token-len"),
        Long::named("max-multi-token-len"),
        Long::named("multi-token-count"),
        Long::named("unicode"),
        Long::flag("version", "V"),
        Long::flag("verbosity", "v"),
        Long::named("block-on-subnets"),
        Long::named("charset-default"),
        Long::named("user-config-file"),
        Long::named("replace-nonascii-characters"),
    ],
};

/// All that is asked for.
struct Asked {
    // Without a word list there is no version that asks for a prefix of its own.
    options: Options,
    prints: bool,
    counts: bool,
    without_config: bool,
    input: Option<Vec<u8>>,
    output: Option<Vec<u8>>,
}

/// Runs it; its exit code.
pub(super) fn run(args: &[Vec<u8>]) -> Result<u8, Stop> {
    let options = Options { address_prefix: AddressPrefix::Url, ..Options::default() };
    let mut asked = Asked {
        options,
        prints: false,
        counts: false,
        without_config: false,
        input: None,
        output: None,
    };
    let parsed = KNOWN.parse(args);
    for item in &parsed.items {
        match item {
            Item::Option { key, value } => {
                asked.apply(key, value.as_deref().unwrap_or_default())?
            }
            Item::Unknown(arg) => tell(format!("Unknown option '{}'.\n", shown(arg)).as_bytes()),
            Item::NoValue(arg) => {
                let said = format!("Option {} requires an argument.", shown(arg));
                return Err(Stop::error(said));
            }
        }
    }
    if let Some(name) = parsed.others.first() {
        let said = format!("Extra arguments given, first: {}. Aborting.", shown(name));
        return Err(Stop::error(said));
    }
    if !asked.without_config {
        asked.config(b"/etc/bogofilter.cf")?;
        asked.config(b"~/.bogofilter.cf")?;
    }
    if !asked.prints && !asked.counts {
        return Err(Stop::error("bogolexer: words are printed with -p, and counted with -q"));
    }
    asked.run()
}

impl Asked {
    fn apply(&mut self, key: &str, value: &[u8]) -> Result<(), Stop> {
        let options = &mut self.options;
        match key {
            "c" | "config-file" => {
                self.without_config = true;
                self.config(value)?;
            }
            "C" => self.without_config = true,
            "h" => return Err(Stop { code: 0, said: help::LEXER.to_owned() }),
            "V" => return Err(Stop { code: 0, said: help::version("bogolexer") }),
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
        config::read(&expanded(path), &mut |(_, setting)| {
            let known = setting.and_then(|(name, value)| Some((KNOWN.of_config(name)?, value)));
            match known {
                Some((long, value)) => self.apply(long.key, value),
                None => Ok(()),
            }
        })?;
        Ok(())
    }

    fn run(&self) -> Result<u8, Stop> {
        let mut tokenizer = Tokenizer::new(self.options.clone());
        let (mut count, mut out) = (0_u64, Vec::new());
        let mut take = |message: &[u8], out: &mut Vec<u8>| {
            tokenizer.tokens(message, &mut |token| {
                count += 1;
                if self.prints {
                    out.extend_from_slice(token);
                    out.push(b'\n');
                }
            });
        };
        let mut message = Vec::new();
        match &self.input {
            None => {
                let none = Separation::None;
                let mut messages = Messages::new(stdin(), true, none, MESSAGE_LEN_MAX)?;
                while messages.next(&mut message)? {
                    take(&message, &mut out);
                }
            }
            Some(path) => {
                let file = OsVfs.open(path_of(path), OpenOptions::READ);
                let file =
                    file.map_err(|_| Stop::error(format!("Can't read '{}'", shown(path))))?;
                let stream = Stream { file, at: 0 };
                let stream = std::io::BufReader::with_capacity(BOGO_BUFFER_LEN, stream);
                let none = Separation::None;
                let mut messages = Messages::new(stream, true, none, MESSAGE_LEN_MAX)?;
                while messages.next(&mut message)? {
                    take(&message, &mut out);
                }
            }
        }
        if !self.prints {
            out = format!("quiet mode.\n{count} tokens read.\n").into_bytes();
        }
        self.write(&out)
    }

    fn write(&self, bytes: &[u8]) -> Result<u8, Stop> {
        let Some(path) = &self.output else {
            return tell_out(bytes).map(|()| 0).map_err(|error| Stop::error(reason(&error)));
        };
        let how = OpenOptions { truncate: true, ..OpenOptions::create(0o666) };
        let file = OsVfs.open(path_of(path), how);
        let written = file.and_then(|file| file.write_all_at(bytes, 0));
        match written {
            Ok(()) => Ok(0),
            Err(_) => Err(Stop::error(format!("Can't write file '{}'", shown(path)))),
        }
    }
}
