//! The mailboxes of one account as a tree of names.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid::{Format, FormatError, MailboxSpec, MessageLayout, Subfolders, detect, identity_of};
use barid_imap::backend::Namespace;
use barid_imap::command::MailboxName;
use barid_vfs::{FileType, Vfs};

use crate::error::{Error, Result};
use crate::limits::{DETECTED_MAX, NAMES_LEN_MAX};
use crate::names::{INBOX, Levels, NameRules, NamedPlace, dotted_format};
use crate::options::{FolderOptions, Layout};
use crate::state::TreeState;
use crate::steps::{Grounds, spec_at};

/// Name of the file with the state of a tree, in the folder of the tree.
pub(crate) const NAMES_FILE: &str = "names";

/// The mailboxes of one account as a tree of names, whatever their layout on the disk.
///
/// It holds no lock and no copy of the disk: every call looks at what is there, so any number of
/// threads and processes may use trees of the same root, and other programs may change it. Changes
/// of barid's processes exclude each other by a lock in the state folder.
#[derive(Clone, Debug)]
pub struct FolderTree {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) root: PathBuf,
    pub(crate) rules: NameRules,
    pub(crate) inbox: MailboxSpec,
    /// The folder of the mailboxes below INBOX, where the layout has folders in folders.
    pub(crate) below_inbox: PathBuf,
    pub(crate) options: FolderOptions,
}

/// Thing at the place of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occupant {
    /// A mailbox.
    Mailbox(Format),
    /// A folder that is not a mailbox.
    Folder,
    /// Nothing.
    Nothing,
}

impl FolderTree {
    /// Opens the tree of an account; detects its layout if the options name none. Nothing is
    /// created, and the root may be missing.
    ///
    /// Costs a few system calls, or the listing of a few folders if the layout is to be detected.
    ///
    /// # Errors
    /// [`Error::Cannot`] for a separator or prefix that cannot be used; errors of the file system.
    pub fn open(vfs: Arc<dyn Vfs>, options: FolderOptions) -> Result<Self> {
        let root = match vfs.canonicalize(&options.root) {
            Ok(root) => root,
            Err(error) if error.kind() == ErrorKind::NotFound => options.root.clone(),
            Err(source) => return Err(Error::at(&options.root)(source)),
        };
        let layout = match options.layout {
            Some(layout) => layout,
            None => detected(&*vfs, &root)?,
        };
        let separator = options.separator.unwrap_or(match layout {
            Layout::MaildirPlusPlus => '.',
            Layout::NestedMaildirs | Layout::Files(_) => '/',
        });
        let prefix = options.prefix.clone();
        let cannot = |name: String, why| Err(Error::Cannot { name, why });
        if !SEPARATORS.contains(separator) {
            return cannot(separator.to_string(), "not usable as a separator");
        }
        if prefix.chars().any(char::is_control)
            || !prefix.is_empty() && (!prefix.ends_with(separator) || prefix.len() == 1)
        {
            return cannot(prefix, "a prefix ends with the separator");
        }
        let found = inbox_in(&*vfs, &root, layout)?;
        let inbox = options.inbox.clone().unwrap_or_else(|| spec_at(&found));
        let is_folder_in_root = inbox.path.parent() == Some(root.as_path())
            && vfs.metadata(&inbox.path).is_ok_and(|found| found.file_type == FileType::Dir);
        let below_inbox = if is_folder_in_root { inbox.path.clone() } else { root.join(INBOX) };
        let rules = NameRules { layout, separator, prefix };
        Ok(Self { vfs, root, rules, inbox, below_inbox, options })
    }

    /// Returns the hierarchy separator.
    pub fn separator(&self) -> char {
        self.rules.separator
    }

    /// Returns the layout.
    pub fn layout(&self) -> Layout {
        self.rules.layout
    }

    /// Returns the personal namespaces: one.
    pub fn namespaces(&self) -> Vec<Namespace> {
        vec![Namespace { prefix: self.rules.prefix.clone() }]
    }

    /// Returns the mailbox of a name, for opening it.
    ///
    /// # Errors
    /// [`Error::NoSuchMailbox`]; [`Error::Cannot`] for a name that no mailbox can have, a link that
    /// leads out of the root, or a folder that is not a mailbox.
    pub fn spec_of(&self, name: &MailboxName) -> Result<MailboxSpec> {
        let (place, name) = (self.rules.parse(&name.0)?, &name.0);
        self.settle()?;
        let (path, occupant) = self.occupant(&place, name)?;
        match occupant {
            Occupant::Mailbox(_) if place == NamedPlace::Inbox => Ok(self.inbox.clone()),
            Occupant::Mailbox(_) => Ok(spec_at(&path)),
            Occupant::Folder => {
                let why = "it contains mailboxes, and is not one itself";
                Err(Error::Cannot { name: name.clone(), why })
            }
            Occupant::Nothing => Err(Error::NoSuchMailbox { name: name.clone() }),
        }
    }

    /// Returns the path of a place and the thing there. A place in a Maildir++ tree that is only
    /// the beginning of other names, or whose folder is not a Maildir, is empty.
    pub(crate) fn occupant(&self, place: &NamedPlace, name: &str) -> Result<(PathBuf, Occupant)> {
        let vfs = &*self.vfs;
        let levels = match place {
            NamedPlace::Inbox => {
                let found = match vfs.metadata(&self.inbox.path) {
                    Err(error) if is_absent(&error) => None,
                    Err(source) => return Err(Error::at(&self.inbox.path)(source)),
                    Ok(_) => format_at(vfs, &self.inbox.path)?,
                };
                let format = self.inbox.format.map(barid::FormatName::format).or(found);
                let occupant = match (found, format) {
                    (Some(_), Some(format)) => Occupant::Mailbox(format),
                    _ => Occupant::Nothing,
                };
                return Ok((self.inbox.path.clone(), occupant));
            }
            NamedPlace::Below(levels) => levels,
        };
        let path = self.locate(levels);
        let file_type = match vfs.symlink_metadata(&path) {
            Ok(found) => found.file_type,
            Err(error) if is_absent(&error) => return Ok((path, Occupant::Nothing)),
            Err(source) => return Err(Error::at(&path)(source)),
        };
        let leads_out = Error::Cannot { name: name.to_owned(), why: "a link leads to it" };
        if !self.is_inside(&path, file_type) {
            return Err(leads_out);
        }
        let nests = self.rules.layout != Layout::MaildirPlusPlus;
        let occupant = match format_at(vfs, &path)? {
            Some(format) if self.may_contain(format) => Occupant::Mailbox(format),
            _ if file_type == FileType::Dir && nests => Occupant::Folder,
            _ => Occupant::Nothing,
        };
        Ok((path, occupant))
    }

    /// Returns `true` if mailboxes of a format belong to trees of this layout.
    pub(crate) fn may_contain(&self, format: Format) -> bool {
        match self.rules.layout {
            Layout::MaildirPlusPlus => format.subfolders == Subfolders::Dotted,
            Layout::NestedMaildirs | Layout::Files(_) => true,
        }
    }

    /// Returns `true` if a path below the root, which exists, is reached without links, or is a
    /// link to a file in the root.
    pub(crate) fn is_inside(&self, path: &Path, file_type: FileType) -> bool {
        let is_below = |found: PathBuf| found.starts_with(&self.root);
        let parents = path.ancestors().skip(1).take_while(|folder| *folder != self.root);
        let has_link = parents
            .filter_map(|folder| self.vfs.symlink_metadata(folder).ok())
            .any(|found| found.file_type == FileType::Symlink);
        match file_type {
            _ if has_link => false,
            FileType::Symlink => {
                let target = self.vfs.metadata(path);
                target.is_ok_and(|found| found.file_type == FileType::File)
                    && self.vfs.canonicalize(path).is_ok_and(is_below)
            }
            _ => true,
        }
    }

    /// Returns the path of the levels of a name: of the file that exists, in modified UTF-7 or as
    /// written, or of one to be made.
    pub(crate) fn locate(&self, levels: &[String]) -> PathBuf {
        let (encoded, raw) = (self.rules.file_names(levels), self.rules.raw_file_names(levels));
        let mut path = self.root.clone();
        for (at, (encoded, raw)) in encoded.into_iter().zip(raw).enumerate() {
            let nests = self.rules.layout != Layout::MaildirPlusPlus;
            if at == 0 && nests && self.rules.prefix.is_empty() && levels[0] == INBOX {
                path.clone_from(&self.below_inbox);
                continue;
            }
            let exists = |name: &str| self.vfs.symlink_metadata(&path.join(name)).is_ok();
            let name =
                if raw != encoded && !exists(&encoded) && exists(&raw) { raw } else { encoded };
            path.push(name);
        }
        path
    }

    /// Returns the folder of the tree's state; `None` if the root does not exist.
    ///
    /// It is named after the identity of the root (`user.barid.id`), so that it stays the same if
    /// the root is moved.
    pub(crate) fn state_folder(&self) -> Result<Option<PathBuf>> {
        let read_only = self.options.mailboxes.read_only;
        match self.vfs.metadata(&self.root) {
            Ok(_) => {
                let id = identity_of(&*self.vfs, &self.root, !read_only)?;
                Ok(Some(self.options.mailboxes.state_dir.join(format!("folders-{id:032x}"))))
            }
            Err(error) if is_absent(&error) => Ok(None),
            Err(source) => Err(Error::at(&self.root)(source)),
        }
    }

    /// Returns the state in a folder; the default without a file.
    pub(crate) fn read_state(&self, folder: &Path) -> Result<TreeState> {
        let path = folder.join(NAMES_FILE);
        match self.vfs.read(&path, NAMES_LEN_MAX) {
            Ok(bytes) => TreeState::from_bytes(&bytes)
                .map_err(|unreadable| Error::Damaged { path, what: unreadable.what() }),
            Err(error) if is_absent(&error) => Ok(TreeState::default()),
            Err(source) => Err(Error::at(&path)(source)),
        }
    }

    /// Returns the folders in which steps are done, for the folder of the tree's state.
    pub(crate) fn grounds<'a>(&'a self, state: &'a Path) -> Grounds<'a> {
        Grounds { vfs: &self.vfs, root: &self.root, state, mailboxes: &self.options.mailboxes }
    }

    /// Fails if INBOX is in a folder, which then can be neither deleted nor renamed.
    pub(crate) fn check_without_inbox(&self, path: &Path, name: &str) -> Result<()> {
        let why = "INBOX is in its folder";
        match self.inbox.path.starts_with(path) {
            true => Err(Error::Cannot { name: name.to_owned(), why }),
            false => Ok(()),
        }
    }

    /// Returns the format of new mailboxes.
    pub(crate) fn new_format(&self) -> Result<Format> {
        let format = match self.rules.layout {
            Layout::Files(format) => Some(format),
            Layout::MaildirPlusPlus | Layout::NestedMaildirs => dotted_format(),
        };
        let why = "no format has such folders";
        format.ok_or(Error::Cannot { name: self.root.display().to_string(), why })
    }

    /// Returns the whole name of a place.
    pub(crate) fn name_of(&self, place: &NamedPlace) -> String {
        match place {
            NamedPlace::Inbox => INBOX.to_owned(),
            NamedPlace::Below(levels) => self.rules.name_of(levels),
        }
    }
}

/// Characters that may be separators.
const SEPARATORS: &str = "./|^:;,!-_+=#$@";

/// Returns the format of what is at a path; `None` if it is not a mailbox.
pub(crate) fn format_at(vfs: &dyn Vfs, path: &Path) -> Result<Option<Format>> {
    match detect(vfs, path) {
        Err(FormatError::NotAMailbox { .. }) => Ok(None),
        found => Ok(found.map_err(barid::Error::from)?),
    }
}

/// Returns `true` if a path does not exist.
pub(crate) fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Detects the layout of a root.
fn detected(vfs: &dyn Vfs, root: &Path) -> Result<Layout> {
    let (mut dotted, mut formats) = (false, Vec::new());
    for (path, is_hidden) in entries(vfs, root)? {
        let Ok(Some(format)) = detect(vfs, &path) else { continue };
        if is_hidden {
            dotted |= format.subfolders == Subfolders::Dotted;
        } else {
            let is_empty_file = vfs.metadata(&path).is_ok_and(|found| found.size == 0);
            let is_inbox = path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(INBOX));
            // Many programs make empty files, which are empty mboxes, too.
            let counts = format.is_folder() || is_inbox || !is_empty_file;
            formats.extend(counts.then_some(format));
        }
    }
    let of_root = match vfs.metadata(root) {
        Ok(_) => format_at(vfs, root)?,
        Err(_) => None,
    };
    let nests = formats.iter().any(|format| format.subfolders == Subfolders::Dotted);
    let is_maildir = of_root.is_some_and(|format| format.subfolders == Subfolders::Dotted);
    Ok(match formats.first() {
        _ if dotted || is_maildir && !nests => Layout::MaildirPlusPlus,
        _ if nests => Layout::NestedMaildirs,
        Some(format) => Layout::Files(*format),
        None => of_root.map_or(Layout::MaildirPlusPlus, Layout::Files),
    })
}

/// Returns the paths of the entries of a folder, in the order of names, and `true` for those whose
/// names begin with a dot; none if it does not exist.
fn entries(vfs: &dyn Vfs, root: &Path) -> Result<Vec<(PathBuf, bool)>> {
    use std::os::unix::ffi::OsStrExt;
    let mut found = Vec::new();
    let dir = match vfs.open_dir(root) {
        Ok(dir) => dir,
        Err(error) if is_absent(&error) => return Ok(found),
        Err(source) => return Err(Error::at(root)(source)),
    };
    dir.list(&mut |name, file_type| {
        if found.len() < DETECTED_MAX && file_type != FileType::Symlink {
            let path = root.join(std::ffi::OsStr::from_bytes(name));
            found.push((path, name.starts_with(b".")));
        }
    })
    .map_err(Error::at(root))?;
    found.sort();
    Ok(found)
}

/// Returns the path of INBOX: the root if that is a mailbox, or the mailbox in it that is named
/// `INBOX` in any case, or where a new INBOX is to be made.
fn inbox_in(vfs: &dyn Vfs, root: &Path, layout: Layout) -> Result<PathBuf> {
    if layout == Layout::MaildirPlusPlus {
        return Ok(root.to_owned());
    }
    let entries = entries(vfs, root)?;
    let is_mailbox = |path: &Path| matches!(detect(vfs, path), Ok(Some(_)));
    if is_mailbox(root) {
        return Ok(root.to_owned());
    }
    let named = entries
        .iter()
        .map(|(path, _)| path)
        .filter(|path| path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(INBOX)));
    let found = named.into_iter().find(|path| is_mailbox(path)).cloned();
    Ok(found.unwrap_or_else(|| match layout {
        Layout::NestedMaildirs if entries.is_empty() => root.to_owned(),
        // Mailboxes below INBOX are in the folder `INBOX`.
        Layout::Files(format) if format.layout == MessageLayout::OneFile => root.join("inbox"),
        _ => root.join(INBOX),
    }))
}

/// Returns the place of the levels of a name.
pub(crate) fn below(levels: &[String]) -> NamedPlace {
    NamedPlace::Below(Levels::from(levels))
}
