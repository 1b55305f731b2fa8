//! Detection of the format of a path, and opening in it.

use std::path::Path;
use std::sync::Arc;

use barid_mailbox::{Error, Format, Result, Storage};
use barid_vfs::Vfs;

use crate::check::Doctor;
use crate::mbox::MboxOptions;
use crate::probe::{BINARY_FILE, Mismatch, NO_MAILDIR, Probe};
use crate::registry::{FormatName, MailboxSpec};

/// Opens the mailbox of `spec`, whose format is detected if it is not named.
///
/// Costs a few `stat` calls, and for a file one read of its first bytes.
///
/// # Errors
/// [`Error::NotAMailbox`] names what is there instead; [`Error::Io`] if the path is missing or
/// cannot be read.
pub fn open(vfs: Arc<dyn Vfs>, spec: &MailboxSpec) -> Result<Box<dyn Storage>> {
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
) -> Result<Box<dyn Storage>> {
    let name = {
        let probe = Probe::new(vfs.as_ref(), &spec.path)?;
        let mismatch = match spec.format {
            Some(name) => (name.registered().mismatch)(&probe)?,
            None => None,
        };
        match (spec.format, mismatch) {
            (_, Some(Mismatch::Other(reason) | Mismatch::Damaged(reason))) => {
                return Err(not_a_mailbox(&spec.path, reason));
            }
            (Some(name), None) => name,
            (None, None) => detected(&probe, &spec.path)?,
        }
    };
    Ok((name.registered().open)(vfs, &spec.path, options)?)
}

/// Opens the mailbox of `spec` for a check or a repair. Unlike [`open_with`], it accepts a damaged
/// mailbox if `spec` names its format. An empty file is accepted for every format that is a file.
///
/// # Errors
/// As [`open`]; also [`Error::NotAMailbox`] for a mailbox of another format than the one named,
/// because a repair would remove its content.
pub(crate) fn open_damaged(
    vfs: &Arc<dyn Vfs>,
    spec: &MailboxSpec,
    options: &MboxOptions,
) -> Result<Box<dyn Doctor>> {
    let path = &spec.path;
    let probe = Probe::new(vfs.as_ref(), path)?;
    let name = match spec.format {
        None => detected(&probe, path)?,
        Some(name) => match (name.registered().mismatch)(&probe)? {
            Some(Mismatch::Other(reason)) => return Err(not_a_mailbox(path, reason)),
            Some(Mismatch::Damaged(_)) if probe.head().is_none_or(|head| !head.is_empty()) => {
                let found = FormatName::detect(&probe)?;
                if found.is_some_and(|found| found.format() != name.format()) {
                    return Err(not_a_mailbox(path, "it is a mailbox of another format"));
                }
                name
            }
            _ => name,
        },
    };
    (name.registered().open)(Arc::clone(vfs), path, options.clone())
}

/// Returns the format at `path`, if it is a mailbox.
///
/// # Errors
/// [`Error::Io`] if the path is missing or cannot be read.
pub fn detect(vfs: &dyn Vfs, path: &Path) -> Result<Option<Format>> {
    Ok(FormatName::detect(&Probe::new(vfs, path)?)?.map(FormatName::format))
}

fn detected(probe: &Probe<'_>, path: &Path) -> Result<FormatName> {
    let found = match FormatName::detect(probe)? {
        None => FormatName::detect_to_open(probe)?,
        found => found,
    };
    found.ok_or_else(|| not_a_mailbox(path, what_else(probe)))
}

fn not_a_mailbox(path: &Path, reason: &'static str) -> Error {
    Error::NotAMailbox { path: path.to_owned(), reason }
}

/// Describes a path that no format matches.
fn what_else(probe: &Probe<'_>) -> &'static str {
    match probe.head() {
        None => NO_MAILDIR,
        Some(head) if memchr::memchr(0, head).is_some() => BINARY_FILE,
        Some(_) => "it does not begin with a From_ line",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::HEAD_LEN;
    use barid_vfs::{MemVfs, OpenOptions};

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

    fn check(spec: &str, expected: std::result::Result<&str, &str>) {
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
            ("/saved/a.eml", b"Subject: x\n\n"),
            ("/saved/b.txt", b"x"),
            ("/other/b.txt", b"x"),
            ("/binary.eml", b"\x7fELF\x00\x01"),
            ("/mbox.eml", b"From a@b Thu Jan  1 00:00:00 1970\nSubject: x\n\n"),
            ("/message", b"Received: by x\nSubject: x\n\n"),
            ("/config", b"name: value\n"),
        ]);
        let found = open(vfs, &MailboxSpec::parse(spec)).map(|mailbox| mailbox.format().name());
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
        check("/maildir", Ok("maildir"));
        check("/maildir/", Ok("maildir"));
        check("/mh", Ok("mh"));
        check("/sylpheed", Ok("mh"));
        check("/mbox", Ok("mboxo"));
        check("/blank", Ok("mboxo"));
        check("/empty", Ok("mboxo"));
        check("/mmdf", Ok("mmdf"));
        check("/mbx", Ok("mbx"));
        check("/cut-mbx", Err("binary file"));
        check("/indented", Err("does not begin with a From_ line"));
        check("/binary", Err("binary file"));
        check("/zeros", Ok("mboxo"));
        check("/zeros-first", Ok("mboxo"));
        check("/mmdf-zeros", Ok("mmdf"));
        check("/many-zeros", Err(""));
        check("/text", Err("does not begin with a From_ line"));
        check("/dir", Err("`barid folders` lists"));
        check("/missing", Err("/missing"));
        check("/mix", Ok("mix"));
    }

    #[test]
    fn saved_messages_are_told_when_they_are_opened() {
        check("/saved", Ok("eml"));
        check("/saved/", Ok("eml"));
        check("/saved/a.eml", Ok("eml"));
        check("/message", Ok("eml"));
        check("eml:/config", Ok("eml"));
        check("eml:/other", Ok("eml"));
        check("/mbox.eml", Ok("mboxo"));
        check("/config", Err("does not begin with a From_ line"));
        check("/other", Err("`barid folders` lists"));
        check("/binary.eml", Err("binary file"));
        check("eml:/binary", Err("binary file"));
        let vfs = vfs_with(&[("/saved/a.eml", b"Subject: x\n\n")]);
        assert!(detect(&*vfs, Path::new("/saved")).unwrap().is_none(), "not in trees");
    }

    #[test]
    fn formats_are_forced() {
        check("mix:/mix", Ok("mix"));
        check("mix:/dir", Err("no .mixmeta"));
        check("mix:/mbox", Err("a mix mailbox is a directory"));
        check("maildir:/maildir", Ok("maildir"));
        check("mbox:/mbox", Ok("mboxo"));
        check("mboxo:/mbox", Ok("mboxo"));
        check("mboxrd:/mbox", Ok("mboxrd"));
        check("mboxcl:/mbox", Ok("mboxcl"));
        check("mboxcl2:/mbox", Ok("mboxcl2"));
        check("mmdf:/mmdf", Ok("mmdf"));
        check("mbx:/mbx", Ok("mbx"));
        check("mbx:/mbox", Err("does not begin with the header of an mbx"));
        check("mbx:/cut-mbx", Err("does not begin with the header of an mbx"));
        check("mh:/dir", Ok("mh"));
        check("mh:/mbox", Err("an MH folder is a directory"));
        check("maildir:/mbox", Err("a Maildir is a directory"));
        check("maildir:/dir", Err("no cur/ and new/"));
        check("mbox:/maildir", Err("an mbox is a file"));
        check("mbx:/maildir", Err("an mbx is a file"));
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
