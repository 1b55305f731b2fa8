//! Methods of libdb's handles, which are members of structures that its header declares.
//!
//! The offsets are those of all releases of version 5.3 on platforms where pointers, `long` and
//! `time_t` have 64 bits. A test compares them with the header if it is installed, and
//! [`super::trial`] tries them in a child before any file is opened with them.

#![expect(unsafe_code, reason = "reads function pointers out of handles of the library")]

use std::ffi::{c_char, c_int, c_void};

/// The version with these handles.
pub(super) const VERSION: (c_int, c_int) = (5, 3);
/// `true` on machines for which the offsets are known.
pub(super) const IS_KNOWN: bool = cfg!(all(target_pointer_width = "64", target_os = "linux"));

/// `DB_CREATE`.
pub(super) const CREATE: u32 = 0x1;
/// `DB_EXCL`.
pub(super) const EXCL: u32 = 0x4;
/// `DB_NOMMAP`.
pub(super) const NOMMAP: u32 = 0x10;
/// `DB_RDONLY`.
pub(super) const RDONLY: u32 = 0x400;
/// `DB_NEXT`.
pub(super) const NEXT: u32 = 16;
/// `DB_SET_RANGE`.
pub(super) const SET_RANGE: u32 = 27;
/// `DB_BTREE`.
pub(super) const BTREE: c_int = 1;
/// `DB_NOTFOUND`.
pub(super) const NOTFOUND: c_int = -30_988;

/// `DB`, `DBC` or `DB_TXN`.
pub(super) type Handle = *mut c_void;
/// A callback for messages of the library.
pub(super) type ErrorCall = unsafe extern "C" fn(*const c_void, *const c_char, *const c_char);

/// `DBT`: the bytes of a key or value.
#[repr(C)]
pub(super) struct Bytes {
    pub(super) data: *const u8,
    pub(super) len: u32,
    unused: [u32; 3],
    app_data: *const c_void,
    flags: u32,
}

impl Bytes {
    /// Describes bytes that the library only reads.
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr(), len: bytes.len() as u32, ..Self::place() }
    }

    /// Returns an empty place for bytes of the library.
    pub(super) fn place() -> Self {
        let (data, app_data) = (std::ptr::null(), std::ptr::null());
        Self { data, len: 0, unused: [0; 3], app_data, flags: 0 }
    }
}

/// Declares the methods of a handle with their offsets.
macro_rules! methods {
    ($(#[$meta:meta])* $name:ident {
        $($member:ident: fn($($arg:ty),*) $(-> $ret:ty)? = $offset:literal;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        pub(super) struct $name {
            $(pub(super) $member: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
        }

        impl $name {
            /// Names and offsets of all of them.
            #[cfg(test)]
            const MEMBERS: &'static [(&'static str, usize)] =
                &[$((stringify!($member), $offset)),*];

            /// Reads the methods of a handle.
            ///
            /// # Safety
            /// The handle is open, and belongs to a library of the known version.
            pub(super) unsafe fn of(handle: Handle) -> Self {
                // SAFETY: the caller's promise; the members are function pointers of these types.
                unsafe {
                    Self { $($member:
                        handle
                            .cast::<u8>()
                            .add($offset)
                            .cast::<unsafe extern "C" fn($($arg),*) $(-> $ret)?>()
                            .read()
                    ),* }
                }
            }
        }
    };
}

methods! {
    /// Methods of `DB`.
    DbMethods {
        close: fn(Handle, u32) -> c_int = 568;
        cursor: fn(Handle, Handle, *mut Handle, u32) -> c_int = 584;
        del: fn(Handle, Handle, *mut Bytes, u32) -> c_int = 592;
        get: fn(Handle, Handle, *mut Bytes, *mut Bytes, u32) -> c_int = 632;
        open: fn(Handle, Handle, *const c_char, *const c_char, c_int, u32, c_int) -> c_int
            = 1008;
        put: fn(Handle, Handle, *mut Bytes, *mut Bytes, u32) -> c_int = 1024;
        set_cachesize: fn(Handle, u32, u32, c_int) -> c_int = 1096;
        set_errcall: fn(Handle, ErrorCall) = 1128;
        set_pagesize: fn(Handle, u32) -> c_int = 1248;
        sync: fn(Handle, u32) -> c_int = 1352;
    }
}

methods! {
    /// Methods of `DBC`.
    CursorMethods {
        close: fn(Handle) -> c_int = 352;
        get: fn(Handle, *mut Bytes, *mut Bytes, u32) -> c_int = 392;
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use barid_testkit::{Scratch, disk, skip_or_fail};

    use super::*;

    const HEADER: &str = "/usr/include/db.h";

    /// Returns a program that prints each offset, size and constant on a line.
    fn program() -> String {
        let members = [("DB", DbMethods::MEMBERS), ("DBC", CursorMethods::MEMBERS)];
        let lines = members.iter().flat_map(|(of, members)| {
            let line = move |(name, _): &(&str, usize)| format!("P(offsetof({of}, {name}))\n");
            members.iter().map(line).collect::<Vec<_>>()
        });
        let lines: String = lines.collect();
        format!(
            "#include <stddef.h>\n#include <stdio.h>\n#include <db.h>\n\
             #define P(x) printf(\"%ld\\n\", (long)(x));\n\
             int main(void) {{\n{lines}P(sizeof(DBT)) P(offsetof(DBT, size)) P(offsetof(DBT, flags))\n\
             P(DB_CREATE) P(DB_EXCL) P(DB_NOMMAP) P(DB_RDONLY) P(DB_NEXT)\n\
             P(DB_SET_RANGE) P(DB_BTREE) P(DB_NOTFOUND) P(DB_VERSION_MAJOR) P(DB_VERSION_MINOR)\n\
             return 0; }}\n"
        )
    }

    #[test]
    fn the_header_says_the_same() {
        if !disk::exists(HEADER.as_ref()) {
            return skip_or_fail("db.h (Debian package libdb5.3-dev)");
        }
        let scratch = Scratch::new("bdb").unwrap();
        let [source, built] = ["layout.c", "layout"].map(|name| scratch.path().join(name));
        disk::write(&source, program().as_bytes()).unwrap();
        assert!(Command::new("cc").arg("-o").args([&built, &source]).status().unwrap().success());
        let printed = String::from_utf8(Command::new(built).output().unwrap().stdout).unwrap();
        let printed: Vec<i64> = printed.lines().map(|line| line.parse().unwrap()).collect();
        let members = DbMethods::MEMBERS.iter().chain(CursorMethods::MEMBERS);
        let mut expected: Vec<i64> = members.map(|(_, offset)| *offset as i64).collect();
        let in_bytes = [size_of::<Bytes>(), 8, std::mem::offset_of!(Bytes, flags)];
        expected.extend(in_bytes.map(|number| number as i64));
        let flags = [CREATE, EXCL, NOMMAP, RDONLY, NEXT, SET_RANGE];
        expected.extend(flags.map(i64::from));
        expected.extend([BTREE, NOTFOUND, VERSION.0, VERSION.1].map(i64::from));
        assert_eq!(printed, expected);
    }
}
