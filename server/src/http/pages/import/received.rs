//! Takes a form with a file from a request: the file to a file, the fields to memory, both bounded.
//!
//! What is too much is read to its end and thrown away. A server that stops reading breaks the
//! connection, and the browser then shows that, and not the page that says why.

use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use futures_util::StreamExt as _;
use leasewatch_web::pages::import::{Entered, Field, FieldFault, Matter};
use tokio::io::AsyncWriteExt as _;

use crate::http::error::Fault;
use crate::http::multipart::{FormReader, Piece};
use crate::intake::{HeldFile, Intake};

/// Bytes of a field that is no file; more is cut.
const FIELD_BYTES_MAX: usize = 4_096;
const FIELDS_MAX: usize = 32;
/// Bytes that are read and thrown away, at most.
const WASTED_BYTES_MAX: u64 = 8 << 30;
/// How long a body may stand still.
const STILL_MAX: Duration = Duration::from_secs(60);

/// What came.
pub(super) struct Received {
    pub(super) entered: Entered,
    /// The file and its name.
    pub(super) file: Option<(HeldFile, String)>,
    /// What is wrong with the file.
    pub(super) faults: Vec<FieldFault>,
}

/// # Errors
/// The request is no form, or the disk does not take the file.
pub(super) async fn receive(intake: &Intake, request: Request) -> Result<Received, Fault> {
    let content_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let not_a_form = || Fault::BadRequest("content-type".to_owned());
    let reader = FormReader::new(content_type.unwrap_or_default()).map_err(|_| not_a_form())?;
    let mut receiver = Receiver {
        reader,
        intake,
        fields: Vec::new(),
        file: None,
        upload: None,
        matter: None,
        wasted: 0,
    };
    let mut body = request.into_body().into_data_stream();
    let is_whole = loop {
        match tokio::time::timeout(STILL_MAX, body.next()).await {
            Ok(Some(Ok(bytes))) => {
                if receiver.take(&bytes).await? {
                    break true;
                }
            }
            Ok(None | Some(Err(_))) | Err(_) => break false,
        }
    };
    receiver.finish(is_whole).await
}

struct Receiver<'a> {
    reader: FormReader,
    intake: &'a Intake,
    fields: Vec<(String, Vec<u8>)>,
    /// The file that arrives.
    file: Option<Arriving>,
    /// The file that has arrived.
    upload: Option<(HeldFile, String)>,
    matter: Option<Matter>,
    wasted: u64,
}

struct Arriving {
    file: tokio::io::BufWriter<tokio::fs::File>,
    held: HeldFile,
    name: String,
    bytes: u64,
}

impl Receiver<'_> {
    /// Takes a piece of the body; true when the form is complete, or no more of it is wanted.
    async fn take(&mut self, bytes: &Bytes) -> Result<bool, Fault> {
        self.reader.push(bytes);
        loop {
            let Ok(piece) = self.reader.next() else {
                self.matter.get_or_insert(Matter::Incomplete);
                return Ok(true);
            };
            match piece {
                None => return Ok(false),
                Some(Piece::End) => {
                    self.end_file().await?;
                    return Ok(true);
                }
                Some(Piece::Field { name, file_name }) => {
                    self.end_file().await?;
                    match file_name.filter(|_| name == Field::File.name()) {
                        // A browser sends a file without a name when none was chosen.
                        Some(file_name) if file_name.is_empty() => self.field(String::new()),
                        Some(file_name) => self.begin_file(file_name).await?,
                        None => self.field(name),
                    }
                }
                Some(Piece::Data(data)) => {
                    if self.data(&data).await? {
                        return Ok(true);
                    }
                }
            }
        }
    }

    fn field(&mut self, name: String) {
        if self.fields.len() < FIELDS_MAX {
            self.fields.push((name, Vec::new()));
        }
    }

    async fn begin_file(&mut self, name: String) -> Result<(), Fault> {
        // What follows is data of no field, should there be no room for the file.
        self.field(String::new());
        let Ok(held) = self.intake.hold() else {
            self.matter.get_or_insert(Matter::Full);
            return Ok(());
        };
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let file = tokio::fs::OpenOptions::from(options).open(held.path()).await?;
        let file = tokio::io::BufWriter::with_capacity(256 * 1_024, file);
        self.file = Some(Arriving { file, held, name, bytes: 0 });
        Ok(())
    }

    /// True when no more of the form is wanted.
    async fn data(&mut self, data: &[u8]) -> Result<bool, Fault> {
        let length = u64::try_from(data.len()).unwrap_or(u64::MAX);
        if let Some(arriving) = &mut self.file {
            arriving.bytes = arriving.bytes.saturating_add(length);
            if arriving.bytes <= self.intake.bytes_max() {
                arriving.file.write_all(data).await?;
                return Ok(false);
            }
            self.file = None;
            self.matter.get_or_insert(Matter::TooLarge);
        } else if let Some((name, value)) = self.fields.last_mut().filter(|(n, _)| !n.is_empty()) {
            let room = FIELD_BYTES_MAX.saturating_sub(value.len()).min(data.len());
            value.extend_from_slice(data.get(..room).unwrap_or_default());
            if room == data.len() {
                return Ok(false);
            }
            tracing::debug!(field = %leasewatch_core::id::clean_text(name, 40), "a field is cut");
        }
        self.wasted = self.wasted.saturating_add(length);
        Ok(self.wasted > WASTED_BYTES_MAX)
    }

    async fn end_file(&mut self) -> Result<(), Fault> {
        if let Some(mut arriving) = self.file.take() {
            arriving.file.flush().await?;
            self.upload = Some((arriving.held, arriving.name));
        }
        Ok(())
    }

    async fn finish(mut self, is_whole: bool) -> Result<Received, Fault> {
        if !is_whole {
            self.matter.get_or_insert(Matter::Incomplete);
        }
        let value = |name: &str| {
            let found = self.fields.iter().find(|(field, _)| field == name);
            found.map_or_else(String::new, |(_, value)| String::from_utf8_lossy(value).into_owned())
        };
        let entered = Entered {
            kind: value("kind"),
            node: value("node"),
            tenant: value("tenant"),
            provider: value("provider"),
            timezone: value("timezone"),
            columns: value("columns"),
            cadence: value("cadence"),
            strict: !value("strict").is_empty(),
        };
        let fault = self.matter.map(|matter| FieldFault { field: Field::File, matter });
        // Without the whole form nothing of it counts.
        let file = self.upload.filter(|_| fault.is_none());
        Ok(Received { entered, file, faults: fault.into_iter().collect() })
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use futures_util::stream;

    use super::*;

    const HEAD: &str = "--x\r\nContent-Disposition: form-data; name=\"node\"\r\n\r\nold\r\n\
        --x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"../../etc/passwd\"\r\n\r\n";
    const TAIL: &str =
        "\r\n--x\r\nContent-Disposition: form-data; name=\"columns\"\r\n\r\na,b\r\n--x--\r\n";

    fn request(body: &[u8]) -> Request {
        // In pieces, and without a length, as it may come.
        let pieces: Vec<_> = body.chunks(7).map(|piece| Ok::<_, Fault>(piece.to_vec())).collect();
        Request::builder()
            .header(CONTENT_TYPE, "multipart/form-data; boundary=x")
            .body(Body::from_stream(stream::iter(pieces)))
            .unwrap()
    }

    fn files(folder: &std::path::Path) -> usize {
        std::fs::read_dir(folder.join("up")).unwrap().count()
    }

    #[tokio::test]
    async fn a_file_arrives_whole_under_a_name_of_the_server() {
        let folder = tempfile::tempdir().unwrap();
        let (intake, _queue) = Intake::open(folder.path().join("up"), 20).unwrap();
        let body = format!("{HEAD}0123456789\r\n--y{TAIL}");
        let received = receive(&intake, request(body.as_bytes())).await.unwrap();
        assert!(received.faults.is_empty());
        assert_eq!(
            (received.entered.node.as_str(), received.entered.columns.as_str()),
            ("old", "a,b")
        );
        let (file, name) = received.file.unwrap();
        assert_eq!(name, "../../etc/passwd");
        assert_eq!(file.path().parent(), Some(folder.path().join("up").as_path()));
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "0123456789\r\n--y");
    }

    #[tokio::test]
    async fn of_what_is_too_large_cut_or_too_much_nothing_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (intake, _queue) = Intake::open(folder.path().join("up"), 10).unwrap();
        let whole = |data: &str| format!("{HEAD}{data}{TAIL}").into_bytes();
        let cut = whole("0123456789")[..HEAD.len() + 5].to_vec();
        for (body, matter) in [
            (whole("0123456789a"), Matter::TooLarge),
            (cut, Matter::Incomplete),
            (b"no form at all".to_vec(), Matter::Incomplete),
        ] {
            let received = receive(&intake, request(&body)).await.unwrap();
            assert_eq!(received.faults, [FieldFault { field: Field::File, matter }]);
            assert!(received.file.is_none());
            assert_eq!(files(folder.path()), 0);
        }
        let held: Vec<_> = std::iter::from_fn(|| intake.hold().ok()).collect();
        let received = receive(&intake, request(&whole("0"))).await.unwrap();
        assert_eq!(received.faults[0].matter, Matter::Full);
        assert_eq!(received.entered.columns, "a,b", "what follows the file is read all the same");
        drop(held);
        let none = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"\"\r\n\r\n\r\n--x--\r\n";
        let received = receive(&intake, request(none.as_bytes())).await.unwrap();
        assert!(received.file.is_none() && received.faults.is_empty());
        assert!(receive(&intake, Request::new(Body::empty())).await.is_err());
    }
}
