//! Just enough HTTP/1.1 to ask programs on loopback and to time the last byte of an answer.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Context as _;

const PATIENCE: Duration = Duration::from_secs(300);

/// A connection that is kept.
#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    stream: BufReader<TcpStream>,
    /// Bytes written so far, headers included.
    pub sent_bytes: u64,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Its code.
    pub status: u16,
    /// Its body, decoded from chunks.
    pub body: Vec<u8>,
    /// From the first byte of the question to the last of the answer.
    pub took: Duration,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// When nothing listens there.
    pub fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { address, stream: BufReader::new(stream), sent_bytes: 0 })
    }

    /// Connects to something that is still starting.
    ///
    /// # Errors
    /// When nothing answers for half a minute.
    pub fn connect_when_ready(address: SocketAddr, path: &str) -> anyhow::Result<Self> {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let ready = Self::connect(address).and_then(|mut client| {
                let answer = client.get(path)?;
                anyhow::ensure!(answer.status == 200, "{path} answers {}", answer.status);
                Ok(client)
            });
            match ready {
                Ok(client) => return Ok(client),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// Asks for a page.
    ///
    /// # Errors
    /// When the connection breaks or the answer is not understood.
    pub fn get(&mut self, path: &str) -> anyhow::Result<Answer> {
        self.ask("GET", path, "", &[])
    }

    /// Sends a body; `headers` are whole lines, each with its end.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn post(&mut self, path: &str, headers: &str, body: &[u8]) -> anyhow::Result<Answer> {
        self.ask("POST", path, headers, body)
    }

    fn ask(
        &mut self,
        verb: &str,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> anyhow::Result<Answer> {
        let (host, length) = (self.address, body.len());
        let head = format!(
            "{verb} {path} HTTP/1.1\r\nHost: {host}\r\n{headers}Content-Length: {length}\r\n\r\n"
        );
        let began = Instant::now();
        let stream = self.stream.get_mut();
        stream.write_all(&[head.as_bytes(), body].concat())?;
        self.sent_bytes += u64::try_from(head.len() + length)?;
        let (status, body) = self.answer()?;
        Ok(Answer { status, body, took: began.elapsed() })
    }

    fn answer(&mut self) -> anyhow::Result<(u16, Vec<u8>)> {
        let line = self.line()?;
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.with_context(|| format!("no status: {line}"))?;
        let (mut length, mut chunked) = (0, false);
        loop {
            let line = self.line()?.to_ascii_lowercase();
            match line.split_once(':') {
                Some(("content-length", value)) => length = value.trim().parse()?,
                Some(("transfer-encoding", value)) => chunked = value.trim() == "chunked",
                Some(_) => {}
                None => break,
            }
        }
        let body = if chunked { self.chunks()? } else { self.exactly(length)? };
        Ok((status, body))
    }

    fn chunks(&mut self) -> anyhow::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let length = usize::from_str_radix(line.split(';').next().unwrap_or("").trim(), 16)?;
            body.append(&mut self.exactly(length)?);
            self.line()?;
            if length == 0 {
                return Ok(body);
            }
        }
    }

    fn exactly(&mut self, length: usize) -> anyhow::Result<Vec<u8>> {
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok(body)
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        anyhow::ensure!(self.stream.read_line(&mut line)? > 0, "the connection was closed");
        Ok(line.trim_end().to_owned())
    }
}

/// A port on loopback that nobody listens on right now.
///
/// # Errors
/// When there is none.
pub fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// A text for the part of a URL behind `?`.
#[must_use]
pub fn percent_encoded(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_with_a_length_and_in_chunks_are_read_to_their_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            for answer in [
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
                "HTTP/1.1 204 No Content\r\n\r\n",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n1\r\nf\r\n0\r\n\r\n",
            ] {
                let mut asked = [0; 512];
                assert!(stream.read(&mut asked).unwrap() > 0);
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let mut client = Client::connect(address).unwrap();
        let answers = [
            client.get("/").unwrap(),
            client.post("/", "", b"x").unwrap(),
            client.get("/").unwrap(),
        ];
        assert_eq!(
            answers.map(|a| (a.status, a.body)),
            [(200, b"abc".to_vec()), (204, Vec::new()), (200, b"def".to_vec())]
        );
        server.join().unwrap();
    }

    #[test]
    fn a_selector_survives_a_url() {
        assert_eq!(percent_encoded("{gpu=\"GPU-1\"}"), "%7Bgpu%3D%22GPU-1%22%7D");
    }
}
