//! The files of a spool: one folder, numbered files that are only ever appended to.
//!
//! A trait, because the promises of the spool are about what a crash leaves behind: the tests put
//! a disk below it that forgets what was not synced. Not here: what stands in the files, and which
//! may go.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// What a spool asks of a disk. A file is named by its number.
pub(super) trait Disk: fmt::Debug + Send {
    /// Every file with its bytes, by ascending number.
    fn list(&self) -> io::Result<Vec<(u64, u64)>>;
    /// Makes a file that begins with `header`; its name is durable when this returns.
    fn create(&mut self, number: u64, header: &[u8]) -> io::Result<()>;
    /// Writes at the end of a file. Durable after [`Disk::sync`].
    fn append(&mut self, number: u64, record: &[u8]) -> io::Result<()>;
    /// Makes everything in a file durable.
    fn sync(&mut self, number: u64) -> io::Result<()>;
    /// Cuts a file.
    fn truncate(&mut self, number: u64, bytes: u64) -> io::Result<()>;
    /// The first `limit` bytes of a file.
    fn read(&self, number: u64, limit: u64) -> io::Result<Vec<u8>>;
    /// Bytes from the middle of a file.
    fn read_at(&self, number: u64, offset: u64, bytes: usize) -> io::Result<Vec<u8>>;
    /// Removes a file.
    fn remove(&mut self, number: u64) -> io::Result<()>;
    /// Keeps a file that is not understood, under a name that no spool reads.
    fn set_aside(&mut self, number: u64) -> io::Result<()>;
    /// Removes what was set aside; returns whether there was anything.
    fn remove_set_aside(&mut self) -> bool;
    /// Bytes of what was set aside.
    fn set_aside_bytes(&self) -> u64;
    /// Bytes that are free for this process; `None` where nobody says.
    fn free_bytes(&self) -> Option<u64>;
    /// The note beside the files. It may be lost, and may be anything after a crash.
    fn note(&self) -> Option<String>;
    /// Replaces the note.
    fn set_note(&mut self, text: &str) -> io::Result<()>;
}

const SUFFIX: &str = ".spool";
const SET_ASIDE: &str = ".spool.refused";
const NOTE: &str = "note";
const NOTE_BYTES_MAX: u64 = 4_096;
/// File systems of a network by what `statfs` calls them: their locks and their fdatasync promise
/// too little.
const NETWORK: [(u64, &str); 4] =
    [(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0xfe53_4d42, "SMB"), (0x0bd0_0bd0, "Lustre")];

/// The name of a network's file system; `None` for others. `kind` is `f_type` of `statfs`.
pub(crate) fn network_file_system(kind: rustix::fs::FsWord) -> Option<&'static str> {
    let kind = u64::try_from(kind).unwrap_or(0) & 0xffff_ffff;
    NETWORK.iter().find(|(number, _)| *number == kind).map(|(_, name)| *name)
}

/// A folder of the file system.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    open: BTreeMap<u64, File>,
}

impl Folder {
    /// The folder, made (mode 0700) if it is not there.
    ///
    /// # Errors
    /// What the system says, or that the folder is on a network's file system.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        if let Some(name) = network_file_system(rustix::fs::statfs(path)?.f_type) {
            return Err(io::Error::other(format!(
                "it is on {name}, which may lose what was synced"
            )));
        }
        Ok(Self::existing(path))
    }

    /// The same to read only: nothing is made.
    pub(super) fn existing(path: &Path) -> Self {
        Self { path: path.to_owned(), open: BTreeMap::new() }
    }

    fn file(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:010}{SUFFIX}"))
    }

    /// A plain file, never a link, a pipe or a device.
    fn plain_file(&self, number: u64) -> io::Result<File> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(self.file(number))?;
        let is_file = file.metadata()?.is_file();
        if is_file { Ok(file) } else { Err(io::Error::other("it is no plain file")) }
    }

    fn written(&mut self, number: u64) -> io::Result<&mut File> {
        let path = self.file(number);
        match self.open.entry(number) {
            std::collections::btree_map::Entry::Occupied(open) => Ok(open.into_mut()),
            std::collections::btree_map::Entry::Vacant(place) => {
                Ok(place.insert(OpenOptions::new().append(true).open(path)?))
            }
        }
    }

    fn sync_folder(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn named(&self, suffix: &str) -> Vec<(PathBuf, u64)> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let named = entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(suffix));
        named.map(|entry| (entry.path(), entry.metadata().map_or(0, |data| data.len()))).collect()
    }
}

impl Disk for Folder {
    fn list(&self) -> io::Result<Vec<(u64, u64)>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(SUFFIX)?.parse().ok());
            // Only the names that this spool gives: 7.spool would be opened as 0000000007.spool.
            let Some(number) = number.filter(|number| self.file(*number).ends_with(&name)) else {
                continue;
            };
            files.push((number, entry.metadata().map_or(0, |data| data.len())));
        }
        files.sort_unstable();
        Ok(files)
    }

    fn create(&mut self, number: u64, header: &[u8]) -> io::Result<()> {
        let path = self.file(number);
        let mut file = OpenOptions::new().create_new(true).append(true).mode(0o600).open(path)?;
        file.write_all(header)?;
        self.sync_folder()?;
        // One file is written at a time; the others need no descriptor.
        self.open.clear();
        self.open.insert(number, file);
        Ok(())
    }

    fn append(&mut self, number: u64, record: &[u8]) -> io::Result<()> {
        self.written(number)?.write_all(record)
    }

    fn sync(&mut self, number: u64) -> io::Result<()> {
        self.written(number)?.sync_data()
    }

    fn truncate(&mut self, number: u64, bytes: u64) -> io::Result<()> {
        let file = self.written(number)?;
        file.set_len(bytes)?;
        file.sync_all()
    }

    fn read(&self, number: u64, limit: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.plain_file(number)?.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn read_at(&self, number: u64, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; bytes];
        self.plain_file(number)?.read_exact_at(&mut buffer, offset)?;
        Ok(buffer)
    }

    fn remove(&mut self, number: u64) -> io::Result<()> {
        self.open.remove(&number);
        fs::remove_file(self.file(number))
    }

    fn set_aside(&mut self, number: u64) -> io::Result<()> {
        self.open.remove(&number);
        let path = self.file(number);
        fs::rename(&path, path.with_extension("spool.refused"))
    }

    fn remove_set_aside(&mut self) -> bool {
        let files = self.named(SET_ASIDE).into_iter();
        files.filter(|(path, _)| fs::remove_file(path).is_ok()).count() > 0
    }

    fn set_aside_bytes(&self) -> u64 {
        self.named(SET_ASIDE).iter().map(|(_, bytes)| bytes).sum()
    }

    fn free_bytes(&self) -> Option<u64> {
        let of = rustix::fs::statvfs(&self.path).ok()?;
        of.f_bavail.checked_mul(of.f_frsize)
    }

    fn note(&self) -> Option<String> {
        let mut text = String::new();
        let file = File::open(self.path.join(NOTE)).ok()?;
        file.take(NOTE_BYTES_MAX).read_to_string(&mut text).ok()?;
        Some(text)
    }

    fn set_note(&mut self, text: &str) -> io::Result<()> {
        let beside = self.path.join("note.new");
        let mut options = OpenOptions::new();
        let mut file = options.create(true).truncate(true).write(true).mode(0o600).open(&beside)?;
        file.write_all(text.as_bytes())?;
        fs::rename(beside, self.path.join(NOTE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `statfs` reports on such mounts (linux/magic.h); none can be mounted where tests run.
    #[test]
    fn file_systems_of_a_network_are_known_by_their_number() {
        let reported: [(u64, Option<&str>); 9] = [
            (0x6969, Some("NFS")),
            (0xff53_4d42, Some("CIFS")),
            (0xfe53_4d42, Some("SMB")),
            (0x0bd0_0bd0, Some("Lustre")),
            (0xef53, None),
            (0x5846_5342, None),
            (0x9123_683e, None),
            (0x0102_1994, None),
            (0x794c_7630, None),
        ];
        for (number, name) in reported {
            let kind = number.try_into().unwrap();
            assert_eq!(network_file_system(kind), name, "{number:x}");
        }
        let temp = tempfile::tempdir().unwrap();
        assert!(Folder::open(temp.path()).is_ok(), "what the tests lie on is none");
    }
}
