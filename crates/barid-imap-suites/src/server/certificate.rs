//! Certificates for servers that have none.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use barid_testkit::peers::program;

/// A certificate for `localhost` and its key.
#[derive(Clone, Debug)]
pub(super) struct Certificate {
    /// The file of the certificate.
    pub(super) certificate: PathBuf,
    /// The file of the key.
    pub(super) key: PathBuf,
}

impl Certificate {
    /// Makes a certificate in a folder with `openssl`; `None` if that is not installed.
    pub(super) fn make(folder: &Path) -> io::Result<Option<Self>> {
        let Some(openssl) = program("openssl") else { return Ok(None) };
        let made = Self { certificate: folder.join("cert.pem"), key: folder.join("key.pem") };
        let mut command = Command::new(openssl);
        command.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"]);
        command.args(["-subj", "/CN=localhost"]);
        command.args(["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]);
        command.arg("-keyout").arg(&made.key).arg("-out").arg(&made.certificate);
        let output = command.stdin(Stdio::null()).output()?;
        if output.status.success() {
            return Ok(Some(made));
        }
        Err(io::Error::other(format!("openssl: {}", String::from_utf8_lossy(&output.stderr))))
    }
}
