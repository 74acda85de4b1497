//! Packs the files into the .zip that a verifier takes: names ascending, one time for all, each file
//! right behind the one before.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read as _, Write as _};
use std::path::Path;

use leasewatch_core::evidence::bundle::name;
use leasewatch_core::id::Hash;
use sha2::{Digest as _, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::parts::Parts;
use super::{BundleError, digest};

/// The manifest with its signature.
pub(super) struct Bound {
    pub(super) statement: Vec<u8>,
    pub(super) signature: String,
}

/// What a file of the archive is made of.
enum Content<'a> {
    File(&'a Path),
    Bytes(&'a [u8]),
}

/// Writes the archive; returns its hash and length.
pub(super) fn pack(parts: &Parts, bound: &Bound, out: &Path) -> Result<(Hash, u64), BundleError> {
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .last_modified_time(DateTime::default());
    let mut files: Vec<_> = parts.iter().map(|(name, path)| (name, Content::File(path))).collect();
    files.push((name::MANIFEST, Content::Bytes(&bound.statement)));
    files.push((name::MANIFEST_SIGNATURE, Content::Bytes(bound.signature.as_bytes())));
    files.sort_by_key(|(name, _)| *name);
    let file = File::options().read(true).write(true).create_new(true).open(out)?;
    let mut zip = ZipWriter::new(BufWriter::new(file));
    for (name, content) in files {
        zip.start_file(name, options)?;
        match content {
            Content::Bytes(bytes) => zip.write_all(bytes)?,
            Content::File(path) => {
                std::io::copy(&mut BufReader::new(File::open(path)?), &mut zip)?;
            }
        }
    }
    let file = zip.finish()?.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    file.sync_all()?;
    read_back(out)
}

fn read_back(path: &Path) -> Result<(Hash, u64), BundleError> {
    let mut file = File::open(path)?;
    let (mut sum, mut length, mut buffer) = (Sha256::new(), 0, vec![0; 1 << 16]);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok((digest(sum), length));
        }
        sum.update(&buffer[..read]);
        length += u64::try_from(read).unwrap_or(u64::MAX);
    }
}
