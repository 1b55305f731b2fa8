//! Paths of bogofilter's files: `~`, users, and the folder of word lists.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use barid_vfs::{FileType, Host as _, OsVfs, Vfs as _};

use crate::config::read_all;
use crate::output::Stop;

/// The source of a setting for the folder of word lists; later ones take precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Precedence {
    SiteConfig,
    UserConfig,
    Command,
}

/// The folder of word lists, as set by options and configuration files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Folder {
    chosen: Option<(Precedence, PathBuf)>,
}

impl Folder {
    pub(crate) fn set(&mut self, path: &[u8], precedence: Precedence) {
        if self.chosen.as_ref().is_none_or(|(before, _)| *before <= precedence) {
            self.chosen = Some((precedence, expanded(path)));
        }
    }

    /// Returns the folder: the one that was set, or that of the environment, or the one in the home
    /// folder.
    pub(crate) fn path(&self) -> Result<PathBuf, Stop> {
        if let Some((_, path)) = &self.chosen {
            return Ok(path.clone());
        }
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        if let Some(path) = ["BOGOFILTER_DIR", "BOGODIR"].into_iter().find_map(variable) {
            return Ok(path.into());
        }
        match variable("HOME") {
            Some(home) => Ok(Path::new(&home).join(".bogofilter")),
            None => Err(Stop::error("Can't find HOME or BOGOFILTER_DIR in environment.")),
        }
    }
}

/// Creates a folder unless it exists; returns `true` if it was created.
pub(crate) fn ensure(folder: &Path) -> Result<bool, Stop> {
    let problem = match OsVfs.metadata(folder) {
        Ok(metadata) if metadata.file_type == FileType::Dir => return Ok(false),
        Ok(_) => format!("Error: {} is not a directory.", folder.display()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            match OsVfs.create_dir(folder, 0o700) {
                Ok(()) => return Ok(true),
                Err(error) => {
                    format!("Error creating directory '{}': {}", folder.display(), reason(&error))
                }
            }
        }
        Err(error) => {
            format!("Error accessing directory '{}': {}", folder.display(), reason(&error))
        }
    };
    Err(Stop::error(format!(
        "{problem}\nbogofilter: cannot find bogofilter directory.\n\
         You must specify a directory on the command line, in the config file,\n\
         or by using the BOGOFILTER_DIR or HOME environment variables.\nProgram aborting."
    )))
}

/// Returns the system's message for an error.
pub(crate) fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error ") {
        Some((text, _)) => text.to_owned(),
        None => text,
    }
}

/// Returns a path with `~` and `~user` replaced.
pub(crate) fn expanded(path: &[u8]) -> PathBuf {
    let as_it_is = || PathBuf::from(OsStr::from_bytes(path));
    let Some(rest) = path.strip_prefix(b"~") else { return as_it_is() };
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let len = rest.iter().take_while(|byte| is_of_name(byte)).count();
    let home = match &rest[..len] {
        [] => home(),
        name => user(&User::Name(name)).map(|user| user.home),
    };
    match home {
        Some(mut home) => {
            home.push(OsStr::from_bytes(&rest[len..]));
            home.into()
        }
        None => as_it_is(),
    }
}

/// Returns the home of the current user according to the user database, with `$HOME` as a fallback.
fn home() -> Option<OsString> {
    let found = user(&User::Id(OsVfs.user())).map(|user| user.home);
    found.or_else(|| std::env::var_os("HOME"))
}

/// Returns the login name, or the name of the current user.
pub(crate) fn user_name() -> Vec<u8> {
    let logged_in = read_all(Path::new("/proc/self/loginuid")).ok();
    let logged_in = logged_in.and_then(|text| std::str::from_utf8(&text).ok()?.trim().parse().ok());
    let by_id = |id: u32| user(&User::Id(id)).map(|user| user.name);
    let logged_in = logged_in.filter(|id| *id != u32::MAX).and_then(by_id);
    let id = OsVfs.user();
    logged_in.or_else(|| by_id(id)).unwrap_or_else(|| format!("#{id}").into_bytes())
}

enum User<'a> {
    Name(&'a [u8]),
    Id(u32),
}

struct UserAccount {
    name: Vec<u8>,
    home: OsString,
}

/// Looks up a user in the user database.
fn user(of: &User<'_>) -> Option<UserAccount> {
    let users = read_all(Path::new("/etc/passwd")).ok()?;
    users.split(|byte| *byte == b'\n').find_map(|line| {
        let mut fields = line.split(|byte| *byte == b':');
        let name = fields.next()?;
        let id: u32 = std::str::from_utf8(fields.nth(1)?).ok()?.parse().ok()?;
        let home = fields.nth(2)?;
        let is_meant = match of {
            User::Name(wanted) => *wanted == name,
            User::Id(wanted) => *wanted == id,
        };
        is_meant
            .then(|| UserAccount { name: name.to_vec(), home: OsString::from_vec(home.to_vec()) })
    })
}
