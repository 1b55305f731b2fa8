//! The few colours; they never carry information alone.

use clap::ValueEnum;

/// The use of colour.
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

impl ColorChoice {
    /// Returns the name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Never => "never",
        }
    }
}

/// Escape sequences, empty if colour is off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// For emphasis: unread mail, headings.
    pub(crate) bold: &'static str,
    /// For secondary text: dates, numbers, branches of trees.
    pub(crate) dim: &'static str,
    /// For urgent text: errors, flagged mail.
    pub(crate) red: &'static str,
    /// For less urgent text: warnings.
    pub(crate) yellow: &'static str,
    /// For names of header fields and hints.
    pub(crate) cyan: &'static str,
    /// Returns to normal text.
    pub(crate) reset: &'static str,
}

impl Style {
    /// No colour.
    pub(crate) const PLAIN: Self =
        Self { bold: "", dim: "", red: "", yellow: "", cyan: "", reset: "" };
    /// ANSI colours.
    const ANSI: Self = Self {
        bold: "\x1b[1m",
        dim: "\x1b[2m",
        red: "\x1b[1;31m",
        yellow: "\x1b[33m",
        cyan: "\x1b[36m",
        reset: "\x1b[0m",
    };

    /// Returns the style for a stream; `terminal` says if it is a terminal.
    pub(crate) fn new(choice: ColorChoice, terminal: bool, no_color: bool) -> Self {
        let colored = match choice {
            ColorChoice::Auto => terminal && !no_color,
            ColorChoice::Always => true,
            ColorChoice::Never => false,
        };
        if colored { Self::ANSI } else { Self::PLAIN }
    }
}
