//! The few colours: nothing is told by colour alone.

use clap::ValueEnum;

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set or TERM is `dumb`
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Escape sequences, empty where colour is off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// What stands out: unread mail, headings.
    pub(crate) bold: &'static str,
    /// What stands back: dates, numbers, branches of trees.
    pub(crate) dim: &'static str,
    /// What asks for attention: errors, flagged mail.
    pub(crate) red: &'static str,
    /// What asks for a little of it: warnings.
    pub(crate) yellow: &'static str,
    /// Names of header fields, hints.
    pub(crate) cyan: &'static str,
    /// Back to normal.
    pub(crate) reset: &'static str,
}

impl Style {
    /// No colour.
    pub(crate) const PLAIN: Self =
        Self { bold: "", dim: "", red: "", yellow: "", cyan: "", reset: "" };
    /// The ANSI ones.
    const ANSI: Self = Self {
        bold: "\x1b[1m",
        dim: "\x1b[2m",
        red: "\x1b[1;31m",
        yellow: "\x1b[33m",
        cyan: "\x1b[36m",
        reset: "\x1b[0m",
    };

    /// The style for a stream, which is a terminal or not.
    pub(crate) fn new(choice: ColorChoice, terminal: bool, no_color: bool) -> Self {
        let colored = match choice {
            ColorChoice::Auto => terminal && !no_color,
            ColorChoice::Always => true,
            ColorChoice::Never => false,
        };
        if colored { Self::ANSI } else { Self::PLAIN }
    }
}
