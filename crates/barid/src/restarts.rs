//! Restart points of compressed mailboxes, stored beside the cache (`docs/formats/derived.md`).

use crate::View;
use crate::kept::DerivedSnapshot;
use crate::limits::RESTART_POINTS_LEN_MAX;

const KIND: &str = "restarts";

impl View {
    /// Passes the stored restart points to the format, once, before messages are read.
    pub(crate) fn load_restart_points(&self) {
        if !self.storage.has_restart_points() {
            return;
        }
        self.has_restart_points.get_or_init(|| {
            if let Some(kept) = self.kept_restart_points().open_lasting(RESTART_POINTS_LEN_MAX) {
                let len = kept.len();
                let read = move |range| kept.read(range).ok();
                self.storage.take_restart_points(len, Box::new(read));
            }
        });
    }

    /// Stores the restart points that the format learned, if there are many new ones.
    pub(crate) fn keep_restart_points(&self) {
        if let Some(bytes) = self.storage.restart_points_to_keep() {
            self.kept_restart_points().store(bytes);
        }
    }

    fn kept_restart_points(&self) -> DerivedSnapshot<'_> {
        DerivedSnapshot::new(&self.place, &self.snapshot, KIND.to_owned())
    }
}
