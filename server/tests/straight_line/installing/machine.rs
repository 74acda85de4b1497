//! A machine that has nothing of ours: namespaces with a file system of their own, in which this
//! machine's programs and the driver's library (the simulated one) can be used, and nothing else is.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::fleet::programs;
use crate::process::eventually;

/// Makes the file system and waits in it. `$1` is an empty folder, `$2` the name, `$3` the library,
/// `$4` what it plays, `$5` what `sh` is, the rest what is not to be there.
const SET_UP: &str = r#"
set -e
root=$1 name=$2 library=$3 scenario=$4 shell=$5
shift 5
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$root"
cd "$root"
mkdir -p usr etc/systemd/system var/lib var/tmp root home/li tmp run proc dev opt/driver
chmod 1777 tmp var/tmp
chmod 700 root
for name_of in bin sbin lib lib64; do ln -s "usr/$name_of" "$name_of"; done
mount --rbind /usr usr
mount -t tmpfs -o mode=755 tmpfs usr/local
mkdir usr/local/bin usr/local/lib
mount -t proc proc proc
mount --rbind /dev dev
printf 'root:x:0:0::/root:/bin/sh\nli:x:1000:1000::/home/li:/bin/sh\n' >etc/passwd
printf 'root:x:0:\nli:x:1000:\n' >etc/group
chown 1000:1000 home/li
echo "$name" | sha256sum | cut -c 1-32 >etc/machine-id
echo "$name" >proc/sys/kernel/hostname
cp "$library" opt/driver/libnvidia-ml.so.1
cp "$scenario" opt/driver/scenario.toml
echo /opt/driver >etc/ld.so.conf
[ "$shell" = dash ] || mount --bind "usr/bin/$shell" usr/bin/dash
for hidden; do mount --bind /dev/null "usr/bin/$hidden"; done
/sbin/ldconfig -r "$root" 2>/dev/null
touch ready
exec chroot "$root" sleep infinity
"#;

/// What is there, with kind, mode, owner, target and size; not what programs leave in `/proc`.
const LISTING: &str = "find / /usr/local -xdev ! -path '/proc/*' ! -path '/dev/*' \
                       -printf '%p %y %m %u %l' \\( -type f -printf ' %s\\n' -o -printf '\\n' \\) | sort";

/// It ends with all that runs in it.
pub(super) struct Machine {
    outside: Child,
    inside: String,
    _root: tempfile::TempDir,
}

impl Machine {
    /// One with this name, this program as `sh`, and without those.
    pub(super) fn new(name: &str, shell: &str, hidden: &[&str]) -> Self {
        let root = tempfile::tempdir_in("/tmp").unwrap();
        let mut command = Command::new("unshare");
        if !rustix::process::getuid().is_root() {
            command.args(["--user", "--map-root-user", "--map-auto"]);
        }
        let outside = command
            .args(["--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child"])
            .args(["/bin/sh", "-c", SET_UP, "machine"])
            .arg(root.path())
            .arg(name)
            .arg(programs().join("libnvidia_ml_sim.so"))
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../nvml-sim/scenarios/demo-l40s.toml"))
            .arg(shell)
            .args(hidden)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let children = format!("/proc/{0}/task/{0}/children", outside.id());
        let mut machine = Self { outside, inside: String::new(), _root: root };
        machine.inside = eventually("a machine", || {
            let text = std::fs::read_to_string(&children).ok()?;
            let inside = text.split(' ').next().filter(|pid| !pid.is_empty())?.to_owned();
            let ready = Path::new(&format!("/proc/{inside}/root/ready")).exists();
            ready.then_some(inside)
        });
        machine.ran("rm /ready");
        machine
    }

    /// What is typed into a shell of root.
    pub(super) fn run(&self, typed: &str) -> Output {
        self.typed(&["/bin/sh"], typed)
    }

    /// The same, of the account `li`.
    pub(super) fn run_as_li(&self, typed: &str) -> Output {
        let account = ["--reuid=1000", "--regid=1000", "--clear-groups", "env", "HOME=/home/li"];
        self.typed(&[&["setpriv"], &account[..], &["/bin/sh"]].concat(), typed)
    }

    fn typed(&self, shell: &[&str], typed: &str) -> Output {
        let mut child = Command::new("nsenter")
            .args([
                "--target",
                &self.inside,
                "--mount",
                "--pid",
                "--uts",
                "--ipc",
                "--root",
                "--wdns=/",
            ])
            .args(["env", "-i", "PATH=/usr/local/bin:/usr/bin:/usr/sbin", "HOME=/root"])
            .arg("LEASEWATCH_SIM_SCENARIO=/opt/driver/scenario.toml")
            .args(shell)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    /// What a command prints that has to work.
    pub(super) fn ran(&self, typed: &str) -> String {
        worked(self.run(typed))
    }

    pub(super) fn listing(&self) -> String {
        self.ran(LISTING)
    }

    /// Programs that run here, but for the ones that are asked with.
    pub(super) fn running(&self) -> Vec<String> {
        let names = self.ran(
            // One that has ended and nobody asks about has no program any more.
            "for p in /proc/[0-9]*; do readlink -q $p/exe >/dev/null && cat $p/comm; done; true",
        );
        let asking = ["sleep", "sh", "dash", "bash", "busybox", "cat", "env", ""];
        names.lines().filter(|name| !asking.contains(name)).map(str::to_owned).collect()
    }
}

pub(super) fn worked(output: Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{text}\n{said}", output.status);
    text
}

/// Why something did not work, which it must not have.
pub(super) fn refused(output: Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    said
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.outside.kill();
        let _ = self.outside.wait();
    }
}
