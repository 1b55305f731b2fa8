//! Messages as lines: the fields of a summary decoded and laid out.

pub(crate) mod address;
pub(crate) mod flags;
pub(crate) mod json;
pub(crate) mod line;
pub(crate) mod numbering;
pub(crate) mod uids;

use barid::Format;

/// The name of a format, as `FORMAT:PATH` takes it.
pub(crate) fn format_name(format: Format) -> &'static str {
    match format {
        Format::Maildir => "maildir",
        Format::Mboxo => "mboxo",
        Format::Mboxrd => "mboxrd",
        Format::Mboxcl => "mboxcl",
        Format::Mboxcl2 => "mboxcl2",
        Format::Mmdf => "mmdf",
        Format::Mbx => "mbx",
        Format::Mh => "mh",
        Format::Mix => "mix",
        _ => "unknown",
    }
}
