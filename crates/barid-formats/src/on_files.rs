//! Methods of [`barid_mailbox::Storage`] that are the same for every format of this crate.

/// Defines, in an `impl Storage`, the methods that depend only on the fields `vfs` and `path` and
/// on the method `file_stamps`.
macro_rules! storage_on_files {
    () => {
        fn name(&self) -> &std::path::Path {
            &self.path
        }

        fn path(&self) -> Option<&std::path::Path> {
            Some(&self.path)
        }

        fn identity(&self, may_write: bool) -> barid_mailbox::Result<barid_state::Identity> {
            let may_write = may_write && !self.format().is_read_only;
            Ok(barid_state::Identity::of(&*self.vfs, &self.path, may_write)?)
        }

        /// Compares inodes.
        fn is_replaced(&self, identity: &barid_state::Identity) -> barid_mailbox::Result<bool> {
            let found = self.vfs.metadata(&self.path);
            let found = found.map_err(barid_mailbox::Error::at(&self.path))?;
            Ok(found.inode != identity.inode)
        }

        fn stamp(&self) -> barid_mailbox::Result<barid_mailbox::Stamp> {
            Ok(self.file_stamps()?.into())
        }

        fn stamp_rules(&self) -> &'static dyn barid_mailbox::StampRules {
            &crate::file_stamps::FileStampRules
        }
    };
}
pub(crate) use storage_on_files;
