//! The mail of the users who have sessions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use barid::vfs::Vfs;
use barid_auth::User;

use crate::mail::{UserMail, UserOptions};

/// Returns where the mail of a user is.
pub(crate) type OptionsOf = dyn Fn(&User) -> std::io::Result<UserOptions> + Send + Sync;

/// The mail of a user, locked while it is opened.
type Slot = Arc<Mutex<Weak<UserMail>>>;

/// The mail of the users who have sessions: one open tree for all sessions of a user.
pub(crate) struct Users {
    vfs: Arc<dyn Vfs>,
    options_of: Box<OptionsOf>,
    slots: Mutex<HashMap<String, Slot>>,
}

impl Users {
    pub(crate) fn new(vfs: Arc<dyn Vfs>, options_of: Box<OptionsOf>) -> Self {
        Self { vfs, options_of, slots: Mutex::default() }
    }

    /// Returns the mail of a user, opened if nobody has it open.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(crate) fn open(&self, user: &User) -> std::io::Result<Arc<UserMail>> {
        let slot = self.slot(user.name.as_str());
        // Other users do not wait for this one's disk.
        let mut open = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mail) = open.upgrade() {
            return Ok(mail);
        }
        let options = (self.options_of)(user)?;
        let mail = UserMail::open(Arc::clone(&self.vfs), options).map_err(std::io::Error::other)?;
        let mail = Arc::new(mail);
        *open = Arc::downgrade(&mail);
        Ok(mail)
    }

    /// Returns the slot of a user, and removes those that nobody uses.
    fn slot(&self, name: &str) -> Slot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|_, slot| {
            Arc::strong_count(slot) > 1
                || slot.lock().unwrap_or_else(PoisonError::into_inner).strong_count() > 0
        });
        Arc::clone(slots.entry(name.to_owned()).or_default())
    }
}
