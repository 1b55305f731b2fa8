//! libpam, loaded when it is first used.
//!
//! The declarations are those of Linux-PAM's `security/pam_appl.h` and `_pam_types.h`.

#![expect(unsafe_code, reason = "libpam's functions are what its documentation says")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use zeroize::Zeroize as _;

use crate::error::{Error, Result};
use crate::limits::PAM_PROMPTS_MAX;
use crate::secret::Secret;

/// Names of the library.
const NAMES: [&str; 2] = ["libpam.so.0", "libpam.so.2"];

const PAM_SUCCESS: c_int = 0;
const PAM_BUF_ERR: c_int = 5;
const PAM_CONV_ERR: c_int = 19;
const PAM_USER: c_int = 2;
const PAM_TTY: c_int = 3;
const PAM_RHOST: c_int = 4;
const PAM_PROMPT_ECHO_OFF: c_int = 1;
const PAM_PROMPT_ECHO_ON: c_int = 2;
const PAM_ERROR_MSG: c_int = 3;
const PAM_TEXT_INFO: c_int = 4;
const PAM_SILENT: c_int = 0x8000;
const PAM_DISALLOW_NULL_AUTHTOK: c_int = 1;

/// The errors of libpam that mean something about the user; others are failures of the service.
pub(crate) mod code {
    use std::ffi::c_int;

    pub(crate) const PERM_DENIED: c_int = 6;
    pub(crate) const AUTH_ERR: c_int = 7;
    pub(crate) const USER_UNKNOWN: c_int = 10;
    pub(crate) const MAXTRIES: c_int = 11;
    pub(crate) const NEW_AUTHTOK_REQD: c_int = 12;
    pub(crate) const ACCT_EXPIRED: c_int = 13;
    pub(crate) const AUTHTOK_EXPIRED: c_int = 27;
}

type Handle = c_void;

#[repr(C)]
struct Message {
    style: c_int,
    text: *const c_char,
}

#[repr(C)]
struct Response {
    text: *mut c_char,
    code: c_int,
}

type Converse =
    unsafe extern "C" fn(c_int, *mut *const Message, *mut *mut Response, *mut c_void) -> c_int;

#[repr(C)]
struct PamConversation {
    converse: Converse,
    data: *mut c_void,
}

/// The functions of libpam.
struct Functions {
    start: unsafe extern "C" fn(
        *const c_char,
        *const c_char,
        *const PamConversation,
        *mut *mut Handle,
    ) -> c_int,
    start_confdir: Option<
        unsafe extern "C" fn(
            *const c_char,
            *const c_char,
            *const PamConversation,
            *const c_char,
            *mut *mut Handle,
        ) -> c_int,
    >,
    end: unsafe extern "C" fn(*mut Handle, c_int) -> c_int,
    authenticate: unsafe extern "C" fn(*mut Handle, c_int) -> c_int,
    acct_mgmt: unsafe extern "C" fn(*mut Handle, c_int) -> c_int,
    set_item: unsafe extern "C" fn(*mut Handle, c_int, *const c_void) -> c_int,
    get_item: unsafe extern "C" fn(*const Handle, c_int, *mut *const c_void) -> c_int,
    strerror: unsafe extern "C" fn(*mut Handle, c_int) -> *const c_char,
}

/// A question to PAM.
pub(crate) struct Question<'a> {
    pub(crate) service: &'a str,
    /// The folder of the service's file instead of `/etc/pam.d`.
    pub(crate) folder: Option<&'a Path>,
    pub(crate) user: &'a str,
    pub(crate) password: &'a [u8],
    pub(crate) remote: Option<String>,
}

/// The answer of PAM.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The user is who he says; under this name, which a module may have changed.
    Yes(Vec<u8>),
    /// An error of libpam, and its text.
    No(c_int, String),
}

/// Asks PAM. Blocks as long as the modules do.
pub(crate) fn ask(question: &Question<'_>) -> Result<Answer> {
    let functions = Functions::get()?;
    let c_string = |what, bytes: &[u8]| {
        CString::new(bytes).map_err(|_| Error::unavailable(what, "has a NUL character"))
    };
    let service = c_string("the PAM service", question.service.as_bytes())?;
    let user = c_string("the user name", question.user.as_bytes())?;
    let folder = question.folder.map(|folder| {
        c_string("the folder of PAM services", folder.as_os_str().as_encoded_bytes())
    });
    let folder = folder.transpose()?;
    let password = Secret::new(c_string("the password", question.password)?.into_bytes_with_nul());
    let mut replies = Replies { user: &user, password: &password, prompts: 0 };
    let conversation = PamConversation { converse, data: (&raw mut replies).cast() };
    let session = Session::start(functions, &service, &user, folder.as_deref(), &conversation)?;
    session.set(PAM_TTY, c"barid")?;
    if let Some(remote) = &question.remote {
        session.set(PAM_RHOST, &c_string("the address", remote.as_bytes())?)?;
    }
    Ok(session.run())
}

/// The data of the conversation.
struct Replies<'a> {
    user: &'a CStr,
    /// With a NUL at its end.
    password: &'a Secret,
    prompts: usize,
}

/// A session of libpam, ended when it is dropped.
struct Session {
    functions: &'static Functions,
    handle: *mut Handle,
    status: std::cell::Cell<c_int>,
}

impl Session {
    fn start(
        functions: &'static Functions,
        service: &CStr,
        user: &CStr,
        folder: Option<&CStr>,
        conversation: &PamConversation,
    ) -> Result<Self> {
        let mut handle = std::ptr::null_mut();
        let (service, user) = (service.as_ptr(), user.as_ptr());
        let status = match folder {
            // SAFETY: all are C strings or structs that outlive the session, which copies them;
            // the replies that the conversation points to live as long as the caller.
            None => unsafe { (functions.start)(service, user, conversation, &raw mut handle) },
            Some(folder) => {
                let start = functions.start_confdir.ok_or_else(|| {
                    Error::unavailable("libpam", "before version 1.4 it has no other folders")
                })?;
                // SAFETY: as above.
                unsafe { start(service, user, conversation, folder.as_ptr(), &raw mut handle) }
            }
        };
        if status != PAM_SUCCESS || handle.is_null() {
            return Err(Error::unavailable("libpam", format!("pam_start: error {status}")));
        }
        Ok(Self { functions, handle, status: std::cell::Cell::new(PAM_SUCCESS) })
    }

    fn set(&self, item: c_int, value: &CStr) -> Result<()> {
        // SAFETY: the handle is open, and these items are C strings, which libpam copies.
        let status = unsafe { (self.functions.set_item)(self.handle, item, value.as_ptr().cast()) };
        match status {
            PAM_SUCCESS => Ok(()),
            _ => Err(Error::unavailable("libpam", self.text(status))),
        }
    }

    fn run(&self) -> Answer {
        let flags = PAM_SILENT | PAM_DISALLOW_NULL_AUTHTOK;
        for step in [self.functions.authenticate, self.functions.acct_mgmt] {
            // SAFETY: the handle is open.
            let status = unsafe { step(self.handle, flags) };
            self.status.set(status);
            if status != PAM_SUCCESS {
                return Answer::No(status, self.text(status));
            }
        }
        let mut user: *const c_void = std::ptr::null();
        // SAFETY: the handle is open, and `user` receives a pointer that it owns.
        let status = unsafe { (self.functions.get_item)(self.handle, PAM_USER, &raw mut user) };
        if status != PAM_SUCCESS || user.is_null() {
            return Answer::No(status, "PAM has no user name".to_owned());
        }
        // SAFETY: PAM_USER is a C string that lives until it is set again.
        Answer::Yes(unsafe { CStr::from_ptr(user.cast()) }.to_bytes().to_vec())
    }

    fn text(&self, status: c_int) -> String {
        // SAFETY: the handle is open; the text is static, or null for an unknown error.
        let text = unsafe { (self.functions.strerror)(self.handle, status) };
        if text.is_null() {
            return format!("error {status}");
        }
        // SAFETY: as above, a C string.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and nobody uses it afterwards.
        unsafe { (self.functions.end)(self.handle, self.status.get()) };
    }
}

/// Answers the prompts of PAM's modules: hidden ones with the password, visible ones with the user
/// name; messages are dropped.
///
/// # Safety
/// libpam calls it with `count` messages and the pointer to [`Replies`].
unsafe extern "C" fn converse(
    count: c_int,
    messages: *mut *const Message,
    responses: *mut *mut Response,
    data: *mut c_void,
) -> c_int {
    let Ok(count) = usize::try_from(count) else { return PAM_CONV_ERR };
    if count == 0 || messages.is_null() || responses.is_null() || data.is_null() {
        return PAM_CONV_ERR;
    }
    // SAFETY: the pointer is the one of the conversation, and libpam runs in one thread.
    let replies = unsafe { &mut *data.cast::<Replies<'_>>() };
    replies.prompts = replies.prompts.saturating_add(count);
    if replies.prompts > PAM_PROMPTS_MAX {
        return PAM_CONV_ERR;
    }
    // SAFETY: memory for `count` responses, all zero, which libpam frees.
    let answers = unsafe { libc::calloc(count, size_of::<Response>()) }.cast::<Response>();
    if answers.is_null() {
        return PAM_BUF_ERR;
    }
    for at in 0..count {
        // SAFETY: there are `count` pointers to messages.
        let message = unsafe { *messages.add(at) };
        // SAFETY: a message of libpam is a valid struct, if there is one.
        let style = unsafe { message.as_ref() }.map(|message| message.style);
        let text = match style {
            Some(PAM_PROMPT_ECHO_OFF) => replies.password.expose().as_ptr().cast(),
            Some(PAM_PROMPT_ECHO_ON) => replies.user.as_ptr(),
            Some(PAM_ERROR_MSG | PAM_TEXT_INFO) => continue,
            _ => {
                free_answers(answers, at);
                return PAM_CONV_ERR;
            }
        };
        // SAFETY: both texts end with a NUL; the copy is libpam's.
        let copy = unsafe { libc::strdup(text) };
        if copy.is_null() {
            free_answers(answers, at);
            return PAM_BUF_ERR;
        }
        // SAFETY: there is memory for `count` responses.
        unsafe { (*answers.add(at)).text = copy };
    }
    // SAFETY: a place for the pointer, which is not null.
    unsafe { *responses = answers };
    PAM_SUCCESS
}

/// Overwrites and frees the first `count` answers, and the memory of all.
fn free_answers(answers: *mut Response, count: usize) {
    for at in 0..count {
        // SAFETY: the first `count` answers were made by `converse`.
        let text = unsafe { (*answers.add(at)).text };
        if !text.is_null() {
            // SAFETY: a copy made by strdup; it is freed once.
            unsafe {
                let len = libc::strlen(text);
                std::slice::from_raw_parts_mut(text.cast::<u8>(), len).zeroize();
                libc::free(text.cast());
            }
        }
    }
    // SAFETY: made by calloc, and freed once.
    unsafe { libc::free(answers.cast()) };
}

impl Functions {
    fn get() -> Result<&'static Self> {
        static LOADED: OnceLock<std::result::Result<Functions, String>> = OnceLock::new();
        let loaded = LOADED.get_or_init(Self::load).as_ref();
        loaded.map_err(|why| {
            Error::unavailable("PAM", format!("{why}; install the package libpam0g"))
        })
    }

    fn load() -> std::result::Result<Self, String> {
        if is_static() {
            return Err("this program is linked statically, and cannot load libraries".to_owned());
        }
        // SAFETY: libpam is a library whose initialisers are meant to be run by any program.
        let open = |name| unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) };
        let library = open(NAMES[0]).or_else(|_| open(NAMES[1])).map_err(|error| reason(&error))?;
        // Kept for ever: function pointers into it are.
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: the types are the declarations of the library's header.
        unsafe {
            Ok(Self {
                start: function(library, "pam_start")?,
                start_confdir: function(library, "pam_start_confdir").ok(),
                end: function(library, "pam_end")?,
                authenticate: function(library, "pam_authenticate")?,
                acct_mgmt: function(library, "pam_acct_mgmt")?,
                set_item: function(library, "pam_set_item")?,
                get_item: function(library, "pam_get_item")?,
                strerror: function(library, "pam_strerror")?,
            })
        }
    }
}

/// Returns the function of that name.
///
/// # Safety
/// `F` is the function pointer type of that function.
unsafe fn function<F: Copy>(library: &Library, name: &str) -> std::result::Result<F, String> {
    // SAFETY: the caller's promise.
    let found = unsafe { library.get::<F>(name) };
    found.map(|symbol| *symbol).map_err(|error| reason(&error))
}

/// Returns the message of the loader.
fn reason(error: &libloading::Error) -> String {
    use std::error::Error as _;
    error.source().map_or_else(|| error.to_string(), |source| source.to_string())
}

/// Returns `true` if this program is linked statically: a library would bring a second C library.
fn is_static() -> bool {
    // SAFETY: reads what the kernel told the process at its start: where its interpreter is.
    unsafe { libc::getauxval(libc::AT_BASE) == 0 }
}
