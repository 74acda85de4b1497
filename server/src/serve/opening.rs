//! The first bytes of a connection: TLS or not, HTTP/1 or HTTP/2.
//!
//! TLS begins with the byte 0x16, which no HTTP does; HTTP/2 begins with its preface. What was
//! read to find out is read again by whoever goes on, so nothing is lost.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The content type of a TLS handshake record.
const TLS_HANDSHAKE: u8 = 0x16;

/// What a client begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    Tls,
    Http1,
    Http2,
}

impl Opening {
    /// `None` while it could still be either HTTP.
    fn of(seen: &[u8]) -> Option<Self> {
        if seen.first() == Some(&TLS_HANDSHAKE) {
            Some(Self::Tls)
        } else if !PREFACE.starts_with(seen) {
            Some(Self::Http1)
        } else if seen.len() == PREFACE.len() {
            Some(Self::Http2)
        } else {
            None
        }
    }

    /// Reads until it is clear what this is.
    ///
    /// # Errors
    /// When the client ends before.
    pub(super) async fn read<S: AsyncRead + Unpin>(
        mut stream: S,
    ) -> io::Result<(Self, Prefixed<S>)> {
        let mut seen = Vec::with_capacity(PREFACE.len());
        loop {
            let mut next = [0; PREFACE.len()];
            let room = PREFACE.len() - seen.len();
            let length = stream.read(&mut next[..room]).await?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            seen.extend_from_slice(&next[..length]);
            if let Some(opening) = Self::of(&seen) {
                return Ok((opening, Prefixed { seen, at: 0, stream }));
            }
        }
    }
}

/// A stream whose first bytes were read already.
#[derive(Debug)]
pub(super) struct Prefixed<S> {
    seen: Vec<u8>,
    at: usize,
    stream: S,
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefixed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let left = &self.seen[self.at..];
        if left.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let length = left.len().min(buffer.remaining());
        buffer.put_slice(&left[..length]);
        self.at += length;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prefixed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[test]
    fn the_first_bytes_tell() {
        assert_eq!(Opening::of(&[0x16, 3, 1]), Some(Opening::Tls));
        assert_eq!(Opening::of(b"GET / HTTP/1.1"), Some(Opening::Http1));
        assert_eq!(Opening::of(b"P"), None);
        assert_eq!(Opening::of(b"POST"), Some(Opening::Http1));
        assert_eq!(Opening::of(&PREFACE[..23]), None);
        assert_eq!(Opening::of(PREFACE), Some(Opening::Http2));
        assert_eq!(Opening::of(b""), None);
    }

    #[tokio::test]
    async fn a_byte_at_a_time_is_read_again_whole() {
        for (sent, expected) in [(PREFACE, Opening::Http2), (b"PRICE / HTTP/1.0", Opening::Http1)] {
            let (mut client, server) = tokio::io::duplex(1);
            let sending = tokio::spawn(async move {
                client.write_all(sent).await.unwrap();
                client.shutdown().await.unwrap();
            });
            let (opening, mut stream) = Opening::read(server).await.unwrap();
            assert_eq!(opening, expected);
            let mut read = Vec::new();
            stream.read_to_end(&mut read).await.unwrap();
            assert_eq!(read, sent);
            sending.await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_client_that_ends_early_is_an_error() {
        let (client, server) = tokio::io::duplex(8);
        drop(client);
        assert!(Opening::read(server).await.is_err());
    }
}
