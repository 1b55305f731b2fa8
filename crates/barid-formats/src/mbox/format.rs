//! The variants of mbox, and MMDF, as registered formats.

use std::path::Path;
use std::sync::Arc;

use barid_mailbox::{Format, FormatProperties, MessageLayout, Result};
use barid_vfs::Vfs;

use super::{MboxMailbox, MboxOptions, Variant};
use crate::check::Doctor;
use crate::new_files::make_file;
use crate::probe::{BINARY_FILE, HEAD_LEN, Mismatch, Probe, compression_of, without_nuls};
use crate::registered::RegisteredFormat;

const MBOX: FormatProperties = FormatProperties {
    has_status_fields: true,
    has_senders: true,
    stored_form: 1,
    ..FormatProperties::new("mboxrd", MessageLayout::OneFile)
};
static MBOXO: FormatProperties = FormatProperties { name: "mboxo", keeps_quotes: true, ..MBOX };
static MBOXRD: FormatProperties = MBOX;
static MBOXCL: FormatProperties = FormatProperties { name: "mboxcl", keeps_quotes: true, ..MBOX };
static MBOXCL2: FormatProperties = FormatProperties { name: "mboxcl2", ..MBOX };
static MMDF: FormatProperties =
    FormatProperties { name: "mmdf", has_senders: false, stored_form: 2, ..MBOX };

/// The format of a mailbox that is a file and names no format.
pub(crate) const DEFAULT_FORMAT: Format = Variant::Mboxo.format();

impl Variant {
    /// Returns the mailbox format that the variant belongs to.
    pub const fn format(self) -> Format {
        Format::new(match self {
            Self::Mboxo => &MBOXO,
            Self::Mboxrd => &MBOXRD,
            Self::Mboxcl => &MBOXCL,
            Self::Mboxcl2 => &MBOXCL2,
            Self::Mmdf => &MMDF,
        })
    }
}

pub(crate) static FORMATS: [RegisteredFormat; 6] = [
    RegisteredFormat {
        probe: Some(|probe| Ok(probe.has_head(is_mmdf))),
        ..variant(Variant::Mmdf, |vfs, path, options| open(vfs, path, Some(Variant::Mmdf), options))
    },
    // The quoting does not matter, as if the format had been detected.
    RegisteredFormat {
        name: "mbox",
        probe: Some(|probe| Ok(probe.has_head(is_mbox))),
        ..variant(Variant::Mboxo, |vfs, path, options| open(vfs, path, None, options))
    },
    variant(Variant::Mboxo, |vfs, path, options| open(vfs, path, Some(Variant::Mboxo), options)),
    variant(Variant::Mboxrd, |vfs, path, options| open(vfs, path, Some(Variant::Mboxrd), options)),
    variant(Variant::Mboxcl, |vfs, path, options| open(vfs, path, Some(Variant::Mboxcl), options)),
    variant(Variant::Mboxcl2, |vfs, path, options| {
        open(vfs, path, Some(Variant::Mboxcl2), options)
    }),
];

type OpenVariant = fn(Arc<dyn Vfs>, &Path, MboxOptions) -> Result<Box<dyn Doctor>>;

/// Makes a format that only its name selects.
const fn variant(variant: Variant, open: OpenVariant) -> RegisteredFormat {
    RegisteredFormat {
        name: variant.format().name(),
        format: variant.format(),
        probe: None,
        opening_probe: None,
        mismatch: |probe| Ok(mismatch(probe).map(Mismatch::Other)),
        open,
        create: |vfs, path, options| make_file(vfs.as_ref(), path, options.mode, b""),
    }
}

fn open(
    vfs: Arc<dyn Vfs>,
    path: &Path,
    variant: Option<Variant>,
    options: MboxOptions,
) -> Result<Box<dyn Doctor>> {
    Ok(Box::new(MboxMailbox::open_with(vfs, path, variant, options)?))
}

/// Returns the reason why a path cannot be an mbox. An unusual beginning is left to the reader,
/// except for a file that is not text at all.
fn mismatch(probe: &Probe<'_>) -> Option<&'static str> {
    match probe.head() {
        None => Some("it is a directory, but an mbox is a file"),
        Some(head) if is_mbox(head) || is_mmdf(head) => None,
        Some(head) => memchr::memchr(0, without_nuls(head)).map(|_| BINARY_FILE),
    }
}

/// Returns `true` if a file begins as an MMDF does; NULs before it are skipped.
fn is_mmdf(head: &[u8]) -> bool {
    without_nuls(head).starts_with(b"\x01\x01\x01\x01\n")
}

/// Returns `true` if a file begins as an mbox does: it is empty, or it begins with a From_ line
/// (blank lines and NULs before it are skipped) or with the magic number of a compression, whose
/// content is examined later.
fn is_mbox(head: &[u8]) -> bool {
    let is_empty = head.len() < HEAD_LEN && without_nuls(head).is_empty();
    is_empty || compression_of(head).is_some() || starts_with_from_line(head)
}

/// Returns `true` for a From_ line by the same test as c-client's: leading white space may only be
/// whole lines.
fn starts_with_from_line(head: &[u8]) -> bool {
    let is_space = |byte: &&u8| matches!(**byte, b' ' | b'\t' | b'\r' | b'\n' | 0);
    let spaces = head.iter().take_while(is_space).count();
    let line_start = spaces == 0 || matches!(head[spaces - 1], b'\n' | 0);
    line_start && head[spaces..].starts_with(b"From ")
}
