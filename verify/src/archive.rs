//! The archive: a .zip in the one form that a bundle has, read line by line.
//!
//! Two programs must not see two bundles in one file. So the form is narrow: files one after the
//! other without anything in between, each once, sorted, none of them a link or a folder, and the
//! directory right behind them. Contents are read as streams; nothing is unpacked.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read};
use std::path::Path;

use leasewatch_core::id::Hash;
use sha2::{Digest as _, Sha256};
use zip::{CompressionMethod, ZipArchive};

use crate::report::Fault;

/// Most bytes of a line.
const LINE_MAX: u64 = 2 << 20;
/// Most files.
const FILES_MAX: usize = 65_538;
/// Bytes of the directory's entry for a file, without its name, and of the end of the directory.
const ENTRY_BYTES: u64 = 46;
const END_BYTES: u64 = 22;
const HEADER_BYTES: u64 = 30;

/// An open bundle.
pub(crate) struct Archive {
    zip: ZipArchive<BufReader<File>>,
    names: Vec<String>,
}

impl Archive {
    /// Opens a bundle and checks its form.
    pub(crate) fn open(path: &Path) -> Result<Self, Fault> {
        let cannot = |error: &dyn std::fmt::Display| {
            Fault::Malformed(format!("{} cannot be read: {error}", path.display()))
        };
        let file = File::open(path).map_err(|error| cannot(&error))?;
        let meta = file.metadata().map_err(|error| cannot(&error))?;
        if !meta.is_file() {
            return Err(Fault::Malformed(format!("{} is not a regular file", path.display())));
        }
        let zip = ZipArchive::new(BufReader::new(file));
        let mut archive = Self {
            zip: zip.map_err(|_| {
                Fault::Malformed("this is not a .zip file, or it is cut off".to_owned())
            })?,
            names: Vec::new(),
        };
        archive.names = archive.check_form(meta.len())?;
        Ok(archive)
    }

    fn check_form(&mut self, length: u64) -> Result<Vec<String>, Fault> {
        let other = |what: &str| {
            Err(Fault::Malformed(format!("the archive is not in a bundle's form: {what}")))
        };
        if self.zip.len() > FILES_MAX {
            return other("too many files");
        }
        let (mut names, mut at, mut directory) = (Vec::new(), 0, 0);
        for index in 0..self.zip.len() {
            let file = self.zip.by_index_raw(index).map_err(|_| damaged("a header"))?;
            let name = std::str::from_utf8(file.name_raw()).unwrap_or_default().to_owned();
            let is_plain = file.is_file() && !file.is_symlink() && !file.encrypted();
            let known = [CompressionMethod::Stored, CompressionMethod::Deflated];
            if !is_plain || !known.contains(&file.compression()) {
                return other("a file that is no plain file");
            }
            let name_bytes = u64::try_from(name.len()).unwrap_or(u64::MAX);
            if file.header_start() != at
                || file.data_start() != Some(at + HEADER_BYTES + name_bytes)
            {
                return other("something stands between its files");
            }
            at += HEADER_BYTES + name_bytes + file.compressed_size();
            directory += ENTRY_BYTES + name_bytes;
            if name.is_empty() || names.last().is_some_and(|last| *last >= name) {
                return other("names that do not ascend");
            }
            names.push(name);
        }
        let end = at + directory + END_BYTES;
        if self.zip.central_directory_start() != at
            || end != length
            || self.zip.has_duplicate_names()
        {
            return other("bytes that belong to no file");
        }
        match self.zip.validate_header_consistency() {
            Ok(()) => Ok(names),
            Err(_) => other("a header and the directory disagree"),
        }
    }

    /// Names of its files, ascending.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// True when it has a file of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.binary_search_by(|own| own.as_str().cmp(name)).is_ok()
    }

    /// A file of at most `max` bytes, whole.
    pub(crate) fn whole(&mut self, name: &str, max: u64) -> Result<Vec<u8>, Fault> {
        let mut bytes = Vec::new();
        self.stream(name)?.take(max + 1).read_to_end(&mut bytes).map_err(|_| damaged(name))?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > max {
            return Err(Fault::Malformed(format!("{name} is longer than {max} bytes")));
        }
        Ok(bytes)
    }

    /// Length and hash of a file, reading no further than `max` bytes.
    pub(crate) fn digest(&mut self, name: &str, max: u64) -> Result<(u64, Hash), Fault> {
        let mut reader = self.stream(name)?.take(max.saturating_add(1));
        let (mut hash, mut length, mut buffer) = (Sha256::new(), 0, vec![0; 1 << 16]);
        loop {
            let read = reader.read(&mut buffer).map_err(|_| damaged(name))?;
            if read == 0 {
                return Ok((length, Hash(hash.finalize().into())));
            }
            hash.update(&buffer[..read]);
            length += u64::try_from(read).unwrap_or(u64::MAX);
        }
    }

    /// Hands every line of a file over, with its number from 1 and without its line feed. A file
    /// that is not there has no lines.
    pub(crate) fn lines(
        &mut self,
        name: &str,
        mut take: impl FnMut(u64, &[u8]) -> Result<(), Fault>,
    ) -> Result<u64, Fault> {
        if !self.has(name) {
            return Ok(0);
        }
        let mut reader = BufReader::new(self.stream(name)?);
        let (mut number, mut line) = (0, Vec::new());
        loop {
            line.clear();
            let read = reader.by_ref().take(LINE_MAX).read_until(b'\n', &mut line);
            match read {
                Ok(0) => return Ok(number),
                Ok(_) if line.pop() == Some(b'\n') => {}
                Ok(_) => {
                    let what = format!("{name}, line {}: too long or without its end", number + 1);
                    return Err(Fault::Malformed(what));
                }
                Err(_) => return Err(damaged(name)),
            }
            number += 1;
            take(number, &line)?;
        }
    }

    fn stream(&mut self, name: &str) -> Result<impl Read + '_, Fault> {
        let found = self.zip.by_name(name);
        found.map_err(|_| Fault::Malformed(format!("{name} is missing, or cannot be unpacked")))
    }
}

fn damaged(name: &str) -> Fault {
    Fault::Malformed(format!("{name} is damaged"))
}
