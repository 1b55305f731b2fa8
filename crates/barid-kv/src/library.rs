//! The functions of a library that is loaded on first use.
//!
//! ```text
//! crate::library::functions! {
//!     /// The part of libtdb that is used.
//!     pub(crate) struct Api("tdb", &LIBRARY) {
//!         tdb_open_ex: fn(*const c_char, c_int, c_int, c_int, c_uint) -> *mut Context,
//!         tdb_close: fn(*mut Context) -> c_int,
//!     } optional {
//!         tdb_runtime_check_for_robust_mutexes: fn() -> bool,
//!     } variables {
//!         tdb_null: Datum,
//!     }
//! }
//! ```
//!
//! gives `Api::get() -> Result<&'static Api>`. The fields of `Api` are `unsafe extern "C" fn`
//! pointers, those of `optional` are `Option`s of such, those of `variables`
//! [`Variable`](crate::ffi::library::Variable)s. Both extra blocks may be left out, but not change
//! places. The first call loads the library and looks up every symbol, and its result stays for
//! ever. A missing library or symbol is [`crate::Error::Unavailable`], which names the package.
//!
//! Use it only in `ffi/`: the types written there are promises, and calls are unsafe.

/// Declares the functions of a library; see the head of this file.
macro_rules! functions {
    (
        $(#[$meta:meta])*
        $vis:vis struct $api:ident($store:expr, $library:expr) {
            $($name:ident: fn($($arg:ty),* $(,)?) $(-> $ret:ty)?),* $(,)?
        }
        $(optional {
            $($may:ident: fn($($may_arg:ty),* $(,)?) $(-> $may_ret:ty)?),* $(,)?
        })?
        $(variables {
            $($variable:ident: $type:ty),* $(,)?
        })?
    ) => {
        $(#[$meta])*
        #[derive(Debug)]
        $vis struct $api {
            $($vis $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
            $($($vis $may: Option<unsafe extern "C" fn($($may_arg),*) $(-> $may_ret)?>,)*)?
            $($($vis $variable: $crate::ffi::library::Variable<$type>,)*)?
        }

        impl $api {
            /// Returns the functions; loads the library at the first call.
            ///
            /// # Errors
            /// Returns [`crate::Error::Unavailable`], which names the package to install.
            $vis fn get() -> $crate::Result<&'static Self> {
                static LOADED: $crate::library::Slot<$api> = $crate::library::Slot::new();
                LOADED.get($store, $library, |loaded| {
                    // SAFETY: the types are the declarations of the library's header.
                    unsafe {
                        Ok(Self {
                            $($name: loaded.function(stringify!($name))?,)*
                            $($($may: loaded.function(stringify!($may)).ok(),)*)?
                            $($($variable: loaded.variable(stringify!($variable))?,)*)?
                        })
                    }
                })
            }
        }
    };
}
pub(crate) use functions;

use std::sync::OnceLock;

use crate::ffi::library::Loaded;
use crate::{Error, Library, Result};

/// A slot for the functions of a library, filled on first use.
pub(crate) struct Slot<T>(OnceLock<std::result::Result<T, String>>);

impl<T> Slot<T> {
    /// Creates an empty slot.
    pub(crate) const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Returns the result of `look_up` from the first call.
    pub(crate) fn get(
        &'static self,
        store: &'static str,
        library: &'static Library,
        look_up: impl FnOnce(&Loaded) -> Result<T>,
    ) -> Result<&'static T> {
        let load = || match Loaded::open(store, library).and_then(|loaded| look_up(&loaded)) {
            Err(Error::Unavailable { why, .. }) => Err(why),
            found => found.map_err(|error| error.to_string()),
        };
        let found = self.0.get_or_init(load).as_ref();
        found.map_err(|why| Error::Unavailable { store, why: why.clone() })
    }
}

#[cfg(test)]
mod tests {
    #![expect(unsafe_code, reason = "calls a function of the C library")]

    use std::ffi::{c_char, c_int};

    use crate::{Error, Library, Result};

    static LIBC: Library = Library { names: &["libnone.so.77", "libc.so.6"], package: "libc6" };
    static NONE: Library = Library { names: &["libnone.so.77"], package: "libnone77" };

    functions! {
        /// A part of the C library.
        struct Libc("libc", &LIBC) {
            abs: fn(c_int) -> c_int,
        } optional {
            labs: fn(std::ffi::c_long) -> std::ffi::c_long,
            barid_has_no_such_function: fn(),
        } variables {
            environ: *const *const c_char,
        }
    }
    functions! {
        struct NoLibrary("none", &NONE) { none: fn() }
    }
    functions! {
        struct NoFunction("lacks", &LIBC) { barid_has_no_such_function: fn(c_int,), }
    }

    #[test]
    fn functions_of_a_library_are_called() {
        let libc = Libc::get().unwrap();
        // SAFETY: it takes any number but the least.
        assert_eq!(unsafe { (libc.abs)(-7) }, 7);
        assert!(libc.labs.is_some() && libc.barid_has_no_such_function.is_none());
        // SAFETY: a pointer, which is only compared.
        assert!(!unsafe { *libc.environ.address() }.is_null());
        assert!(std::ptr::eq(libc, Libc::get().unwrap()));
    }

    #[test]
    fn what_is_missing_names_the_package() {
        let check = |found: Result<String>, store: &str, parts: [&str; 2]| {
            let Error::Unavailable { store: named, why } = found.unwrap_err() else {
                panic!("another error");
            };
            assert_eq!(named, store);
            assert!(parts.iter().all(|part| why.contains(part)), "{why}");
        };
        let none = || NoLibrary::get().map(|api| format!("{:?}", api.none));
        let lacks = || NoFunction::get().map(|api| format!("{:?}", api.barid_has_no_such_function));
        for _ in 0..2 {
            check(none(), "none", ["libnone.so.77", "libnone77"]);
            check(lacks(), "lacks", ["barid_has_no_such_function", "libc6"]);
        }
    }
}
