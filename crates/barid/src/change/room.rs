//! The limits for keeping expunged messages: size and time.

use std::path::Path;
use std::time::Duration;

use barid_types::Uid;
use barid_vfs::{Timestamp, Vfs};

use crate::limits::KEPT_SMALL_LEN;
use crate::{Error, Mailbox, Result};

/// Treatment of the messages of an expunge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeepExpunged {
    /// They are not kept. An undo reports that if older expunges are kept.
    #[default]
    No,
    /// They are kept for [`Mailbox::undo`] if possible, and expunged in any case: suits a server,
    /// whose EXPUNGE must not fail because of that.
    WherePossible(KeepLimits),
    /// They are kept; otherwise the expunge fails with [`Error::CannotKeep`] and changes nothing.
    OrRefuse(KeepLimits),
}

/// The limits of the kept expunged messages of a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepLimits {
    /// Bytes of all kept expunges. `None` stands for a quarter of the space that would be free
    /// without them, as long as a tenth of the file system stays free; up to 64 MB a quarter is
    /// enough.
    pub bytes_max: Option<u64>,
    /// Time for which they are kept.
    pub age_max: Duration,
}

impl Default for KeepLimits {
    /// Returns limits without a fixed size, and with 30 days.
    fn default() -> Self {
        Self { bytes_max: None, age_max: Duration::from_secs(30 * 86_400) }
    }
}

/// The space needed to keep the messages of an expunge, and the room for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeepPlan {
    /// Bytes of the messages.
    pub bytes: u64,
    /// Bytes for which there is room, once older expunges are removed.
    pub bytes_max: u64,
    /// Bytes for which there is room if all messages are copied.
    pub(super) copied_max: u64,
    /// `true` if the messages are files on the file system of the state folder, so that links keep
    /// them.
    pub is_linked: bool,
    /// Time from which they may be dropped.
    pub until: Timestamp,
    /// `true` if copies and all older expunges do not fit on the disk together.
    pub(super) is_tight: bool,
}

impl KeepPlan {
    /// Returns `true` if the messages can be kept.
    pub fn fits(&self) -> bool {
        self.bytes <= self.bytes_max
    }
}

/// The space of a file system.
#[derive(Clone, Copy)]
struct Space {
    total: u64,
    free: u64,
}

impl Space {
    /// Returns the bytes that may be kept if `pool` bytes would be free without the kept messages.
    fn room(&self, pool: u64) -> u64 {
        let quarter = pool / 4;
        let above_reserve = pool.saturating_sub(self.total / 10);
        quarter.min(above_reserve).max(quarter.min(KEPT_SMALL_LEN))
    }
}

impl Mailbox {
    /// Computes the space needed to keep messages that are to be expunged. Costs some calls of the
    /// file system, and an opening for each kept expunge.
    ///
    /// # Errors
    /// A damaged cache; errors of the file system.
    pub fn keep_plan(&self, uids: &[Uid], limits: &KeepLimits) -> Result<KeepPlan> {
        let bytes = self.bytes_of_messages(uids)?;
        let vfs = &*self.vfs;
        let state = existing(vfs, &self.options.state_dir);
        let at = |path| Error::at(path);
        let device = vfs.metadata(state).map_err(at(state))?.device;
        let of_mailbox = vfs.metadata(self.path()).map_err(at(self.path()))?.device;
        let is_linked = self.format().has_message_files() && device == of_mailbox;
        let space = Space {
            total: vfs.total_space(state).map_err(at(state))?,
            free: vfs.free_space(state).map_err(at(state))?,
        };
        let pool = space.free.saturating_add(self.kept_folder().summary()?.bytes);
        let age = i64::try_from(limits.age_max.as_nanos()).unwrap_or(i64::MAX);
        let copied_max = limits.bytes_max.unwrap_or_else(|| space.room(pool));
        let bytes_max = match limits.bytes_max {
            // The space of linked messages is free as soon as they are not kept.
            None if is_linked => space.room(pool.saturating_add(bytes)),
            _ => copied_max,
        };
        Ok(KeepPlan {
            bytes,
            bytes_max,
            copied_max,
            is_linked,
            until: Timestamp { unix_nanos: vfs.now().unix_nanos.saturating_add(age) },
            is_tight: !is_linked && space.free / 2 < bytes,
        })
    }
}

/// Returns the folder, or the nearest of its ancestors that exists.
fn existing<'p>(vfs: &dyn Vfs, dir: &'p Path) -> &'p Path {
    let is_there = |path: &&Path| vfs.metadata(path).is_ok();
    dir.ancestors().find(is_there).unwrap_or(Path::new("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    fn check(total: u64, pool: u64, expected: u64) {
        assert_eq!(Space { total, free: pool }.room(pool), expected, "{total} {pool}");
    }

    #[test]
    fn a_quarter_is_kept_and_a_tenth_stays_free() {
        check(100 * GB, 40 * GB, 10 * GB);
        check(100 * GB, 12 * GB, 2 * GB);
        check(100 * GB, 8 * GB, KEPT_SMALL_LEN);
        check(100 * GB, 100_000_000, 25_000_000);
        check(100 * GB, 0, 0);
        check(u64::MAX, u64::MAX, u64::MAX / 4);
    }
}
