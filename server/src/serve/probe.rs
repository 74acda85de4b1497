//! Whether a server on this machine is ready, as its own `/readyz` says: for whatever looks after a
//! process, such as a container's health check.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::own_address;

const PATIENCE: Duration = Duration::from_secs(5);
const STATUS_BYTES: u64 = 12;

/// Returns when the server that listens there says that it is ready.
///
/// # Errors
/// What it says instead, or why nothing can be heard.
pub async fn ready(listen: SocketAddr) -> anyhow::Result<()> {
    let at = own_address(listen);
    let status = timeout(PATIENCE, status(at)).await;
    let status = status.with_context(|| format!("{at} does not answer"))?;
    match status.with_context(|| format!("nothing answers at {at}"))?.strip_prefix("HTTP/1.0 ") {
        Some("200") => Ok(()),
        Some(status) => bail!("the server at {at} is not ready (status {status})"),
        None => bail!("what answers at {at} is no leasewatch server"),
    }
}

/// `HTTP/1.0 200`
async fn status(at: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(at).await?;
    stream.write_all(b"GET /readyz HTTP/1.0\r\nHost: localhost\r\n\r\n").await?;
    let mut line = Vec::new();
    stream.take(STATUS_BYTES).read_to_end(&mut line).await?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    async fn said(answer: &'static [u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            // All of it is read: what is left unread would tear the connection down.
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                asked.push(stream.read_u8().await.unwrap());
            }
            assert!(asked.starts_with(b"GET /readyz HTTP/1.0\r\n"));
            stream.write_all(answer).await.unwrap();
        });
        ready(at).await.map_or_else(|error| error.to_string(), |()| "ready".to_owned())
    }

    #[tokio::test]
    async fn only_a_server_that_says_so_is_ready() {
        assert_eq!(said(b"HTTP/1.0 200 OK\r\n\r\nready").await, "ready");
        assert!(said(b"HTTP/1.0 503 No\r\n\r\n").await.ends_with("not ready (status 503)"));
        assert!(said(b"SSH-2.0-OpenSSH\r\n").await.ends_with("no leasewatch server"));
        assert!(said(b"").await.ends_with("no leasewatch server"));
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        assert!(ready(closed).await.unwrap_err().to_string().starts_with("nothing answers at"));
    }
}
