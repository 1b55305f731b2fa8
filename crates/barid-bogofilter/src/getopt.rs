//! Parses arguments like the C library's `getopt_long`, as bogofilter does: short options combined
//! in one word, values with or without a space, abbreviated long names, and options after other
//! arguments.

use crate::output::{Stop, print_error, shown};

/// A long option.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Long {
    pub(crate) name: &'static str,
    pub(crate) takes_value: bool,
    /// The key of the option: a short option's letter, or its name.
    pub(crate) key: &'static str,
}

impl Long {
    pub(crate) const fn flag(name: &'static str, key: &'static str) -> Self {
        Self { name, takes_value: false, key }
    }

    pub(crate) const fn value(name: &'static str, key: &'static str) -> Self {
        Self { name, takes_value: true, key }
    }

    /// Creates an option without a letter.
    pub(crate) const fn named(name: &'static str) -> Self {
        Self { name, takes_value: true, key: name }
    }
}

/// The options of a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// Letters of the short options; a colon follows those that take a value.
    pub(crate) letters: &'static str,
    /// Long options, besides those of all programs.
    pub(crate) longs: &'static [Long],
}

/// The long options of all three programs.
const COMMON: &[Long] = &[
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
];

/// A parsed option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Option {
        key: &'static str,
        value: Option<Vec<u8>>,
    },
    Unknown(Vec<u8>),
    /// An option without its required value.
    NoValue(Vec<u8>),
}

/// The parsed arguments, split into options and others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parsed {
    pub(crate) items: Vec<Item>,
    /// Arguments that are not options.
    pub(crate) others: Vec<Vec<u8>>,
}

/// A callback for an option, and its value if it has one.
pub(crate) type Apply<'a> = dyn FnMut(&str, Option<&[u8]>) -> Result<(), Stop> + 'a;

impl Parsed {
    /// Passes every option to `apply`; reports unknown options on standard error.
    ///
    /// # Errors
    ///
    /// Returns an error for an option without its required value, and the errors of `apply`.
    pub(crate) fn each(&self, apply: &mut Apply<'_>) -> Result<(), Stop> {
        for item in &self.items {
            match item {
                Item::Option { key, value } => apply(key, value.as_deref())?,
                Item::Unknown(arg) => {
                    print_error(format!("Unknown option '{}'.\n", shown(arg)).as_bytes());
                }
                Item::NoValue(arg) => {
                    let text = format!("Option {} requires an argument.", shown(arg));
                    return Err(Stop::error(text));
                }
            }
        }
        Ok(())
    }
}

impl Known {
    fn longs(&self) -> impl Iterator<Item = &'static Long> {
        COMMON.iter().chain(self.longs)
    }

    pub(crate) fn parse(&self, args: &[Vec<u8>]) -> Parsed {
        let mut parsed = Parsed::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match &arg[..] {
                b"--" => parsed.others.extend(args.by_ref().cloned()),
                [b'-', b'-', long @ ..] => parsed.items.push(self.long(arg, long, &mut args)),
                [b'-', _, ..] => self.letters(arg, &mut args, &mut parsed.items),
                _ => parsed.others.push(arg.clone()),
            }
        }
        parsed
    }

    fn long<'a>(
        &self,
        arg: &[u8],
        long: &[u8],
        args: &mut impl Iterator<Item = &'a Vec<u8>>,
    ) -> Item {
        let end = long.iter().position(|byte| *byte == b'=');
        let (name, value) = match end {
            Some(end) => (&long[..end], Some(long[end + 1..].to_vec())),
            None => (long, None),
        };
        let Some(found) = self.find(name) else { return Item::Unknown(arg.to_vec()) };
        match (found.takes_value, value) {
            (false, Some(_)) => Item::Unknown(arg.to_vec()),
            (true, None) => match args.next() {
                Some(value) => Item::Option { key: found.key, value: Some(value.clone()) },
                None => Item::NoValue(arg.to_vec()),
            },
            (_, value) => Item::Option { key: found.key, value },
        }
    }

    /// Returns the option with a name, or with an unambiguous prefix of it.
    fn find(&self, name: &[u8]) -> Option<&'static Long> {
        if let Some(exact) = self.longs().find(|long| long.name.as_bytes() == name) {
            return Some(exact);
        }
        let mut begin = self.longs().filter(|long| long.name.as_bytes().starts_with(name));
        let first = begin.next()?;
        begin
            .all(|other| (other.key, other.takes_value) == (first.key, first.takes_value))
            .then_some(first)
    }

    fn letters<'a>(
        &self,
        arg: &[u8],
        args: &mut impl Iterator<Item = &'a Vec<u8>>,
        items: &mut Vec<Item>,
    ) {
        for (at, letter) in arg.iter().enumerate().skip(1) {
            let known = self.letters.bytes().position(|known| known == *letter);
            let Some(place) = known.filter(|_| !matches!(letter, b':' | b'-')) else {
                items.push(Item::Unknown(arg.to_vec()));
                continue;
            };
            let key = &self.letters[place..=place];
            if self.letters.as_bytes().get(place + 1) != Some(&b':') {
                items.push(Item::Option { key, value: None });
                continue;
            }
            let value = match &arg[at + 1..] {
                [] => args.next().cloned(),
                rest => Some(rest.to_vec()),
            };
            items.push(match value {
                Some(value) => Item::Option { key, value: Some(value) },
                None => Item::NoValue(arg.to_vec()),
            });
            return;
        }
    }

    /// Returns the key of an option named in a configuration file; case is ignored and `_` matches
    /// `-`.
    pub(crate) fn of_config(&self, name: &[u8]) -> Option<&'static str> {
        let is_same = |(one, other): (&u8, u8)| {
            one.eq_ignore_ascii_case(&other) || (*one, other) == (b'_', b'-')
        };
        let mut longs = self.longs();
        let found = longs.find(|long| {
            long.name.len() == name.len() && name.iter().zip(long.name.bytes()).all(is_same)
        });
        found.map(|long| long.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: Known = Known {
        letters: "bd:pvT",
        longs: &[
            Long::flag("passthrough", "p"),
            Long::value("bogofilter-dir", "d"),
            Long::named("spam-cutoff"),
            Long::named("spam-header-name"),
        ],
    };

    fn check(args: &str, expected: &str) {
        let args: Vec<Vec<u8>> = args.split_whitespace().map(|arg| arg.into()).collect();
        let parsed = KNOWN.parse(&args);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut found: Vec<String> = parsed
            .items
            .iter()
            .map(|item| match item {
                Item::Option { key, value: None } => (*key).to_owned(),
                Item::Option { key, value: Some(value) } => format!("{key}={}", text(value)),
                Item::Unknown(arg) => format!("?{}", text(arg)),
                Item::NoValue(arg) => format!(":{}", text(arg)),
            })
            .collect();
        found.extend(parsed.others.iter().map(|other| format!("+{}", text(other))));
        assert_eq!(found.join(" "), expected, "{args:?}");
    }

    #[test]
    fn arguments_are_read_as_the_c_library_does() {
        check("-pv -TT", "p v T T");
        check("-d x -dy -pdz", "d=x d=y p d=z");
        check("--passthrough --bogofilter-dir=x --bogo y", "p d=x d=y");
        check("--spam=1 --spam-c=1 --passthrough=1", "?--spam=1 spam-cutoff=1 ?--passthrough=1");
        check("a -p b -- -v - c", "p +a +b +-v +- +c");
        check("-z -pz -d", "?-z p ?-pz :-d");
        check("--spam-cutoff", ":--spam-cutoff");
        check(
            "--verb --vers --ver --config-file=x --config x",
            "v V ?--ver config-file=x config-file=x",
        );
    }

    #[test]
    fn names_of_configuration_files() {
        let check = |name: &str, key: Option<&str>| {
            assert_eq!(KNOWN.of_config(name.as_bytes()), key, "{name}");
        };
        check("spam_cutoff", Some("spam-cutoff"));
        check("Spam-Cutoff", Some("spam-cutoff"));
        check("bogofilter_dir", Some("d"));
        check("spam_cut", None);
        check("spam cutoff", None);
    }
}
