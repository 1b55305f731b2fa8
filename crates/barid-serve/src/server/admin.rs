//! The other end of the control socket, for `barid admin`.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::supervisor::Request;

/// A request to a server that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminVerb {
    /// The users who have sessions.
    Who,
    /// All sessions.
    Sessions,
    /// Ends the sessions of a user.
    KickUser(String),
    /// Ends a session.
    KickSession(u64),
    /// The last lines of the log.
    Log(usize),
    /// The account of a user.
    User(String),
    /// The processes.
    Status,
}

/// Time for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks the server whose control socket is at `path`; returns one value for each line of its
/// answer.
///
/// # Errors
/// No server; a refusal, as its text.
pub fn ask_server(path: &Path, verb: AdminVerb) -> io::Result<Vec<Value>> {
    let request = match verb {
        AdminVerb::Who => Request::Who,
        AdminVerb::Sessions => Request::Sessions,
        AdminVerb::KickUser(user) => Request::Kick { user: Some(user), session: None },
        AdminVerb::KickSession(session) => Request::Kick { user: None, session: Some(session) },
        AdminVerb::Log(lines) => Request::Log { lines },
        AdminVerb::User(name) => Request::User { name },
        AdminVerb::Status => Request::Status,
    };
    let at =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let mut stream = UnixStream::connect(path).map_err(at)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let line = format!("{}\n", serde_json::to_string(&request)?);
    stream.write_all(line.as_bytes()).map_err(at)?;
    let mut values = Vec::new();
    for line in BufReader::new(stream).lines() {
        let value: Value = serde_json::from_str(&line.map_err(at)?)?;
        if let Some(error) = value.get("error").and_then(Value::as_str) {
            return Err(io::Error::other(error.to_owned()));
        }
        values.push(value);
    }
    Ok(values)
}
