//! Everything of a tenant as one `.zip`: a CSV file for each table, `users.csv`, and `manifest.json`
//! with counts and hashes.
//!
//! The same rows give the same bytes: files are sorted, rows go by their key, and no time of writing
//! is in there. Rows stream from one snapshot of the database through the compressor to whoever
//! takes the pieces, so memory does not grow with the tenant. Each row is read in the tenant's own
//! scope. Left out is what opens something or belongs to the server: links and grants of tokens.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::TryStreamExt as _;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use zip::write::{SimpleFileOptions, StreamWriter};
use zip::{CompressionMethod, DateTime, ZipWriter};

use crate::store::tenant::TenantRow;
use crate::store::{Db, Scope, StoreError, tenant_data};

/// Bytes that are gathered before they are passed on.
const PIECE_BYTES: usize = 64 * 1_024;
/// Tables of tenants that pages do not read, and why they are not in the archive.
const LEFT_OUT: [(&str, &str); 3] = [
    ("api_token_grant", "reach of tokens, which belong to users"),
    ("membership", "is users.csv"),
    ("user_link_grant", "reach of links that work once"),
];

/// Why there is no archive, or half of one.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The compressor.
    #[error(transparent)]
    Zip(#[from] zip::result::ZipError),
    /// The compressor, within a file.
    #[error(transparent)]
    Write(#[from] io::Error),
    /// The manifest.
    #[error(transparent)]
    Manifest(#[from] serde_json::Error),
    /// Nobody takes the pieces any more.
    #[error("nobody takes the archive any more")]
    Gone,
}

/// A file of the archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct File {
    /// Its name.
    pub file: String,
    /// Rows, the line with the columns' names not counted.
    pub rows: u64,
    /// Bytes of the CSV.
    pub bytes: u64,
    /// SHA-256 of the CSV, hex.
    pub sha256: String,
}

#[derive(Serialize)]
struct Manifest<'a> {
    format: &'static str,
    tenant: &'a str,
    name: &'a str,
    files: &'a [File],
    left_out: Vec<LeftOut>,
}

#[derive(Serialize)]
struct LeftOut {
    table: &'static str,
    why: &'static str,
}

/// Writes the archive of a tenant in pieces; `progress` hears of each file. Returns the files.
///
/// # Errors
/// [`ArchiveError`]; what was passed on before is no archive then.
pub async fn write(
    db: &Db,
    tenant: &TenantRow,
    pieces: mpsc::Sender<Vec<u8>>,
    progress: impl Fn(&File),
) -> Result<Vec<File>, ArchiveError> {
    let mut archive = Archive::new(pieces);
    let mut files = Vec::new();
    let mut tx = db.begin(Scope::Tenant(tenant.key)).await?;
    tenant_data::freeze(&mut tx).await?;
    for table in tenant_data::tables(&mut tx).await? {
        archive.begin(format!("tables/{}.csv", table.name))?;
        let mut rows = tenant_data::rows(&mut tx, &table).await?;
        while let Some(row) = rows.try_next().await? {
            archive.line(&row).await?;
        }
        drop(rows);
        let file = archive.end();
        progress(&file);
        files.push(file);
    }
    tx.rollback().await?;
    let file = users(db, tenant, &mut archive).await?;
    progress(&file);
    files.push(file);
    let left_out = LEFT_OUT.map(|(table, why)| LeftOut { table, why }).into();
    let manifest = Manifest {
        format: "leasewatch/tenant-export/v1",
        tenant: tenant.slug.as_str(),
        name: &tenant.name,
        files: &files,
        left_out,
    };
    archive.begin("manifest.json".to_owned())?;
    archive.line(&serde_json::to_vec_pretty(&manifest)?).await?;
    archive.finish().await?;
    Ok(files)
}

async fn users(db: &Db, tenant: &TenantRow, archive: &mut Archive) -> Result<File, ArchiveError> {
    let mut tx = db.begin(Scope::Auth).await?;
    let members = tenant_data::members(&mut tx, tenant.key).await?;
    tx.commit().await?;
    archive.begin("users.csv".to_owned())?;
    archive.line(b"name,role\n").await?;
    for (name, role) in members {
        // Neither holds a character that a CSV file would have to quote.
        archive.line(format!("{name},{role}\n").as_bytes()).await?;
    }
    Ok(archive.end())
}

/// The compressor writes into it, and it is emptied in between.
#[derive(Clone, Default)]
struct Pipe(Arc<Mutex<Vec<u8>>>);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Archive {
    zip: ZipWriter<StreamWriter<Pipe>>,
    pipe: Pipe,
    pieces: mpsc::Sender<Vec<u8>>,
    file: String,
    lines: u64,
    bytes: u64,
    sum: Sha256,
}

impl Archive {
    fn new(pieces: mpsc::Sender<Vec<u8>>) -> Self {
        let pipe = Pipe::default();
        let zip = ZipWriter::new_stream(pipe.clone());
        Self { zip, pipe, pieces, file: String::new(), lines: 0, bytes: 0, sum: Sha256::new() }
    }

    fn begin(&mut self, file: String) -> Result<(), ArchiveError> {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .last_modified_time(DateTime::DEFAULT)
            .unix_permissions(0o644)
            // Its size is not known before.
            .large_file(true);
        self.zip.start_file(file.as_str(), options)?;
        (self.file, self.lines, self.bytes, self.sum) = (file, 0, 0, Sha256::new());
        Ok(())
    }

    async fn line(&mut self, line: &[u8]) -> Result<(), ArchiveError> {
        self.zip.write_all(line)?;
        self.sum.update(line);
        self.lines += 1;
        self.bytes += u64::try_from(line.len()).unwrap_or(u64::MAX);
        self.pass_on(PIECE_BYTES).await
    }

    fn end(&mut self) -> File {
        let sum = std::mem::take(&mut self.sum).finalize();
        File {
            file: std::mem::take(&mut self.file),
            rows: self.lines.saturating_sub(1),
            bytes: self.bytes,
            sha256: sum.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }

    async fn finish(mut self) -> Result<(), ArchiveError> {
        let (pipe, pieces) = (self.pipe.clone(), self.pieces.clone());
        // What is left of the last file, and the list of all.
        self.pass_on(1).await?;
        self.zip.finish()?;
        let rest = std::mem::take(&mut *pipe.0.lock().unwrap_or_else(PoisonError::into_inner));
        pieces.send(rest).await.map_err(|_| ArchiveError::Gone)
    }

    /// Passes on what is there, if it is that much.
    async fn pass_on(&mut self, least: usize) -> Result<(), ArchiveError> {
        let piece = {
            let mut ready = self.pipe.0.lock().unwrap_or_else(PoisonError::into_inner);
            if ready.len() < least { Vec::new() } else { std::mem::take(&mut *ready) }
        };
        if piece.is_empty() {
            return Ok(());
        }
        self.pieces.send(piece).await.map_err(|_| ArchiveError::Gone)
    }
}
