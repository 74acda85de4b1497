//! D2: power cuts during ingest; no acknowledged segment is lost.
//!
//! The data directory lies on an ext4 in a file, that file on a btrfs in another one. A copy of the
//! file that shares its blocks (`cp --reflink`) is taken in an instant, while everything writes, and
//! holds what a disk would hold if the power went then: what the kernel had not written is not in
//! it. A kill proves nothing of that kind, for the kernel survives it.
//!
//! The test runs itself again in a mount namespace, so that the mounts go with the process.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tokio::sync::watch;

use crate::kills::{Dice, compare};
use crate::process::RunningServer;
use crate::wire_node::{Broken, Until, WireNode};

/// Set in the process that has the mounts: the folder with everything.
const FOLDER: &str = "LEASEWATCH_TEST_POWER_CUT";
const CUTS: u32 = 5;

#[test]
fn five_power_cuts_lose_no_acknowledged_segment() {
    let is_campaign = std::env::var_os("LEASEWATCH_CAMPAIGN").is_some();
    let cuts = if is_campaign { 50 } else { CUTS };
    let name = "five_power_cuts_lose_no_acknowledged_segment";
    in_a_mount_namespace(name, |folder| assert_eq!(cut_again_and_again(folder, None, cuts), None));
}

#[test]
fn a_database_that_does_not_sync_is_noticed() {
    in_a_mount_namespace("a_database_that_does_not_sync_is_noticed", |folder| {
        let broken = cut_again_and_again(folder, Some("fsync_off"), 2);
        assert!(broken.is_some(), "what was acknowledged was there, synced or not");
    });
}

/// Runs a test of this module again, as the only one who sees its mounts.
fn in_a_mount_namespace(test: &str, body: impl FnOnce(&Path)) {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return body(Path::new(&folder));
    }
    assert!(
        rustix::process::getuid().is_root(),
        "a power cut needs loop devices, and these need root: run the tests as root"
    );
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("power_cut::{test}"), "--nocapture"])
        .env(FOLDER, folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
}

/// Cuts the power while nodes deliver, recovers from what the disk held, and looks.
fn cut_again_and_again(folder: &Path, promise: Option<&str>, cuts: u32) -> Option<Broken> {
    let disk = CutDisk::new(folder);
    let data = disk.mounted.join("data");
    std::fs::create_dir(&data).unwrap();
    let mut node = WireNode::new(1);
    let mut dice = Dice(0xc0ffee);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for _ in 0..cuts {
        let server = match RunningServer::start_broken(&data, promise) {
            Ok(server) => server,
            Err(error) => return Some(error),
        };
        // What was there before is not what is looked at.
        disk.sync();
        let (cut, acked) =
            match runtime.block_on(cut_while_delivering(&disk, (&mut node, &server), &mut dice)) {
                Ok(cut) => cut,
                Err(broken) => return Some(broken),
            };
        server.kill();
        disk.recover(&cut);
        // Only what was acknowledged before the cut has to be there.
        node.acked.send_replace(acked);
    }
    let server = match RunningServer::start_broken(&data, promise) {
        Ok(server) => server,
        Err(error) => return Some(error),
    };
    runtime
        .block_on(async {
            while node.acked() < node.sealed.len() as u64 {
                node.deliver(&server.url(), &Until::AllSealed).await?;
            }
            compare(&data, std::slice::from_ref(&node)).await
        })
        .err()
}

/// Returns the disk as the cut found it, and the last sequence that was acknowledged before.
async fn cut_while_delivering(
    disk: &CutDisk,
    (node, server): (&mut WireNode, &RunningServer),
    dice: &mut Dice,
) -> Result<(PathBuf, u64), Broken> {
    let mut acked = node.acked.subscribe();
    let goal = node.acked() + 10 + dice.below(20);
    let url = server.url();
    let cutting = async {
        let _ = acked.wait_for(|acked| *acked >= goal).await;
        tokio::time::sleep(Duration::from_millis(dice.below(100))).await;
        let before = *acked.borrow();
        let cut = tokio::task::spawn_blocking({
            let disk = disk.clone();
            move || disk.cut()
        });
        (cut.await.unwrap(), before)
    };
    let (_tell, told) = watch::channel(false);
    let delivering = async {
        loop {
            // A stream that ends is opened again, as agents do.
            node.deliver(&url, &Until::Told(told.clone())).await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        broken = delivering => broken,
        cut = cutting => Ok(cut),
    }
}

/// A disk that can be copied in an instant.
#[derive(Clone)]
struct CutDisk {
    /// Where the btrfs is.
    below: PathBuf,
    /// Where the disk is.
    mounted: PathBuf,
}

impl CutDisk {
    fn new(folder: &Path) -> Self {
        let (below, mounted) = (folder.join("below"), folder.join("mounted"));
        let image = folder.join("below.img");
        std::fs::create_dir(&below).unwrap();
        std::fs::create_dir(&mounted).unwrap();
        let disk = Self { below, mounted };
        make_image(&image, 4 << 30);
        run("mkfs.btrfs", &["--quiet", text(&image)]);
        run("mount", &["-o", "loop", text(&image), text(&disk.below)]);
        make_image(&disk.image(), 1 << 30);
        run("mkfs.ext4", &["-q", "-F", text(&disk.image())]);
        disk.mount();
        for path in [folder, &disk.mounted] {
            run("chmod", &["711", text(path)]);
        }
        disk
    }

    fn image(&self) -> PathBuf {
        self.below.join("disk.img")
    }

    fn mount(&self) {
        run("mount", &["-o", "loop", text(&self.image()), text(&self.mounted)]);
    }

    fn sync(&self) {
        run("sync", &["--file-system", text(&self.mounted)]);
    }

    fn cut(&self) -> PathBuf {
        let cut = self.below.join("cut.img");
        run("cp", &["--reflink=always", text(&self.image()), text(&cut)]);
        cut
    }

    /// Goes on with a disk as a cut found it.
    fn recover(&self, cut: &Path) {
        // PostgreSQL may still be at work on the disk that is given up.
        for _ in 0..600 {
            if Command::new("umount").arg(&self.mounted).output().unwrap().status.success() {
                std::fs::rename(cut, self.image()).unwrap();
                return self.mount();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the disk is still in use");
    }
}

fn make_image(path: &Path, bytes: u64) {
    std::fs::File::create(path).unwrap().set_len(bytes).unwrap();
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program} is needed: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
}
