//! Scan results that tests keep, as the [`barid_mailbox::Known`] of their next scan.

use barid_mailbox::{KnownMessage, ScanReport};
use barid_types::KeywordTable;

/// The results that a test keeps, as a cache would.
pub(crate) trait Remembered: Sync {
    /// Returns the report of the last scan, if there was one.
    fn report(&self) -> Option<&ScanReport>;
    /// Returns the keywords.
    fn table(&self) -> &KeywordTable;
    /// Returns all messages, in order.
    fn messages(&self) -> impl Iterator<Item = KnownMessage<'_>>;
    /// Returns `true` if it says that very many messages are in `new`, so that a scan of a Maildir
    /// loads all.
    fn has_many_new(&self) -> bool {
        false
    }
    /// Notes that names were visited, and whether all of them were those of files in `new`.
    fn visited(&self, all_in_new: bool) {
        let _ = all_in_new;
    }
}

/// Implements [`barid_mailbox::Known`] for a type that implements [`Remembered`].
macro_rules! known_of_remembered {
    ($cached:ty) => {
        impl barid_mailbox::Known for $cached {
            fn stamp(&self) -> Option<barid_mailbox::Stamp> {
                Remembered::report(self).map(|report| report.stamp)
            }
            fn state(&self) -> &[u8] {
                Remembered::report(self).map_or(&[], |report| &report.state)
            }
            fn uidvalidity(&self) -> Option<barid_types::UidValidity> {
                Remembered::report(self).map(|report| report.uidvalidity)
            }
            fn uidnext(&self) -> Option<barid_types::Uid> {
                Remembered::report(self).map(|report| report.uidnext)
            }
            fn keywords(&self) -> &barid_types::KeywordTable {
                self.table()
            }
            fn len(&self) -> u32 {
                self.messages().count() as u32
            }
            fn visit(
                &self,
                first: u32,
                visit: &mut dyn FnMut(&barid_mailbox::KnownMessage<'_>) -> bool,
            ) -> std::result::Result<(), barid_mailbox::SinkError> {
                let mut all_in_new = true;
                self.messages().skip(first as usize).all(|message| {
                    all_in_new &= message.location.message_name().is_some_and(|name| name.in_new);
                    visit(&message)
                });
                self.visited(all_in_new);
                Ok(())
            }
            fn visit_keys(
                &self,
                visit: &mut dyn FnMut(barid_mailbox::KnownKey) -> bool,
            ) -> std::result::Result<(), barid_mailbox::SinkError> {
                let many = self.has_many_new();
                for KnownMessage { uid, key, size, location, .. } in self.messages() {
                    let in_new = location.message_name().is_some_and(|name| name.in_new);
                    for _ in 0..if many { 1000 } else { 1 } {
                        let in_new = in_new || many;
                        if !visit(barid_mailbox::KnownKey { uid, key, size, in_new }) {
                            return Ok(());
                        }
                    }
                }
                Ok(())
            }
        }
    };
}
pub(crate) use known_of_remembered;
