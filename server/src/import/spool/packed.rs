//! A recording as one file: a tar archive, also compressed with gzip, that somebody uploaded.
//!
//! Of an archive only the key and the files of segments are taken, whatever the folders they lie
//! in, and under names of this program: a path, a link, an owner or a mode of the archive has no
//! say. What is unpacked is bounded in bytes and in files. Not here: what the files hold.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use tar::{Archive, Entry};

use super::files::{FILE_BYTES_MAX, SUFFIX};
use super::{KEY, SPOOL};
use crate::intake::RecordingFault;

/// Files with segments in one archive: a year of an hour's file each.
const FILES_MAX: usize = 10_000;
/// A compressed archive may become this many times as large, and so much more: segments hardly
/// shrink, but what an archive puts around its files does.
const GROWTH_MAX: (u64, u64) = (4, 16 << 20);
/// A key is 64 digits and a line end.
const KEY_BYTES_MAX: u64 = 1_024;
/// What lies in an agent's state directory and in no recording: the key of its server.
const KEY_OF_SERVER: &str = "server.pub";

const GZIP: [u8; 2] = [0x1f, 0x8b];
const TAR: (usize, &[u8]) = (257, b"ustar");

/// A recording that was unpacked. Dropped, it is removed.
#[derive(Debug)]
pub(crate) struct Unpacked(PathBuf);

impl Unpacked {
    /// The folder with key and segments.
    pub(crate) fn dir(&self) -> &Path {
        &self.0
    }
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, "an unpacked recording could not be removed");
        }
    }
}

/// True for what begins as an archive does, compressed or not.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn is_archive(path: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    File::open(path)?.take(512).read_to_end(&mut start)?;
    let (at, magic) = TAR;
    Ok(start.starts_with(&GZIP) || start.get(at..).is_some_and(|rest| rest.starts_with(magic)))
}

/// Takes a recording out of an archive, into a folder beside it.
///
/// # Errors
/// [`RecordingFault`]; nothing is left behind then.
pub(crate) fn unpack(archive: &Path) -> Result<Unpacked, RecordingFault> {
    let broken = |_| RecordingFault::Broken;
    let mut file = File::open(archive).map_err(broken)?;
    let bytes = file.metadata().map_err(broken)?.len();
    let mut magic = [0; 2];
    file.read_exact(&mut magic).map_err(broken)?;
    file.rewind().map_err(broken)?;
    let (times, more) = GROWTH_MAX;
    let room = bytes.saturating_mul(times).saturating_add(more);
    let unpacked = Unpacked(archive.with_extension("recording"));
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(unpacked.0.join(SPOOL)).map_err(broken)?;
    let mut taker = Taker { dir: unpacked.dir(), has_key: false, files: 0 };
    if magic == GZIP {
        taker.take_all(MultiGzDecoder::new(file).take(room))?;
    } else {
        taker.take_all(file)?;
    }
    match (taker.has_key, taker.files) {
        (false, _) => Err(RecordingFault::NoKey),
        (true, 0) => Err(RecordingFault::NoSegment),
        (true, _) => Ok(unpacked),
    }
}

struct Taker<'a> {
    dir: &'a Path,
    has_key: bool,
    files: usize,
}

impl Taker<'_> {
    fn take_all(&mut self, archive: impl Read) -> Result<(), RecordingFault> {
        let broken = |_| RecordingFault::Broken;
        let mut archive = Archive::new(archive);
        for entry in archive.entries().map_err(broken)? {
            self.take(entry.map_err(broken)?)?;
        }
        Ok(())
    }

    /// Takes a file that belongs to a recording, and passes over every other.
    fn take(&mut self, mut entry: Entry<'_, impl Read>) -> Result<(), RecordingFault> {
        if !entry.header().entry_type().is_file() {
            return Ok(());
        }
        let path = entry.path().map_err(|_| RecordingFault::Broken)?.into_owned();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_segments = path.extension().is_some_and(|extension| extension == SUFFIX);
        let (to, bytes_max) = match name {
            KEY_OF_SERVER => return Err(RecordingFault::AgentState),
            KEY if self.has_key => return Err(RecordingFault::Several),
            KEY => (self.dir.join(KEY), KEY_BYTES_MAX),
            name if is_segments => (self.dir.join(SPOOL).join(name), FILE_BYTES_MAX),
            _ => return Ok(()),
        };
        if is_segments {
            self.files += 1;
        } else {
            self.has_key = true;
        }
        if self.files > FILES_MAX || entry.size() > bytes_max {
            return Err(RecordingFault::TooLarge);
        }
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(to);
        // The same name twice is of two recordings.
        let mut file = file.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => RecordingFault::Several,
            _ => RecordingFault::Broken,
        })?;
        let copied = io::copy(&mut entry, &mut file).map_err(|_| RecordingFault::Broken)?;
        if copied == entry.size() { Ok(()) } else { Err(RecordingFault::Broken) }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use tar::{Builder, EntryType, Header};

    use super::*;

    fn packed(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        for (path, content) in entries {
            add(&mut builder, path, content);
        }
        builder.into_inner().unwrap()
    }

    /// Also paths that the library would not write.
    fn add(builder: &mut Builder<Vec<u8>>, path: &str, content: &[u8]) {
        let mut header = Header::new_ustar();
        header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
        header.set_size(u64::try_from(content.len()).unwrap());
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o4777);
        header.set_cksum();
        builder.append(&header, content).unwrap();
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// The names of what was taken, or why nothing was.
    fn taken(archive: &[u8]) -> Result<Vec<String>, RecordingFault> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0123456789abcdef");
        std::fs::write(&path, archive).unwrap();
        let names = unpack(&path).map(|unpacked| {
            let spool = std::fs::read_dir(unpacked.dir().join(SPOOL)).unwrap();
            let mut names: Vec<String> =
                spool.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            assert_eq!(std::fs::read_dir(unpacked.dir()).unwrap().count(), 2);
            names
        });
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing stays");
        names
    }

    const WHOLE: [(&str, &[u8]); 4] = [
        ("recording/README.txt", b"read me"),
        ("recording/node.key", b"key"),
        ("recording/spool/0000000001.spool", b"one"),
        ("recording/spool/0000000002.spool", b"two"),
    ];

    #[test]
    fn a_recording_is_taken_out_compressed_or_not_in_whatever_folder() {
        let files = ["0000000001.spool", "0000000002.spool"].map(str::to_owned);
        let tar = packed(&WHOLE);
        for archive in [tar.clone(), gzip(&tar)] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("upload");
            std::fs::write(&path, &archive).unwrap();
            assert!(is_archive(&path).unwrap());
            assert_eq!(taken(&archive).unwrap(), files);
        }
        let flat = packed(&[("./node.key", b"key"), ("../../etc/0000000003.spool", b"x")]);
        assert_eq!(taken(&flat).unwrap(), ["0000000003.spool"]);
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("gpu.csv");
        std::fs::write(&log, "timestamp, utilization.gpu [%]\n").unwrap();
        assert!(!is_archive(&log).unwrap());
    }

    #[test]
    fn what_is_no_recording_or_more_than_one_leaves_nothing_behind() {
        let whole = packed(&WHOLE);
        let mut other = WHOLE.to_vec();
        other.push(("other/node.key", b"another"));
        assert_eq!(taken(&packed(&other)), Err(RecordingFault::Several));
        let mut agent = WHOLE.to_vec();
        agent.push(("recording/server.pub", b"key of a server"));
        assert_eq!(taken(&packed(&agent)), Err(RecordingFault::AgentState));
        assert_eq!(taken(&packed(&WHOLE[2..])), Err(RecordingFault::NoKey));
        assert_eq!(taken(&packed(&WHOLE[..2])), Err(RecordingFault::NoSegment));
        for cut in [1, 300, 600, whole.len() / 2] {
            assert!(taken(&whole[..cut]).is_err(), "{cut}");
        }
        let squeezed = gzip(&whole);
        assert_eq!(taken(&squeezed[..squeezed.len() / 2]), Err(RecordingFault::Broken));
        assert_eq!(taken(b"no archive at all"), Err(RecordingFault::Broken));
    }

    #[test]
    fn what_grows_or_is_longer_than_an_agent_writes_is_not_unpacked() {
        let long = vec![0; usize::try_from(FILE_BYTES_MAX).unwrap() + 1];
        let entries = [("node.key", &b"key"[..]), ("spool/0000000001.spool", &long)];
        assert_eq!(taken(&packed(&entries)), Err(RecordingFault::TooLarge));
        // Zeros shrink a thousandfold, which no segments do.
        let zeros = vec![0; usize::try_from(FILE_BYTES_MAX).unwrap()];
        let names = (0..5).map(|number| format!("spool/{number:010}.spool")).collect::<Vec<_>>();
        let mut entries = vec![("node.key", &b"key"[..])];
        entries.extend(names.iter().map(|name| (name.as_str(), &zeros[..])));
        assert_eq!(taken(&gzip(&packed(&entries))), Err(RecordingFault::Broken));
        let long_key = [("node.key", &zeros[..2_000]), ("spool/0000000001.spool", b"x")];
        assert_eq!(taken(&packed(&long_key)), Err(RecordingFault::TooLarge));
    }

    #[test]
    fn a_link_is_passed_over() {
        let mut builder = Builder::new(Vec::new());
        for (path, content) in WHOLE {
            add(&mut builder, path, content);
        }
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Symlink);
        header.set_size(0);
        builder.append_link(&mut header, "spool/0000000009.spool", "/etc/passwd").unwrap();
        assert_eq!(taken(&builder.into_inner().unwrap()).unwrap().len(), 2);
    }
}
