//! The accounts of the system, by the C library and thus by its name service switch.

#![expect(unsafe_code, reason = "getpwnam_r and getgrnam_r fill structs with pointers")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::MaybeUninit;

use crate::error::{Error, Result};
use crate::limits::ACCOUNT_BUFFER_DOUBLINGS_MAX;
use crate::name::UserName;
use crate::user::User;

/// Looks up a user of the system, as for logins that PAM verified.
///
/// Blocks: the name service may ask a directory server.
///
/// # Errors
/// Returns [`Error::Unavailable`] if the name service fails.
pub fn system_user(name: &UserName) -> Result<Option<User>> {
    look_up(name.as_str(), passwd, |entry: &libc::passwd| {
        let home = if entry.pw_dir.is_null() {
            None
        } else {
            // SAFETY: a successful getpwnam_r sets the field to a string in the buffer, which
            // outlives this function.
            unsafe { CStr::from_ptr(entry.pw_dir) }.to_str().ok().map(str::to_owned)
        };
        let home = home.filter(|home| !home.is_empty());
        let (uid, gid) = (Some(entry.pw_uid), Some(entry.pw_gid));
        User { uid, gid, home, ..User::named(name.clone()) }
    })
}

/// Returns the uid of a user of the system.
pub(crate) fn uid_of(name: &str) -> Result<Option<u32>> {
    look_up(name, passwd, |entry: &libc::passwd| entry.pw_uid)
}

/// Returns the gid of a group of the system.
///
/// Blocks: the name service may ask a directory server.
///
/// # Errors
/// Returns [`Error::Unavailable`] if the name service fails.
pub fn gid_of(name: &str) -> Result<Option<u32>> {
    look_up(name, group, |entry: &libc::group| entry.gr_gid)
}

/// A function that looks up a name: it fills the entry and returns an error number, and `true` if
/// there is an entry.
type Find<T> = fn(&CStr, &mut MaybeUninit<T>, &mut [c_char]) -> (c_int, bool);

fn passwd(
    name: &CStr,
    entry: &mut MaybeUninit<libc::passwd>,
    buffer: &mut [c_char],
) -> (c_int, bool) {
    let mut found = std::ptr::null_mut();
    // SAFETY: name is a C string, entry and buffer are writable, and the length is the buffer's.
    let error = unsafe {
        libc::getpwnam_r(
            name.as_ptr(),
            entry.as_mut_ptr(),
            buffer.as_mut_ptr(),
            buffer.len(),
            &raw mut found,
        )
    };
    (error, !found.is_null())
}

fn group(
    name: &CStr,
    entry: &mut MaybeUninit<libc::group>,
    buffer: &mut [c_char],
) -> (c_int, bool) {
    let mut found = std::ptr::null_mut();
    // SAFETY: name is a C string, entry and buffer are writable, and the length is the buffer's.
    let error = unsafe {
        libc::getgrnam_r(
            name.as_ptr(),
            entry.as_mut_ptr(),
            buffer.as_mut_ptr(),
            buffer.len(),
            &raw mut found,
        )
    };
    (error, !found.is_null())
}

/// Looks up a name with a buffer that grows while the entry does not fit.
fn look_up<T, R>(name: &str, find: Find<T>, take: impl FnOnce(&T) -> R) -> Result<Option<R>> {
    let Ok(c_name) = CString::new(name) else { return Ok(None) };
    let mut entry = MaybeUninit::uninit();
    let mut buffer: Vec<c_char> = Vec::new();
    for doublings in 0..=ACCOUNT_BUFFER_DOUBLINGS_MAX {
        buffer.resize(1024 << doublings, 0);
        match find(&c_name, &mut entry, &mut buffer) {
            // SAFETY: the function reports success and an entry, which it has filled.
            (0, true) => return Ok(Some(take(unsafe { entry.assume_init_ref() }))),
            (0 | libc::ENOENT | libc::ESRCH, _) => return Ok(None),
            (libc::ERANGE | libc::EINTR, _) => {}
            (error, _) => {
                let why = std::io::Error::from_raw_os_error(error).to_string();
                return Err(Error::unavailable("the system's accounts", why));
            }
        }
    }
    Err(Error::unavailable("the system's accounts", "an entry is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::NameRules;

    fn user(name: &str) -> Option<User> {
        system_user(&NameRules::default().name(name.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn accounts_are_found() {
        let root = user("root").unwrap();
        assert_eq!((root.uid, root.gid), (Some(0), Some(0)));
        assert!(root.home.is_some());
        assert_eq!(uid_of("root").unwrap(), Some(0));
        assert_eq!(gid_of("root").unwrap(), Some(0));
        assert!(user("no-such-user-here").is_none());
        assert_eq!(uid_of("no such\0user").unwrap(), None);
        assert_eq!(gid_of("no-such-group-here").unwrap(), None);
    }
}
