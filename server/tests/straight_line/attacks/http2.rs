//! HTTP/2 by hand: frames that no honest client sends. Whatever the server answers is read only
//! as far as flow control needs it; a connection that it closed takes what is sent and drops it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// The largest frame that everybody takes.
const FRAME_BYTES: usize = 16_384;
const INITIAL_WINDOW: i64 = 65_535;
const PATH: &str = "/leasewatch.v1.Telemetry/Stream";

/// One connection.
pub(super) struct Http2 {
    stream: TcpStream,
    is_over: bool,
    /// What may be sent on the connection, and on stream 1.
    windows: (i64, i64),
}

impl Http2 {
    /// With the window that the server may fill for each stream.
    pub(super) fn connect(address: &str, window: Option<u32>) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut client = Self { stream, is_over: false, windows: (INITIAL_WINDOW, INITIAL_WINDOW) };
        client.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let mut settings = Vec::new();
        if let Some(window) = window {
            settings.extend(4_u16.to_be_bytes());
            settings.extend(window.to_be_bytes());
        }
        client.frame(SETTINGS, 0, 0, &settings);
        client
    }

    pub(super) fn open_rpc(&mut self, stream: u32, more: &[(&str, &str)]) {
        self.frame(HEADERS, END_HEADERS, stream, &request_headers(more));
    }

    pub(super) fn get(&mut self, stream: u32, path: &str) {
        let headers = [
            header(":method", "GET"),
            header(":scheme", "http"),
            header(":authority", "127.0.0.1"),
            header(":path", path),
        ];
        self.frame(HEADERS, END_HEADERS | END_STREAM, stream, &headers.concat());
    }

    /// A gRPC message that says it has `length` bytes, and `sent` zeros of it, as fast as flow
    /// control lets them through.
    pub(super) fn send_message(&mut self, stream: u32, flag: u8, length: u32, sent: usize) {
        let mut prefix = vec![flag];
        prefix.extend(length.to_be_bytes());
        self.frame(DATA, 0, stream, &prefix);
        self.spend(prefix.len());
        let zeros = vec![0; FRAME_BYTES];
        let mut left = sent;
        while left > 0 && !self.is_over {
            let window = usize::try_from(self.windows.0.min(self.windows.1)).unwrap_or(0);
            let bytes = left.min(window).min(FRAME_BYTES);
            if bytes == 0 {
                self.read_frame();
                continue;
            }
            self.frame(DATA, 0, stream, &zeros[..bytes]);
            self.spend(bytes);
            left -= bytes;
        }
    }

    /// The same frame many times; in pieces, so that the server has to take them.
    pub(super) fn repeat(&mut self, times: usize, frame: &[u8]) {
        let piece = (FRAME_BYTES / frame.len()).max(1);
        for _ in 0..times.div_ceil(piece) {
            if self.is_over {
                return;
            }
            self.write(&frame.repeat(piece));
        }
    }

    pub(super) fn frame(&mut self, kind: u8, flags: u8, stream: u32, body: &[u8]) {
        self.write(&frame(kind, flags, stream, body));
    }

    fn spend(&mut self, bytes: usize) {
        let bytes = i64::try_from(bytes).unwrap();
        self.windows = (self.windows.0 - bytes, self.windows.1 - bytes);
    }

    fn write(&mut self, bytes: &[u8]) {
        // A server that closes, or reads no more, has answered.
        self.is_over |= self.stream.write_all(bytes).is_err();
    }

    fn read_frame(&mut self) {
        let mut head = [0; 9];
        if self.stream.read_exact(&mut head).is_err() {
            self.is_over = true;
            return;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut body = vec![0; length];
        self.is_over |= self.stream.read_exact(&mut body).is_err();
        let number = |at: usize| {
            let bytes = body.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            i64::from(u32::from_be_bytes(bytes.unwrap_or_default()))
        };
        match head[3] {
            WINDOW_UPDATE if stream == 0 => self.windows.0 += number(0),
            WINDOW_UPDATE => self.windows.1 += number(0),
            SETTINGS if head[4] == 0 => {
                for at in (0..length).step_by(6) {
                    if body[at..at + 2] == [0, 4] {
                        self.windows.1 += number(at + 2) - INITIAL_WINDOW;
                    }
                }
                self.frame(SETTINGS, 1, 0, &[]);
            }
            RST_STREAM | GO_AWAY => self.is_over = true,
            // The end of the answer.
            HEADERS if head[4] & END_STREAM != 0 => self.is_over = true,
            _ => {}
        }
    }
}

/// One frame as it travels.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(body);
    frame
}

/// The headers of the agents' call.
pub(super) fn request_headers(more: &[(&str, &str)]) -> Vec<u8> {
    let usual = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "127.0.0.1"),
        (":path", PATH),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    usual.iter().chain(more).flat_map(|(name, value)| header(name, value)).collect()
}

/// A header that is not put into the table, uncompressed.
pub(super) fn header(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name, value] {
        bytes.push(u8::try_from(text.len()).ok().filter(|length| *length < 127).unwrap());
        bytes.extend(text.as_bytes());
    }
    bytes
}
