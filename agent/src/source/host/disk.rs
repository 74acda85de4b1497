//! On what disk a directory lies, from the kernel's own lists.
//!
//! The directory is not opened and no file system is asked: a mount whose server is gone would not
//! answer. What a container or a virtual machine hides stays hidden, and is named as such.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use leasewatch_core::sample::Reading;
use leasewatch_core::segment::{DiskMedium, Found, Unread, WorkDisk};

use super::file;

/// Layers of mappings that are followed down.
const LAYERS: u32 = 8;

/// Looks at the disk below `directory`, an absolute path, in the tree at `root`.
#[must_use]
pub fn work_disk(root: &Path, directory: &Path) -> WorkDisk {
    let mounts = match file::text(&root.join("proc/self/mountinfo")) {
        Ok(mounts) => mounts,
        Err(reason) => return WorkDisk { medium: Err(unread(reason)), filesystem: None },
    };
    let Some(mount) = Mount::of(&mounts, directory) else {
        return WorkDisk { medium: Err(Unread::Failed), filesystem: None };
    };
    WorkDisk { medium: medium(root, &mount), filesystem: Some(mount.filesystem.to_owned()) }
}

fn unread(reason: Reading) -> Unread {
    if reason == Reading::Unsupported { Unread::Unsupported } else { Unread::Failed }
}

/// A line of `mountinfo`.
struct Mount<'a> {
    /// `259:2`.
    device: &'a str,
    point: PathBuf,
    filesystem: &'a str,
    /// `/dev/nvme0n1p2`, a share, or anything.
    source: PathBuf,
}

impl<'a> Mount<'a> {
    /// The mount that holds the directory: the longest point that leads to it, of equal ones the
    /// last, which lies on top.
    fn of(mounts: &'a str, directory: &Path) -> Option<Self> {
        let holding = mounts.lines().filter_map(Self::read);
        holding
            .filter(|mount| directory.starts_with(&mount.point))
            .max_by_key(|mount| mount.point.as_os_str().len())
    }

    fn read(line: &'a str) -> Option<Self> {
        let (head, tail) = line.split_once(" - ")?;
        let mut head = head.split(' ').skip(2);
        let (device, point) = (head.next()?, head.nth(1)?);
        let mut tail = tail.split(' ');
        let (filesystem, source) = (tail.next()?, tail.next()?);
        Some(Self { device, point: unescaped(point), filesystem, source: unescaped(source) })
    }
}

/// The kernel writes white space and backslashes as three octal digits.
fn unescaped(text: &str) -> PathBuf {
    let mut out = String::new();
    let mut parts = text.split('\\');
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) if code.is_ascii() => {
                out.push(char::from(code));
                out.push_str(&part[3..]);
            }
            _ => {
                out.push('\\');
                out.push_str(part);
            }
        }
    }
    PathBuf::from(out)
}

fn medium(root: &Path, mount: &Mount<'_>) -> Found<DiskMedium> {
    match mount.filesystem {
        "overlay" | "aufs" | "fuse.overlayfs" | "fuse-overlayfs" => Ok(DiskMedium::Overlay),
        "tmpfs" | "ramfs" | "rootfs" => Ok(DiskMedium::Memory),
        "nfs" | "nfs4" | "cifs" | "smb3" | "ceph" | "glusterfs" | "lustre" | "beegfs" | "9p"
        | "gpfs" | "afs" | "virtiofs" => Ok(DiskMedium::Network),
        // Of others in user space nothing says what is behind them.
        other if other.starts_with("fuse") => Err(Unread::Unsupported),
        _ => {
            let by_number = root.join("sys/dev/block").join(mount.device);
            let by_name =
                mount.source.file_name().map(|name| root.join("sys/class/block").join(name));
            let found = [Some(by_number), by_name].into_iter().flatten().find(|path| path.exists());
            found.map_or(Err(Unread::Unsupported), |path| of_device(&path, LAYERS))
        }
    }
}

/// What a block device is, by its folder in `/sys`; of a mapping, what all that is below it is.
fn of_device(path: &Path, layers: u32) -> Found<DiskMedium> {
    let folder = path.canonicalize().map_err(|_| Unread::Failed)?;
    // A partition lies in the folder of its disk.
    let disk = match folder.join("partition").exists() {
        true => folder.parent().unwrap_or(&folder).to_owned(),
        false => folder,
    };
    let below: Vec<PathBuf> = std::fs::read_dir(disk.join("slaves"))
        .map(|list| list.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect())
        .unwrap_or_default();
    if let Some((first, others)) = below.split_first() {
        let deeper = |path: &PathBuf| match layers {
            0 => Err(Unread::Failed),
            _ => of_device(path, layers - 1),
        };
        let medium = deeper(first)?;
        let alike = others.iter().all(|other| deeper(other) == Ok(medium));
        return if alike { Ok(medium) } else { Err(Unread::Unsupported) };
    }
    let name = disk.file_name().and_then(OsStr::to_str).unwrap_or_default();
    if name.starts_with("nvme") {
        return Ok(DiskMedium::Nvme);
    }
    // Whether these spin is what the host's administrator wrote there, if anything.
    if ["vd", "xvd"].iter().any(|prefix| name.starts_with(prefix)) {
        return Ok(DiskMedium::Virtual);
    }
    match file::number(&disk.join("queue/rotational")) {
        Ok(0) => Ok(DiskMedium::SolidState),
        Ok(1) => Ok(DiskMedium::Rotational),
        Ok(_) => Err(Unread::Failed),
        Err(reason) => Err(unread(reason)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A tree with the disks `nvme0n1` (partition 2 is 259:2), `sda` (8:0, spinning), `sdb` (8:16),
    /// `vda` (254:0), and `dm-0` (253:0) over the NVMe's partition.
    fn tree() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        let device = |path: &str, number: &str, rotational: &str| {
            let folder = at("sys/devices").join(path);
            fs::create_dir_all(folder.join("queue")).unwrap();
            fs::write(folder.join("queue/rotational"), format!("{rotational}\n")).unwrap();
            link(&at(""), &folder, number);
        };
        device("nvme0n1", "259:0", "0");
        device("sda", "8:0", "1");
        device("sdb", "8:16", "0");
        device("vda", "254:0", "1");
        device("dm-0", "253:0", "0");
        let partition = at("sys/devices/nvme0n1/nvme0n1p2");
        fs::create_dir_all(&partition).unwrap();
        fs::write(partition.join("partition"), "2\n").unwrap();
        link(&at(""), &partition, "259:2");
        fs::create_dir_all(at("sys/devices/dm-0/slaves")).unwrap();
        symlink(&partition, at("sys/devices/dm-0/slaves/nvme0n1p2")).unwrap();
        root
    }

    fn link(root: &Path, folder: &Path, number: &str) {
        for (list, name) in
            [("dev/block", OsStr::new(number)), ("class/block", folder.file_name().unwrap())]
        {
            let list = root.join("sys").join(list);
            fs::create_dir_all(&list).unwrap();
            symlink(folder, list.join(name)).unwrap();
        }
    }

    fn look(root: &Path, mounts: &str, directory: &str) -> WorkDisk {
        fs::create_dir_all(root.join("proc/self")).unwrap();
        fs::write(root.join("proc/self/mountinfo"), mounts).unwrap();
        work_disk(root, Path::new(directory))
    }

    #[test]
    fn a_directory_lies_on_the_disk_of_its_longest_mount() {
        let root = tree();
        let mounts = "\
            22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw\n\
            30 22 8:0 / /data rw shared:2 - xfs /dev/sda rw\n\
            31 30 0:40 / /data/with\\040space rw shared:3 - tmpfs none rw\n\
            32 22 253:0 / /crypt rw - ext4 /dev/mapper/c rw\n\
            33 22 0:50 / /share rw - nfs4 10.0.0.1:/x rw\n\
            34 22 0:51 / /pool rw - btrfs /dev/sdb rw\n\
            35 22 254:0 / /vm rw - ext4 /dev/vda rw\n\
            36 22 0:60 / /box rw - overlay overlay rw\n\
            37 22 0:61 / /user rw - fuse.sshfs me@there: rw\n\
            38 30 8:16 / /data rw - ext4 /dev/sdb rw\n\
            39 22 7:1 / /gone rw - ext4 /dev/loop1 rw\n";
        let cases = [
            ("/srv/work", Ok(DiskMedium::Nvme), "ext4"),
            ("/database", Ok(DiskMedium::Nvme), "ext4"),
            ("/data/set", Ok(DiskMedium::SolidState), "ext4"),
            ("/data/with space/x", Ok(DiskMedium::Memory), "tmpfs"),
            ("/crypt", Ok(DiskMedium::Nvme), "ext4"),
            ("/share/a", Ok(DiskMedium::Network), "nfs4"),
            ("/pool", Ok(DiskMedium::SolidState), "btrfs"),
            ("/vm", Ok(DiskMedium::Virtual), "ext4"),
            ("/box/workspace", Ok(DiskMedium::Overlay), "overlay"),
            ("/user/x", Err(Unread::Unsupported), "fuse.sshfs"),
            ("/gone", Err(Unread::Unsupported), "ext4"),
        ];
        for (directory, medium, filesystem) in cases {
            let expected = WorkDisk { medium, filesystem: Some(filesystem.to_owned()) };
            assert_eq!(look(root.path(), mounts, directory), expected, "{directory}");
        }
        let spinning = "30 22 8:0 / / rw - xfs /dev/sda rw\n";
        assert_eq!(look(root.path(), spinning, "/x").medium, Ok(DiskMedium::Rotational));
    }

    #[test]
    fn without_the_kernel_s_list_nothing_is_claimed() {
        let root = tempfile::tempdir().unwrap();
        let nothing = WorkDisk { medium: Err(Unread::Unsupported), filesystem: None };
        assert_eq!(work_disk(root.path(), Path::new("/x")), nothing);
        assert_eq!(look(root.path(), "nonsense\n", "/x").medium, Err(Unread::Failed));
    }
}
