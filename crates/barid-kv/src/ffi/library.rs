//! Loading a library and looking up its symbols.

#![expect(unsafe_code, reason = "a loaded library's functions are what its documentation says")]

use std::fmt;

use libloading::os::unix::{Library as Handle, RTLD_LOCAL, RTLD_NOW};

use crate::{Error, Library, Result};

/// A library that stays loaded until the process ends.
#[derive(Debug)]
pub(crate) struct Loaded {
    store: &'static str,
    library: &'static Library,
    handle: &'static Handle,
}

/// The address of a variable of a library.
#[derive(Clone, Copy)]
pub(crate) struct Variable<T>(*const T);

// SAFETY: it is an address only; reading what is there is unsafe, and the reader's promise.
unsafe impl<T> Send for Variable<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Variable<T> {}

impl<T> Variable<T> {
    /// Returns the address; the variable lives until the process ends.
    pub(crate) fn address(self) -> *const T {
        self.0
    }
}

impl<T> fmt::Debug for Variable<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Pointer::fmt(&self.0, out)
    }
}

/// Returns `true` if this program is linked statically, so that it cannot load a library, which
/// would bring a second C library with it.
#[cfg(target_os = "linux")]
fn is_static() -> bool {
    // A value that `rustix` does not have.
    // SAFETY: reads what the kernel told the process at its start: where its interpreter is.
    unsafe { libc::getauxval(libc::AT_BASE) == 0 }
}

/// Returns `false`: programs of other systems can load libraries.
#[cfg(not(target_os = "linux"))]
const fn is_static() -> bool {
    false
}

impl Loaded {
    /// Loads the first of the library's names that exists.
    pub(crate) fn open(store: &'static str, library: &'static Library) -> Result<Self> {
        if is_static() {
            let why = "this program is linked statically, and cannot load libraries".to_owned();
            return Err(Error::Unavailable { store, why });
        }
        let mut why = String::new();
        for name in library.names {
            // SAFETY: the names are those of well-known libraries whose initialisers are meant to
            // be run by any program.
            match unsafe { Handle::open(Some(*name), RTLD_NOW | RTLD_LOCAL) } {
                Ok(handle) => {
                    // Kept for ever: function pointers into it are.
                    return Ok(Self { store, library, handle: Box::leak(Box::new(handle)) });
                }
                Err(error) if why.is_empty() => why = reason(&error),
                Err(_) => {}
            }
        }
        Err(unavailable(store, library, &why))
    }

    /// Returns the function of that name.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] if it does not exist.
    ///
    /// # Safety
    /// `F` is the function pointer type of that function.
    pub(crate) unsafe fn function<F: Copy>(&self, name: &str) -> Result<F> {
        // SAFETY: the caller's promise.
        let found = unsafe { self.handle.get::<F>(name) };
        found.map(|symbol| *symbol).map_err(|error| self.lacks(&error))
    }

    /// Returns the variable of that name.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] if it does not exist.
    pub(crate) fn variable<T>(&self, name: &str) -> Result<Variable<T>> {
        // SAFETY: any symbol has an address, and nothing else is read from it here.
        let found = unsafe { self.handle.get::<*const T>(name) };
        found.map(|symbol| Variable(*symbol)).map_err(|error| self.lacks(&error))
    }

    fn lacks(&self, error: &libloading::Error) -> Error {
        unavailable(self.store, self.library, &reason(error))
    }
}

/// Returns the message of the loader.
fn reason(error: &libloading::Error) -> String {
    use std::error::Error as _;
    error.source().map_or_else(|| error.to_string(), |source| source.to_string())
}

fn unavailable(store: &'static str, library: &Library, why: &str) -> Error {
    let package = library.package;
    Error::Unavailable { store, why: format!("{why}; install the package {package}") }
}
