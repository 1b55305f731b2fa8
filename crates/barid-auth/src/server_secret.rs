//! A secret of the server that outlives its process.

use std::io;
use std::path::Path;

use barid_vfs::{Host, Vfs, atomic_replace};
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::mac::MacKey;

/// Number of bytes of the secret.
const LEN: usize = 32;
/// Permission bits of its file.
const MODE: u32 = 0o600;

/// A key from which the salts of users who do not exist are computed, so that they stay the same
/// when the server restarts.
#[derive(Clone, Debug)]
pub struct ServerSecret(MacKey);

impl ServerSecret {
    /// Creates a secret from given bytes.
    #[must_use]
    pub fn new(bytes: &[u8; 32]) -> Self {
        Self(MacKey::new(bytes))
    }

    /// Creates a secret that lasts as long as the process.
    ///
    /// # Errors
    /// Returns [`Error::Random`] if the system has no random bytes.
    pub fn random(host: &dyn Host) -> Result<Self> {
        Ok(Self::new(&*random(host)?))
    }

    /// Reads the secret in the file `path`; creates the file if it does not exist, durably, and
    /// readable by its owner only.
    ///
    /// # Errors
    /// Returns errors of the file system, [`Error::SecretLen`] and [`Error::Random`].
    pub fn load_or_create(vfs: &dyn Vfs, path: &Path) -> Result<Self> {
        match vfs.read(path, 4 * LEN as u64) {
            Ok(bytes) => {
                let bytes = Zeroizing::new(bytes);
                let bytes: &[u8; LEN] = bytes.as_slice().try_into().map_err(|_| {
                    Error::SecretLen { path: path.to_owned(), len: bytes.len(), expected: LEN }
                })?;
                Ok(Self::new(bytes))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let bytes = random(vfs)?;
                atomic_replace(vfs, path, MODE, true, |file| file.write_all_at(&*bytes, 0))
                    .map_err(Error::at(path))?;
                Ok(Self::new(&bytes))
            }
            Err(error) => Err(Error::at(path)(error)),
        }
    }

    /// Returns bytes that depend on the secret and `parts` only.
    pub(crate) fn derive(&self, parts: &[&[u8]]) -> [u8; 32] {
        self.0.of(parts)
    }
}

/// Returns random bytes.
pub(crate) fn random<const N: usize>(host: &dyn Host) -> Result<Zeroizing<[u8; N]>> {
    let mut bytes = Zeroizing::new([0; N]);
    host.random(&mut *bytes).map_err(Error::Random)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use barid_vfs::{MemVfs, OpenOptions};

    use super::*;

    #[test]
    fn a_secret_lasts() {
        let vfs = MemVfs::new();
        vfs.create_dir_all(Path::new("/state"), 0o700).unwrap();
        let path = Path::new("/state/auth-secret");
        let first = ServerSecret::load_or_create(&vfs, path).unwrap().derive(&[b"x"]);
        let second = ServerSecret::load_or_create(&vfs, path).unwrap().derive(&[b"x"]);
        assert_eq!(first, second);
        assert_eq!(vfs.metadata(path).unwrap().mode & 0o777, 0o600);
    }

    #[test]
    fn a_torn_secret_is_reported() {
        let vfs = MemVfs::new();
        let path = Path::new("/secret");
        vfs.open(path, OpenOptions::create(0o600)).unwrap().write_all_at(b"short", 0).unwrap();
        let error = ServerSecret::load_or_create(&vfs, path).unwrap_err();
        let expected = "/secret: 5 bytes, a server secret has 32; remove the file";
        assert_eq!(error.to_string(), expected);
    }
}
