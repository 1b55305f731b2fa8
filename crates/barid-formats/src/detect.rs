//! Detection of the format of a path, and the registry of formats.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_vfs::{FileType, OpenOptions, Vfs};

use crate::maildir::Maildir;
use crate::mbox::{MboxMailbox, MboxOptions, Variant};
use crate::mbx::{MbxMailbox, is_mbx};
use crate::mh::{MARKS, MhFolder};
use crate::mix::{self, MixMailbox};
use crate::{Error, Format, Mailbox, Result};

/// A mailbox as people name it: a path, with or without its format before it (`mbox:PATH`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailboxSpec {
    /// The format that was named.
    pub format: Option<FormatName>,
    /// The path.
    pub path: PathBuf,
}

/// A format as people name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FormatName {
    /// `maildir:`
    Maildir,
    /// `mbox:`, whatever its quoting, as if its format had been detected.
    Mbox,
    /// `mboxo:`, `mboxrd:`, `mboxcl:`, `mboxcl2:`
    MboxVariant(Variant),
    /// `mmdf:`
    Mmdf,
    /// `mbx:`
    Mbx,
    /// `mix:`
    Mix,
    /// `mh:`
    Mh,
}

impl FormatName {
    /// Returns the names of formats, as written before the colon.
    pub fn names() -> impl Iterator<Item = &'static str> {
        REGISTRY.iter().map(|entry| entry.name)
    }

    /// Returns the format; where the name leaves it open, that of a new mbox.
    pub const fn format(self) -> Format {
        match self {
            Self::Maildir => Format::Maildir,
            Self::Mmdf => Format::Mmdf,
            Self::Mbx => Format::Mbx,
            Self::Mix => Format::Mix,
            Self::Mh => Format::Mh,
            Self::Mbox => Format::Mboxo,
            Self::MboxVariant(variant) => variant.format(),
        }
    }
}

/// Opens the mailbox at a path; the options are for an mbox.
type Open = fn(Arc<dyn Vfs>, &Path, MboxOptions) -> Result<Box<dyn Mailbox>>;

/// Name, detection and opening of a format.
struct Entry {
    name: &'static str,
    format: FormatName,
    /// Returns `true` if the probe matches the format; `None` if only a name can select the format.
    probe: Option<fn(&Probe) -> bool>,
    open: Open,
}

/// Every format, in the order in which they are tried.
static REGISTRY: [Entry; 10] = [
    Entry {
        name: "maildir",
        format: FormatName::Maildir,
        probe: Some(|probe| probe.has_new_and_cur),
        open: |vfs, path, _| Ok(Box::new(Maildir::new(vfs, path.to_owned()))),
    },
    Entry {
        name: "mh",
        format: FormatName::Mh,
        probe: Some(|probe| probe.has_mh_mark),
        open: |vfs, path, _| Ok(Box::new(MhFolder::new(vfs, path.to_owned()))),
    },
    Entry {
        name: "mix",
        format: FormatName::Mix,
        probe: Some(|probe| probe.has_mix_meta),
        open: |vfs, path, _| Ok(Box::new(MixMailbox::new(vfs, path.to_owned()))),
    },
    Entry {
        name: "mmdf",
        format: FormatName::Mmdf,
        probe: Some(|probe| is_mmdf(probe.head())),
        open: |vfs, path, options| open_mbox(vfs, path, Some(Variant::Mmdf), options),
    },
    Entry {
        name: "mbx",
        format: FormatName::Mbx,
        probe: Some(|probe| is_mbx(probe.head())),
        open: |vfs, path, options| Ok(Box::new(MbxMailbox::new(vfs, path.to_owned(), options))),
    },
    Entry {
        name: "mbox",
        format: FormatName::Mbox,
        probe: Some(|probe| probe.head.as_deref().is_some_and(is_mbox)),
        open: |vfs, path, options| open_mbox(vfs, path, None, options),
    },
    variant("mboxo", Variant::Mboxo, |vfs, path, options| {
        open_mbox(vfs, path, Some(Variant::Mboxo), options)
    }),
    variant("mboxrd", Variant::Mboxrd, |vfs, path, options| {
        open_mbox(vfs, path, Some(Variant::Mboxrd), options)
    }),
    variant("mboxcl", Variant::Mboxcl, |vfs, path, options| {
        open_mbox(vfs, path, Some(Variant::Mboxcl), options)
    }),
    variant("mboxcl2", Variant::Mboxcl2, |vfs, path, options| {
        open_mbox(vfs, path, Some(Variant::Mboxcl2), options)
    }),
];

const fn variant(name: &'static str, variant: Variant, open: Open) -> Entry {
    Entry { name, format: FormatName::MboxVariant(variant), probe: None, open }
}

fn open_mbox(
    vfs: Arc<dyn Vfs>,
    path: &Path,
    variant: Option<Variant>,
    options: MboxOptions,
) -> Result<Box<dyn Mailbox>> {
    Ok(Box::new(MboxMailbox::open_with(vfs, path, variant, options)?))
}

/// Bytes of a file that are read to detect its format.
const HEAD_LEN: usize = 8 << 10;

/// Results of looking at a path.
#[derive(Debug)]
struct Probe {
    has_new_and_cur: bool,
    /// `true` if it has the file that makes a directory a mix mailbox.
    has_mix_meta: bool,
    /// `true` if it has a file that only MH folders have.
    has_mh_mark: bool,
    /// The first bytes, if it is a file.
    head: Option<Vec<u8>>,
}

impl Probe {
    fn head(&self) -> &[u8] {
        self.head.as_deref().unwrap_or_default()
    }
}

impl MailboxSpec {
    /// Parses `PATH` or `FORMAT:PATH`. The text before the first colon is a format only if it is
    /// the name of one.
    pub fn parse(text: &str) -> Self {
        if let Some((name, path)) = text.split_once(':')
            && let Some(entry) = REGISTRY.iter().find(|entry| entry.name == name)
        {
            return Self { format: Some(entry.format), path: path.into() };
        }
        Self { format: None, path: text.into() }
    }
}

/// Opens the mailbox of `spec`, whose format is detected if it is not named.
///
/// Costs a few `stat` calls, and for a file one read of its first bytes.
///
/// # Errors
/// [`Error::NotAMailbox`] names what is there instead; [`Error::Io`] if the path is missing or
/// cannot be read.
pub fn open(vfs: Arc<dyn Vfs>, spec: &MailboxSpec) -> Result<Box<dyn Mailbox>> {
    open_with(vfs, spec, MboxOptions::default())
}

/// Opens the mailbox as [`open`] does, with options for an mbox.
///
/// # Errors
/// As [`open`].
pub fn open_with(
    vfs: Arc<dyn Vfs>,
    spec: &MailboxSpec,
    options: MboxOptions,
) -> Result<Box<dyn Mailbox>> {
    let probe = probe(vfs.as_ref(), &spec.path)?;
    let entry = match spec.format {
        Some(format) => {
            let named = |entry: &&Entry| entry.format == format;
            let entry = REGISTRY.iter().find(named);
            let entry = entry.expect("because every format name is registered");
            let reason = mismatch(&probe, format);
            match reason {
                Some(reason) => return Err(not_a_mailbox(&spec.path, reason)),
                None => entry,
            }
        }
        None => find(&probe).ok_or_else(|| not_a_mailbox(&spec.path, what_else(&probe)))?,
    };
    (entry.open)(vfs, &spec.path, options)
}

/// Returns the format at `path`, if it is a mailbox.
///
/// # Errors
/// [`Error::Io`] if the path is missing or cannot be read.
pub fn detect(vfs: &dyn Vfs, path: &Path) -> Result<Option<Format>> {
    let probe = probe(vfs, path)?;
    Ok(find(&probe).map(|entry| entry.format.format()))
}

fn find(probe: &Probe) -> Option<&'static Entry> {
    REGISTRY.iter().find(|entry| entry.probe.is_some_and(|is| is(probe)))
}

fn not_a_mailbox(path: &Path, reason: &'static str) -> Error {
    Error::NotAMailbox { path: path.to_owned(), reason }
}

/// Looks at a path.
fn probe(vfs: &dyn Vfs, path: &Path) -> Result<Probe> {
    let metadata = vfs.metadata(path).map_err(Error::at(path))?;
    match metadata.file_type {
        FileType::Dir => {
            let has_new_and_cur =
                is_dir(vfs, &path.join("new"))? && is_dir(vfs, &path.join("cur"))?;
            let has_mix_meta = !has_new_and_cur && vfs.metadata(&path.join(mix::META)).is_ok();
            let has_mh_mark = !has_new_and_cur && has_mh_mark(vfs, path);
            Ok(Probe { has_new_and_cur, has_mix_meta, has_mh_mark, head: None })
        }
        FileType::File => {
            let read = || {
                let file = vfs.open(path, OpenOptions::READ)?;
                let mut head = vec![0; HEAD_LEN];
                let len = file.read_at(&mut head, 0)?;
                head.truncate(len);
                Ok(head)
            };
            let head = Some(read().map_err(Error::at(path))?);
            Ok(Probe { has_new_and_cur: false, has_mix_meta: false, has_mh_mark: false, head })
        }
        _ => Err(not_a_mailbox(path, "it is neither a file nor a directory")),
    }
}

/// Returns `true` if the directory has a mark of an MH folder, by the same test as NeoMutt's.
fn has_mh_mark(vfs: &dyn Vfs, path: &Path) -> bool {
    MARKS.iter().any(|mark| vfs.symlink_metadata(&path.join(mark)).is_ok())
}

fn is_dir(vfs: &dyn Vfs, path: &Path) -> Result<bool> {
    match vfs.metadata(path) {
        Ok(metadata) => Ok(metadata.file_type == FileType::Dir),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(false)
        }
        Err(source) => Err(Error::at(path)(source)),
    }
}

/// Returns the bytes behind the NULs that a crash may leave instead of the first message: if there
/// are no bytes, the mailbox is empty.
fn without_nuls(head: &[u8]) -> &[u8] {
    let nuls = head.iter().take_while(|byte| **byte == 0).count();
    &head[nuls..]
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

/// Returns the file name extension of the compression with whose magic number a file begins, if it
/// is one in which mailboxes can be read.
pub fn compression_of(head: &[u8]) -> Option<&'static str> {
    const MAGIC: [(&[u8], &str); 4] =
        [(b"\x1f\x8b", "gz"), (b"\x28\xb5\x2f\xfd", "zst"), (b"BZh", "bz2"), (b"\xfd7zXZ\0", "xz")];
    MAGIC.iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, extension)| *extension)
}

/// Returns `true` for a From_ line by the same test as c-client's: leading white space may only be
/// whole lines.
fn starts_with_from_line(head: &[u8]) -> bool {
    let is_space = |byte: &&u8| matches!(**byte, b' ' | b'\t' | b'\r' | b'\n' | 0);
    let spaces = head.iter().take_while(is_space).count();
    let line_start = spaces == 0 || matches!(head[spaces - 1], b'\n' | 0);
    line_start && head[spaces..].starts_with(b"From ")
}

/// Returns the reason why the probe cannot be of the format that was named.
fn mismatch(probe: &Probe, format: FormatName) -> Option<&'static str> {
    match (format, &probe.head) {
        (FormatName::Maildir, Some(_)) => Some("a file is no Maildir"),
        (FormatName::Mix, Some(_)) => Some("a file is no mix mailbox"),
        (FormatName::Mix, None) if probe.has_mix_meta => None,
        (FormatName::Mix, None) => Some("the directory has no .mixmeta"),
        (FormatName::Maildir, None) if !probe.has_new_and_cur => Some(what_else(probe)),
        (FormatName::Maildir, None) | (FormatName::Mh, None) => None,
        (FormatName::Mh, Some(_)) => Some("a file is no MH folder"),
        (_, None) => Some("a directory is no mbox"),
        (FormatName::Mbx, Some(head)) if is_mbx(head) => None,
        (FormatName::Mbx, Some(_)) => Some("it does not begin as an mbx does"),
        // Forced: an odd beginning is left to the reader, except for a file that is not text at
        // all.
        (_, Some(head)) if is_mbox(head) || is_mmdf(head) => None,
        (_, Some(head)) if memchr::memchr(0, without_nuls(head)).is_some() => {
            Some("it is a binary file")
        }
        (_, Some(_)) => None,
    }
}

/// Describes a path that no format matches.
fn what_else(probe: &Probe) -> &'static str {
    match &probe.head {
        None => "the directory has no cur/ and new/; `barid folders` lists mailboxes below it",
        Some(head) if memchr::memchr(0, head).is_some() => "it is a binary file",
        Some(_) => "it does not begin with a From_ line",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barid_vfs::MemVfs;

    fn vfs_with(files: &[(&str, &[u8])]) -> Arc<dyn Vfs> {
        let vfs = MemVfs::new();
        for (path, content) in files {
            let path = Path::new(path);
            vfs.create_dir_all(path.parent().unwrap(), 0o700).unwrap();
            let file = vfs.open(path, OpenOptions::create_new(0o600)).unwrap();
            file.write_all_at(content, 0).unwrap();
        }
        Arc::new(vfs)
    }

    fn mbx() -> Vec<u8> {
        let mut header = b"*mbx*\r\n544aadf600000000\r\n".to_vec();
        header.resize(2048, 0);
        header
    }

    fn check(spec: &str, expected: std::result::Result<Format, &str>) {
        let vfs = vfs_with(&[
            ("/maildir/new/x", b""),
            ("/maildir/cur/x", b""),
            ("/dir/new/x", b""),
            ("/mix/.mixmeta", b""),
            ("/mh/.mh_sequences", b""),
            ("/sylpheed/.sylpheed_cache", b""),
            ("/mbox", b"From a@b Thu Jan  1 00:00:00 1970\nSubject: x\n\n"),
            ("/blank", b"\n\nFrom a@b Thu Jan  1 00:00:00 1970\n\n"),
            ("/indented", b"  From a@b Thu Jan  1 00:00:00 1970\n\n"),
            ("/empty", b""),
            ("/zeros", &[0; 600]),
            ("/many-zeros", &[0; HEAD_LEN]),
            ("/zeros-first", b"\0\0\0From a@b Thu Jan  1 00:00:00 1970\n\n"),
            ("/mmdf-zeros", b"\0\0\x01\x01\x01\x01\nSubject: x\n\n\0"),
            ("/mmdf", b"\x01\x01\x01\x01\nSubject: x\n\n\x01\x01\x01\x01\n"),
            ("/mbx", &mbx()),
            ("/cut-mbx", &mbx()[..2047]),
            ("/gz", b"\x1f\x8b\x08\x00"),
            ("/binary", b"\x7fELF\x00\x01"),
            ("/text", b"Dear Sir,\n"),
        ]);
        let found = open(vfs, &MailboxSpec::parse(spec)).map(|mailbox| mailbox.format());
        match (found, expected) {
            (Ok(format), Ok(expected)) => assert_eq!(format, expected, "{spec}"),
            (Err(error), Err(expected)) => {
                assert!(error.to_string().contains(expected), "{spec}: {error}");
            }
            (found, _) => panic!("{spec}: {found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn formats_are_told() {
        check("/maildir", Ok(Format::Maildir));
        check("/maildir/", Ok(Format::Maildir));
        check("/mh", Ok(Format::Mh));
        check("/sylpheed", Ok(Format::Mh));
        check("/mbox", Ok(Format::Mboxo));
        check("/blank", Ok(Format::Mboxo));
        check("/empty", Ok(Format::Mboxo));
        check("/mmdf", Ok(Format::Mmdf));
        check("/mbx", Ok(Format::Mbx));
        check("/cut-mbx", Err("binary file"));
        check("/indented", Err("does not begin with a From_ line"));
        check("/binary", Err("binary file"));
        check("/zeros", Ok(Format::Mboxo));
        check("/zeros-first", Ok(Format::Mboxo));
        check("/mmdf-zeros", Ok(Format::Mmdf));
        check("/many-zeros", Err(""));
        check("/text", Err("does not begin with a From_ line"));
        check("/dir", Err("`barid folders` lists"));
        check("/missing", Err("/missing"));
        check("/mix", Ok(Format::Mix));
    }

    #[test]
    fn formats_are_forced() {
        check("mix:/mix", Ok(Format::Mix));
        check("mix:/dir", Err("no .mixmeta"));
        check("mix:/mbox", Err("a file is no mix"));
        check("maildir:/maildir", Ok(Format::Maildir));
        check("mbox:/mbox", Ok(Format::Mboxo));
        check("mboxo:/mbox", Ok(Format::Mboxo));
        check("mboxrd:/mbox", Ok(Format::Mboxrd));
        check("mboxcl:/mbox", Ok(Format::Mboxcl));
        check("mboxcl2:/mbox", Ok(Format::Mboxcl2));
        check("mmdf:/mmdf", Ok(Format::Mmdf));
        check("mbx:/mbx", Ok(Format::Mbx));
        check("mbx:/mbox", Err("does not begin as an mbx"));
        check("mbx:/cut-mbx", Err("does not begin as an mbx"));
        check("mh:/dir", Ok(Format::Mh));
        check("mh:/mbox", Err("a file is no MH folder"));
        check("maildir:/mbox", Err("a file is no Maildir"));
        check("maildir:/dir", Err("no cur/ and new/"));
        check("mbox:/maildir", Err("a directory is no mbox"));
        check("mbox:/binary", Err("binary file"));
        check("mbox:/missing", Err("/missing"));
    }

    #[test]
    fn a_colon_is_not_always_a_format() {
        let parse = |text| MailboxSpec::parse(text);
        assert_eq!(parse("a:b").path, Path::new("a:b"));
        assert_eq!(parse("mbox:a:b").path, Path::new("a:b"));
        assert_eq!(parse("./mbox:a").format, None);
    }
}
