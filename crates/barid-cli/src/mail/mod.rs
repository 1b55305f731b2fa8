//! Messages as lines: decodes and lays out the fields of a summary.

pub(crate) mod address;
pub(crate) mod flags;
pub(crate) mod json;
pub(crate) mod line;
pub(crate) mod numbering;
pub(crate) mod uids;

use barid::Format;

/// Returns the name of a format, as in `FORMAT:PATH`.
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
