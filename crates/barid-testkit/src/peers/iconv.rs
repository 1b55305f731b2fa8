//! `iconv` of the GNU C library: its tables of charsets.

use std::io::{Result, Write as _};
use std::process::{Command, Stdio};

use crate::skip_or_fail;

/// The program, which has no state.
#[derive(Clone, Copy, Debug)]
pub struct Iconv(());

impl Iconv {
    /// Finds the program; `None` after [`skip_or_fail`] if it is missing, or of another C library.
    ///
    /// # Panics
    ///
    /// With `CI=true` if it is missing.
    pub fn new() -> Option<Self> {
        let output = Command::new("iconv").arg("--version").output();
        if output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("GLIBC")) {
            return Some(Self(()));
        }
        skip_or_fail("iconv of the GNU C library");
        None
    }

    /// Converts a text from a charset, by its name in the C library, to UTF-8. What is invalid is
    /// left out.
    ///
    /// # Errors
    /// Errors of starting the program and of its pipes.
    ///
    /// # Panics
    /// If the thread that writes to the program does.
    pub fn to_utf8(self, charset: &str, text: Vec<u8>) -> Result<String> {
        let mut command = Command::new("iconv");
        command.args(["-c", "-f", charset, "-t", "UTF-8"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut stdin = child.stdin.take().expect("because it is a pipe");
        // The program answers before it has read all.
        let writer = std::thread::spawn(move || stdin.write_all(&text));
        let output = child.wait_with_output()?;
        writer.join().expect("because writing does not panic")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
