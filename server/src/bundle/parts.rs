//! The files of a bundle while they are written: one line at a time, with length and hash.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use leasewatch_core::evidence::bundle::BundleFile;
use sha2::{Digest as _, Sha256};

use super::{BundleError, digest};

/// Files that are written.
pub(super) struct Parts {
    folder: PathBuf,
    done: Vec<(BundleFile, PathBuf)>,
    begun: usize,
}

/// A file that is being written.
pub(super) struct Part {
    name: String,
    path: PathBuf,
    out: BufWriter<File>,
    sum: Sha256,
    length: u64,
    lines: u32,
}

impl Parts {
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), done: Vec::new(), begun: 0 }
    }

    pub(super) fn begin(&mut self, name: &str) -> Result<Part, BundleError> {
        self.begun += 1;
        let path = self.folder.join(self.begun.to_string());
        let out = BufWriter::new(File::create_new(&path)?);
        Ok(Part { name: name.to_owned(), path, out, sum: Sha256::new(), length: 0, lines: 0 })
    }

    pub(super) fn end(&mut self, part: Part) -> Result<(), BundleError> {
        part.out.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        let file = BundleFile { name: part.name, length: part.length, sha256: digest(part.sum) };
        self.done.push((file, part.path));
        self.done.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
        Ok(())
    }

    /// A whole file.
    pub(super) fn add(&mut self, name: &str, bytes: &[u8]) -> Result<(), BundleError> {
        let mut part = self.begin(name)?;
        part.write_all(bytes)?;
        self.end(part)
    }

    /// By name.
    pub(super) fn listed(&self) -> Vec<BundleFile> {
        self.done.iter().map(|(file, _)| file.clone()).collect()
    }

    /// Where each file lies.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.done.iter().map(|(file, path)| (file.name.as_str(), path.as_path()))
    }
}

impl Part {
    /// Adds a line; returns its number, from 1.
    pub(super) fn line(&mut self, line: &[u8]) -> Result<u32, BundleError> {
        self.write_all(line)?;
        self.write_all(b"\n")?;
        self.lines = self.lines.saturating_add(1);
        Ok(self.lines)
    }
}

impl Write for Part {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.out.write_all(bytes)?;
        self.sum.update(bytes);
        self.length += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// A signature as a line of a `.sig` file.
pub(super) fn signature_line(signature: &[u8; 64]) -> String {
    signature.iter().map(|byte| format!("{byte:02x}")).collect()
}
