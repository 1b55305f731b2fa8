//! The world of the tests: files in memory, names, and a client of SCRAM.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use barid_auth::base::{PasswdFile, PasswdFileOptions};
use barid_auth::{NameRules, ServerSecret, UserName};
use barid_vfs::{MemVfs, OpenOptions, Vfs};
use base64ct::{Base64, Encoding as _};
use ring::{digest, hmac, pbkdf2};

pub(crate) fn name(text: &str) -> UserName {
    NameRules::default().name(text.as_bytes()).unwrap()
}

/// Opens a passwd-file in memory.
pub(crate) fn passwd_file(text: &str) -> (Arc<MemVfs>, PasswdFile) {
    let vfs = Arc::new(MemVfs::new());
    let path = Path::new("/users");
    let file = vfs.open(path, OpenOptions::create(0o600)).unwrap();
    file.write_all_at(text.as_bytes(), 0).unwrap();
    let base = PasswdFile::open(
        Arc::<MemVfs>::clone(&vfs),
        path,
        PasswdFileOptions::default(),
        ServerSecret::new(&[7; 32]),
    );
    (vfs, base.unwrap())
}

/// A client of SCRAM-SHA-256, written from RFC 5802 for these tests.
pub(crate) struct ScramClient<'a> {
    pub(crate) user: &'a str,
    pub(crate) password: &'a str,
    /// The GS2 header, such as `n,,`.
    pub(crate) header: &'a str,
    /// The data of the channel binding.
    pub(crate) binding: &'a [u8],
}

const CLIENT_NONCE: &str = "rOprNGfwEbeRWgbNEkqO";

impl ScramClient<'_> {
    pub(crate) fn first(&self) -> String {
        format!("{}n={},r={CLIENT_NONCE}", self.header, self.user)
    }

    /// Returns the last message, and the server's answer to it.
    pub(crate) fn last(&self, server_first: &str) -> (String, String) {
        let mut fields = server_first.split(',');
        let mut field = |key| fields.next().and_then(|field| field.strip_prefix(key)).unwrap();
        let (nonce, salt, iterations) = (field("r="), field("s="), field("i="));
        assert!(nonce.starts_with(CLIENT_NONCE) && nonce.len() >= CLIENT_NONCE.len() + 24);
        let salt = Base64::decode_vec(salt).unwrap();
        let iterations: NonZeroU32 = iterations.parse().unwrap();
        let mut salted = [0; 32];
        let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
        pbkdf2::derive(algorithm, iterations, &salt, self.password.as_bytes(), &mut salted);
        let client_key = mac(&salted, b"Client Key");
        let stored_key = digest::digest(&digest::SHA256, &client_key);
        let bound = [self.header.as_bytes(), self.binding].concat();
        let without_proof = format!("c={},r={nonce}", Base64::encode_string(&bound));
        let first_bare = &self.first()[self.header.len()..];
        let signed = format!("{first_bare},{server_first},{without_proof}");
        let signature = mac(stored_key.as_ref(), signed.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        let server_key = mac(&salted, b"Server Key");
        let expected = Base64::encode_string(&mac(&server_key, signed.as_bytes()));
        (format!("{without_proof},p={}", Base64::encode_string(&proof)), format!("v={expected}"))
    }
}

fn mac(key: &[u8], bytes: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), bytes).as_ref().to_vec()
}
