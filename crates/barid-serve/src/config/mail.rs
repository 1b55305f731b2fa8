//! The mail of a user: where it is, and whose files it has.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use barid::{FormatName, MailboxSpec, OpenOptions};
use barid_auth::{NameRules, Template, User, system_user};
use barid_folders::{FolderOptions, Layout};

use super::location::{MailLocation, named_layout, template};
use super::reader::Section;
use super::values::time;
use super::{ServerConfig, ServerSettings};
use crate::mail::UserOptions;

/// Returns the folder below one of the server in which users without a home have their folders.
pub(crate) fn shared_by_users(dir: &Path) -> PathBuf {
    dir.join("users")
}

/// The mail of users, unless the user base says otherwise.
#[derive(Clone, Debug)]
pub struct MailSettings {
    /// The location.
    pub location: MailLocation,
    /// INBOX, if it is elsewhere.
    pub inbox: Option<Template>,
    /// The layout, if the file names one or a format.
    pub layout: Option<Layout>,
    /// The hierarchy separator.
    pub separator: Option<char>,
    /// Prefix of all names but INBOX.
    pub prefix: String,
    /// Owner of the files of users whose base knows no uid.
    pub owner: Option<MailOwner>,
    /// Folder of what must survive: UID ledgers, journals.
    pub state_dir: Option<Template>,
    /// Folder of caches.
    pub cache_dir: Option<Template>,
    /// Time for which deleted mailboxes are kept.
    pub keep_deleted: Option<Duration>,
}

/// The owner of the files of virtual users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MailOwner {
    /// A user of the system.
    Name(String),
    /// A uid and a gid.
    Ids(u32, u32),
}

impl MailOwner {
    fn parse(text: &str) -> Result<Self, String> {
        let ids = text.split_once(':').map(|(uid, gid)| (uid.parse(), gid.parse()));
        match ids {
            Some((Ok(0), _) | (_, Ok(0))) => Err("root owns no mail".to_owned()),
            Some((Ok(uid), Ok(gid))) => Ok(Self::Ids(uid, gid)),
            Some(_) => Err(format!("{text:?} is not a user, and not UID:GID")),
            None if text == "root" => Err("root owns no mail".to_owned()),
            None => Ok(Self::Name(text.to_owned())),
        }
    }

    /// Returns the uid and the gid.
    ///
    /// # Errors
    /// If the system has no such user, or it is root.
    pub fn ids(&self) -> io::Result<(u32, u32)> {
        let name = match self {
            Self::Ids(uid, gid) => return Ok((*uid, *gid)),
            Self::Name(name) => name,
        };
        let rules = NameRules { lower_case: false, extra: String::new() };
        let user = match rules.name(name.as_bytes()) {
            Some(name) => system_user(&name).map_err(io::Error::other)?,
            None => None,
        };
        match user {
            Some(User { uid: Some(uid), gid: Some(gid), .. }) if uid != 0 => Ok((uid, gid)),
            _ => Err(io::Error::other(format!("{name}: the system has no such user"))),
        }
    }
}

impl MailSettings {
    pub(super) fn read(section: Option<&Section<'_>>) -> Self {
        let parsed = |key| section.and_then(|section| section.parsed(key, template));
        let location = section.and_then(|section| section.parsed("location", MailLocation::parse));
        let location = location.unwrap_or_else(default_location);
        let format = section.and_then(|section| section.parsed("format", format_name));
        let format = format.or(location.format);
        let by_format = format.map(|format| super::location::layout_of(format.format()));
        let layout =
            section.and_then(|section| section.parsed("layout", |name| named_layout(name, format)));
        let separator = section.and_then(|section| {
            section.parsed("separator", |text| match text.chars().collect::<Vec<_>>()[..] {
                [char @ ('.' | '/')] => Ok(char),
                _ => Err(format!("{text:?} is not \".\" or \"/\"")),
            })
        });
        let prefix = section.and_then(|section| section.text("prefix"));
        Self {
            inbox: parsed("inbox").or_else(|| location.inbox.clone()),
            layout: layout.or(location.layout).or(by_format),
            separator,
            prefix: prefix.unwrap_or_default(),
            owner: section.and_then(|section| section.parsed("owner", MailOwner::parse)),
            state_dir: parsed("state_dir"),
            cache_dir: parsed("cache_dir"),
            keep_deleted: section.and_then(|section| section.parsed("keep_deleted", time)),
            location,
        }
    }
}

fn default_location() -> MailLocation {
    let parsed = MailLocation::parse("~/Maildir");
    parsed.expect("because the text is a valid location")
}

fn format_name(text: &str) -> Result<FormatName, String> {
    FormatName::named(text).ok_or_else(|| {
        let names: Vec<&str> = FormatName::all().map(FormatName::name).collect();
        format!("{text:?} is not a format: {}", names.join(", "))
    })
}

impl ServerConfig {
    /// Returns the options for the mail of a user.
    ///
    /// # Errors
    /// If a path cannot be made for this user: for example, one with `~` for a user without a home.
    pub fn user_options(&self, user: &User) -> io::Result<UserOptions> {
        let located = user.field("mail").map(MailLocation::parse).transpose();
        let located = located.map_err(|why| wrong(user, "mail", &why))?;
        let location = located.as_ref().unwrap_or(&self.mail.location);
        let path = |what: &str, template: &Template| {
            let text = template.expand(&user.name, user.home.as_deref());
            let text = text.map_err(|error| wrong(user, what, &error.to_string()))?;
            match Path::new(&text).is_absolute() {
                true => Ok(PathBuf::from(text)),
                false => Err(wrong(user, what, "not an absolute path")),
            }
        };
        let open = self.open_options(user, &path)?;
        let inbox = match located.is_some() {
            true => location.inbox.as_ref(),
            false => self.mail.inbox.as_ref(),
        };
        let inbox = inbox.map(|inbox| path("inbox", inbox)).transpose()?;
        let layout = if located.is_some() { location.layout } else { self.mail.layout };
        let root = path("location", &location.root)?;
        let mut folders = FolderOptions {
            inbox: inbox.map(|path| MailboxSpec { format: None, path }),
            layout,
            separator: self.mail.separator,
            prefix: self.mail.prefix.clone(),
            ..FolderOptions::new(root, open.clone())
        };
        folders.keep_deleted = self.mail.keep_deleted.unwrap_or(folders.keep_deleted);
        Ok(UserOptions {
            name: user.name.as_str().to_owned(),
            folders,
            spool_dir: open.cache_dir.clone().unwrap_or_else(std::env::temp_dir),
            open,
            append_limit: Some(self.limits.message_size),
            quota: self.quota.of(user),
            watches: true,
        })
    }

    /// Returns the folders of state and caches. For users with a home they are those that `barid`
    /// has when they start it themselves.
    fn open_options(
        &self,
        user: &User,
        path: &dyn Fn(&str, &Template) -> io::Result<PathBuf>,
    ) -> io::Result<OpenOptions> {
        let folder = |what: &str, set: &Option<Template>, in_home: &str, shared: &Path| match (
            set, &user.home,
        ) {
            (Some(template), _) => path(what, template),
            (None, Some(home)) => Ok(Path::new(home).join(in_home)),
            (None, None) => Ok(shared_by_users(shared).join(user.name.as_str())),
        };
        let MailSettings { state_dir, cache_dir, .. } = &self.mail;
        let state = folder("state_dir", state_dir, ".local/state/barid", &self.server.state_dir)?;
        let cache = folder("cache_dir", cache_dir, ".cache/barid", &self.server.cache_dir)?;
        Ok(OpenOptions::new(Some(cache), state))
    }

    /// Returns the folders that the configuration itself names: the parts of its paths that are the
    /// same for all users.
    pub(crate) fn named_folders(&self) -> Vec<PathBuf> {
        let ServerSettings { state_dir, cache_dir, .. } = &self.server;
        let mut folders = vec![shared_by_users(state_dir), shared_by_users(cache_dir)];
        let wordlist = self.delivery.spam.as_ref().and_then(|spam| spam.wordlist.as_ref());
        let MailSettings { location, inbox, state_dir, cache_dir, .. } = &self.mail;
        let templates = [inbox, state_dir, cache_dir, &self.rawlog].map(Option::as_ref);
        for template in templates.into_iter().chain([wordlist, Some(&location.root)]).flatten() {
            let fixed = template.fixed_part();
            // The last component may continue with a variable, or be a file.
            folders.extend(fixed.rsplit_once('/').map(|(folder, _)| PathBuf::from(folder)));
            folders.extend(template.is_fixed().then(|| PathBuf::from(fixed)));
        }
        folders
    }

    /// Returns the uid and the gid under which the mail of a user is opened.
    ///
    /// # Errors
    /// If neither the user base nor the file names them, or they are root's.
    pub fn owner_of(&self, user: &User) -> io::Result<(u32, u32)> {
        let owner = self.mail.owner.as_ref().map(MailOwner::ids).transpose()?;
        let uid = user.uid.or(owner.map(|(uid, _)| uid));
        let gid = user.gid.or(owner.map(|(_, gid)| gid));
        match (uid, gid) {
            (Some(uid), Some(gid)) if [uid, gid].iter().any(|id| [0, u32::MAX].contains(id)) => {
                Err(wrong(user, "uid", "root owns no mail, and its group neither"))
            }
            (Some(uid), Some(gid)) => Ok((uid, gid)),
            _ => Err(wrong(user, "uid", "no uid and gid; set `owner` in [mail]")),
        }
    }
}

/// Lowest uid and gid of users who have sessions, if `[users.pam]` does not name one.
const SESSION_ID_MIN: u32 = 1000;

impl ServerConfig {
    /// Returns the lowest uid and gid under which root starts sessions, apart from those of the
    /// owner.
    pub(crate) fn session_id_min(&self) -> u32 {
        self.users.pam.as_ref().map_or(SESSION_ID_MIN, |pam| pam.uid_min)
    }
}

fn wrong(user: &User, what: &str, why: &str) -> io::Error {
    io::Error::other(format!("user {}: {what}: {why}", user.name))
}
