//! Metrics and health over HTTP, for the machine's own monitoring.

use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::limits::{HTTP_REQUEST_LEN_MAX, HTTP_TIMEOUT};

/// Answers one request; `metrics` returns the text of the metrics, if the supervisor answers.
///
/// # Errors
/// Errors of the connection.
pub(super) async fn answer(
    mut stream: TcpStream,
    metrics: impl AsyncFnOnce() -> Option<String>,
) -> io::Result<()> {
    let request = timeout(HTTP_TIMEOUT, read_request(&mut stream)).await;
    let request = request.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    let (status, body) = match path(&request) {
        Some("/metrics") => match metrics().await {
            Some(text) => ("200 OK", text),
            None => ("503 Service Unavailable", "no answer\n".to_owned()),
        },
        // Whoever gets this answer has reached a front that accepts.
        Some("/health") => ("200 OK", "ok\n".to_owned()),
        Some(_) => ("404 Not Found", "There are /metrics and /health\n".to_owned()),
        None => ("400 Bad Request", "Not a GET request\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let write = async {
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await?;
        stream.shutdown().await
    };
    timeout(HTTP_TIMEOUT, write).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

async fn read_request(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    loop {
        let len = stream.read(&mut piece).await?;
        request.extend_from_slice(&piece[..len]);
        let is_whole = request.windows(4).any(|bytes| bytes == b"\r\n\r\n");
        if len == 0 || is_whole || request.len() > HTTP_REQUEST_LEN_MAX {
            return Ok(request);
        }
    }
}

/// Returns the path of a GET request, without its query.
fn path(request: &[u8]) -> Option<&str> {
    let line = request.split(|byte| *byte == b'\r').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let (target, version) = line.strip_prefix("GET ")?.split_once(' ')?;
    version.starts_with("HTTP/1.").then(|| target.split('?').next().unwrap_or(target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found() {
        let check = |request: &str, expected| assert_eq!(path(request.as_bytes()), expected);
        check("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", Some("/metrics"));
        check("GET /health?x=1 HTTP/1.0\r\n\r\n", Some("/health"));
        check("POST /metrics HTTP/1.1\r\n\r\n", None);
        check("GET /metrics\r\n\r\n", None);
        check("", None);
    }
}
