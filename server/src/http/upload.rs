//! Small files from a browser: a form with fields and one file, read whole and bounded.

use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use tokio::time::timeout;

use super::error::Fault;
use super::multipart::{FormReader, Piece};

/// Bytes of a form with its file.
const BYTES_MAX: usize = 4 * 1_024 * 1_024;
/// Longest time for all of them to arrive.
const ARRIVAL: Duration = Duration::from_secs(60);
/// Characters of a field that is no file.
const FIELD_CHARS: usize = 1_000;

/// A form as it arrived.
pub(super) struct Upload {
    fields: Vec<(String, Vec<u8>)>,
    /// The name of its file; `None` when none was chosen.
    pub(super) file_name: Option<String>,
}

impl Upload {
    /// Reads it.
    ///
    /// # Errors
    /// [`Fault::TooSlow`], [`Fault::TooLarge`], [`Fault::BadRequest`] for what is no form.
    pub(super) async fn read(request: Request) -> Result<Self, Fault> {
        let not_a_form = || Fault::BadRequest("content-type".to_owned());
        let kind = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let mut reader = FormReader::new(kind.unwrap_or_default()).map_err(|_| not_a_form())?;
        let body = timeout(ARRIVAL, to_bytes(request.into_body(), BYTES_MAX)).await;
        let body = body.map_err(|_| Fault::TooSlow)?.map_err(|_| Fault::TooLarge)?;
        reader.push(&body);
        let mut upload = Self { fields: Vec::new(), file_name: None };
        loop {
            match reader.next().map_err(|_| not_a_form())? {
                Some(Piece::Field { name, file_name }) => {
                    if name == "file" {
                        // A browser sends a file without a name when none was chosen.
                        upload.file_name = file_name.filter(|name| !name.is_empty());
                    }
                    upload.fields.push((name, Vec::new()));
                }
                Some(Piece::Data(data)) => {
                    if let Some((_, bytes)) = upload.fields.last_mut() {
                        bytes.extend_from_slice(&data);
                    }
                }
                Some(Piece::End) => return Ok(upload),
                None => return Err(not_a_form()),
            }
        }
    }

    /// The bytes of a field; empty when it was not sent.
    pub(super) fn bytes(&self, wanted: &str) -> &[u8] {
        let found = self.fields.iter().find(|(name, _)| name == wanted);
        found.map_or(&[], |(_, bytes)| bytes)
    }

    /// A field that is no file.
    pub(super) fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(self.bytes(name)).chars().take(FIELD_CHARS).collect()
    }
}
