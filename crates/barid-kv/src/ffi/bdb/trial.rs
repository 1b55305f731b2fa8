//! A check that the handles of a library match [`super::layout`].
//!
//! Calls through a wrong offset could do anything. So the version must be the known one; then a
//! child creates handles, compares their methods with the functions that the library exports, as
//! far as it exports them, and writes and reads a list in memory with them. Only after that does
//! this process open any file with the library.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::ptr;
use std::sync::OnceLock;
use std::time::Duration;

use super::layout::{self, CursorMethods, DbMethods};
use super::{Api, Bdb, Options, version_of};
use crate::Error;
use crate::ffi::failure::Failure;
use crate::ffi::pairs::{ReadPairs as _, WritePairs as _};
use crate::ffi::probe::{Bounds, Child, Ending};
use crate::limits::PROBE_WAIT_FACTOR;

/// The limit of processor time of the child.
const TIME: Duration = Duration::from_secs(20);
/// The child's answer if the check succeeds.
const FINE: &[u8] = b"fine";
/// Memory for pages of the list in memory.
const CACHE_LEN: u32 = 256 << 10;
/// Length of its pages.
const PAGE_LEN: u32 = 4096;

/// Tries the library once in a process.
///
/// # Errors
/// Returns [`Error::Unavailable`] if its layout is not the known one.
pub(super) fn check(api: &'static Api) -> crate::Result<()> {
    static FOUND: OnceLock<Result<(), String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| run(api)).clone();
    found.map_err(|why| Error::Unavailable { store: "bdb", why })
}

fn run(api: &'static Api) -> Result<(), String> {
    let version @ (major, minor, patch) = version_of(api);
    let name = format!("libdb {major}.{minor}.{patch}");
    if !is_known(version) {
        return Err(format!("{name} cannot be used on this machine, only version 5.3 on 64 bits"));
    }
    let bounds = Bounds {
        time: TIME * PROBE_WAIT_FACTOR,
        processor_seconds: Some(TIME.as_secs()),
        address_space: None,
    };
    let child = Child::begin(bounds, || answer(tried(api)));
    let ending = child.and_then(Child::end);
    judged(&name, ending.map_err(|error| format!("a trial of {name}: {error}"))?)
}

fn judged(name: &str, ending: Ending) -> Result<(), String> {
    match ending {
        Ending::Answered(answer) if answer == FINE => Ok(()),
        Ending::Answered(answer) => {
            let why = String::from_utf8_lossy(&answer).into_owned();
            Err(format!("{name} differs from the known releases: {why}"))
        }
        Ending::Died(how) => Err(format!("a process that tried {name} {how}")),
        Ending::Hung => Err(format!("a process that tried {name} did not end")),
    }
}

fn is_known((major, minor, _): (c_int, c_int, c_int)) -> bool {
    layout::IS_KNOWN && (major, minor) == layout::VERSION
}

fn answer(tried: Result<(), String>) -> Vec<u8> {
    tried.map_or_else(String::into_bytes, |()| FINE.to_vec())
}

/// Tries all functions that are used, except those for files.
fn tried(api: &'static Api) -> Result<(), String> {
    let mut db = Bdb::create(api).map_err(failed)?;
    check_db(api, &db)?;
    let options = Options { write: true, create: Some(PAGE_LEN), cache_len: CACHE_LEN };
    db.set_up(ptr::null(), layout::CREATE, options).map_err(failed)?;
    check_cursor(api, &mut db)?;
    let mut model = BTreeMap::new();
    // More than one page, and values that take pages of their own.
    for number in 0..48_u32 {
        let key = format!("key {:05}", number * 7919 % 10_007).into_bytes();
        let value = vec![number as u8; (number % 8 * 300) as usize];
        db.put(&key, &value).map_err(failed)?;
        model.insert(key, value);
    }
    let gone: Vec<Vec<u8>> = model.keys().step_by(3).cloned().collect();
    for key in gone.iter().chain([&b"nothing".to_vec()]) {
        db.delete(key).map_err(failed)?;
        model.remove(key);
    }
    db.flush().map_err(failed)?;
    let mut found = BTreeMap::new();
    let mut take = |key: &[u8], value: &[u8]| found.insert(key.to_vec(), value.to_vec()).is_none();
    db.scan(b"key ", &mut take).map_err(failed)?;
    if found != model {
        return Err(format!("a list of {} pairs has {}", model.len(), found.len()));
    }
    for (key, value) in &model {
        let mut is_same = false;
        db.get(key, &mut |found| is_same = found == value).map_err(failed)?;
        if !is_same {
            return Err("a key leads to another value".to_owned());
        }
    }
    if db.get(&gone[0], &mut |_| {}).map_err(failed)? {
        return Err("a removed key leads to a value".to_owned());
    }
    db.close().map_err(failed)
}

/// A method, the function that the library exports for it, and the one that a handle has.
type Method = (&'static str, Option<unsafe extern "C" fn()>, usize);

/// Compares the methods of a handle with the functions that the library exports for them.
fn check_db(api: &Api, db: &Bdb) -> Result<(), String> {
    let DbMethods { close, cursor, del, get, open, put, set_pagesize, sync, .. } = db.methods;
    compare(&[
        ("close", api.__db_close_pp, close as usize),
        ("cursor", api.__db_cursor_pp, cursor as usize),
        ("del", api.__db_del_pp, del as usize),
        ("get", api.__db_get_pp, get as usize),
        ("open", api.__db_open_pp, open as usize),
        ("put", api.__db_put_pp, put as usize),
        ("set_pagesize", api.__db_set_pagesize, set_pagesize as usize),
        ("sync", api.__db_sync_pp, sync as usize),
    ])
}

/// Compares the methods of a cursor likewise.
fn check_cursor(api: &Api, db: &mut Bdb) -> Result<(), String> {
    let CursorMethods { close, get } = db.cursor().map_err(failed)?.methods;
    compare(&[
        ("the cursor's close", api.__dbc_close_pp, close as usize),
        ("the cursor's get", api.__dbc_get_pp, get as usize),
    ])
}

fn compare(methods: &[Method]) -> Result<(), String> {
    let differs = |(_, exported, method): &&Method| {
        exported.is_some_and(|exported| exported as usize != *method)
    };
    match methods.iter().find(differs) {
        Some((name, ..)) => Err(format!("its handles have another member at the offset of {name}")),
        None => Ok(()),
    }
}

fn failed(failure: Failure) -> String {
    format!("it fails: {failure:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_or_layout_is_refused() {
        assert!(!is_known((5, 1, 29)) && !is_known((6, 0, 20)));
        unsafe extern "C" fn one() {}
        unsafe extern "C" fn other() {}
        let check = |exported: Option<unsafe extern "C" fn()>| {
            compare(&[("get", None, 7), ("put", exported, one as *const () as usize)])
        };
        assert_eq!((check(None), check(Some(one))), (Ok(()), Ok(())));
        assert!(check(Some(other)).is_err_and(|why| why.contains("put")));
    }

    #[test]
    fn a_library_that_answers_wrongly_is_refused() {
        let said = |ending: Ending| judged("libdb 5.3.28", ending).unwrap_err();
        assert!(said(Ending::Answered(b"it fails".to_vec())).contains("it fails"));
        assert!(said(Ending::Died("was killed by SIGSEGV".to_owned())).contains("SIGSEGV"));
        assert!(said(Ending::Hung).contains("did not end"));
        assert_eq!(judged("libdb 5.3.28", Ending::Answered(FINE.to_vec())), Ok(()));
    }
}
