//! Installing an agent as a person does: the command of the page, pasted on a machine that has
//! nothing of ours, against a server with a certificate that nobody knows.

#[path = "installing/machine.rs"]
mod machine;
#[path = "installing/respawn.rs"]
mod respawn;
#[path = "installing/unit.rs"]
mod unit;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use leasewatch_core::id::Hash;
use serde_json::Value;

use crate::process::{RunningServer, data_dir, eventually};
use machine::{Machine, refused, worked};

const UNINSTALL: &str = "/usr/local/lib/leasewatch-agent/uninstall";
/// The most that an agent for nodes may weigh.
const BYTES_MAX: u64 = 7 * 1_024 * 1_024;

/// A server that hands out the agent for nodes.
struct Site {
    data: tempfile::TempDir,
    server: RunningServer,
}

/// The file that `scripts/agent-dir` makes.
fn agent() -> PathBuf {
    let programs = Path::new(env!("CARGO_BIN_EXE_leasewatch-server")).parent().unwrap();
    let folder = programs.parent().unwrap().join("agents");
    let found =
        std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut agents = found.filter(|path| path.to_str().is_some_and(|p| p.ends_with("-x86_64")));
    let missing = || panic!("no agent for nodes: run `scripts/agent-dir {}`", folder.display());
    agents.next().unwrap_or_else(missing)
}

impl Site {
    fn new() -> Self {
        let data = data_dir();
        let bytes = std::fs::read(agent()).unwrap();
        hand_out(data.path(), &bytes);
        let server = RunningServer::start_closed(data.path());
        Self { data, server }
    }

    /// The page after a string for so many nodes was made.
    fn page(&self, nodes: u32) -> String {
        let form = format!("tenant=default&provider=acme&nodes={nodes}&valid=1h");
        let mut stream = TcpStream::connect(&self.server.address).unwrap();
        write!(
            stream,
            "POST /enroll?lang=en HTTP/1.0\r\nHost: {0}\r\nOrigin: http://{0}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {1}\r\n\r\n{form}",
            self.server.address,
            form.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn node(&self, name: &str) -> Option<Value> {
        let overview = self.server.json("/overview.json");
        let tenants = overview["tenants"].as_array()?.clone();
        let mut nodes = tenants.iter().flat_map(|tenant| {
            let providers = tenant["providers"].as_array().unwrap();
            providers.iter().flat_map(|provider| provider["nodes"].as_array().unwrap())
        });
        nodes.find(|node| node["name"] == name).cloned()
    }

    /// The node, once its GPUs report.
    fn live(&self, name: &str) -> Value {
        eventually("live GPUs on the overview", || {
            let node = self.node(name)?;
            let gpu = node["gpus"].get(0)?;
            (node["state"] == "up" && gpu["live"]["power_draw_mw"].is_number()).then_some(node)
        })
    }
}

/// The script as if it were given these arguments.
fn told(script: &str, arguments: &str) -> String {
    format!("{}main {arguments}\n", script.strip_suffix("main \"$@\"\n").unwrap())
}

fn hand_out(data: &Path, bytes: &[u8]) {
    let (folder, name) = (data.join("agents"), "leasewatch-agent-0.1.0-x86_64");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(name), bytes).unwrap();
    let line = format!("{}  {name}\n", Hash::of(bytes));
    std::fs::write(folder.join("SHA256SUMS"), line).unwrap();
}

/// A command as the page shows it.
fn command(page: &str, id: &str) -> String {
    let (_, rest) = page.split_once(&format!("<code id=\"{id}\">")).unwrap();
    let (text, _) = rest.split_once("</code>").unwrap();
    [("&#60;", "<"), ("&#62;", ">"), ("&#34;", "\""), ("&#39;", "'"), ("&#38;", "&")]
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// A shell that a user has, and what fetches there.
const FORMS: [(&str, &str, &str, [&str; 2]); 3] = [
    ("one", "dash", "join-curl", ["wget", "python3"]),
    ("two", "bash", "join-wget", ["curl", "python3"]),
    ("three", "busybox", "join-python", ["curl", "wget"]),
];

#[test]
fn the_shown_command_installs_in_each_form_and_what_it_made_is_removed() {
    let site = Site::new();
    let page = site.page(3);
    let join = command(&page, "join-string");
    std::thread::scope(|scope| {
        for (name, shell, id, hidden) in FORMS {
            let (site, join, command) = (&site, &join, command(&page, id));
            scope.spawn(move || {
                let machine = Machine::new(name, shell, &hidden);
                let before = machine.listing();
                let said = worked(machine.run(&command));
                assert!(said.contains("leasewatch-agent is installed"), "{name}: {said}");
                site.live(name);
                // The string is not needed any more, and stands nowhere.
                let kept = machine.run(&format!("grep -rs {join} /usr/local /var /etc /root /tmp"));
                assert_eq!(kept.status.code(), Some(1), "{name}: {kept:?}");
                worked(machine.run(&format!("{UNINSTALL} --purge")));
                assert_eq!(machine.listing(), before, "{name}");
                assert_eq!(machine.running(), Vec::<String>::new(), "{name}");
            });
        }
    });
    // Whoever looks at the token sees what the agents found.
    let page = site.server.get("/enroll/default/1?lang=en");
    assert!(page.contains("Connected.") && page.contains("3 of 3 joined"), "{page}");
    let sim = ["NVIDIA", "550.", "535.", "570.", "580."];
    assert!(sim.iter().any(|word| page.contains(word)), "{page}");
}

#[test]
fn an_upgrade_keeps_the_node_and_a_removed_agent_comes_back_as_the_same_one() {
    let site = Site::new();
    let machine = Machine::new("lasting", "dash", &[]);
    let before = machine.listing();
    let set = "sh -s -- --set LEASEWATCH_CADENCE=500ms";
    let shown = command(&site.page(1), "join-curl");
    worked(machine.run(&shown.replace(" sh\n", &format!(" {set}\n"))));
    let first = site.live("lasting");

    // What follows an ELF file is not loaded: another agent that does the same.
    let mut bytes = std::fs::read(agent()).unwrap();
    bytes.extend_from_slice(b"another build");
    hand_out(site.data.path(), &bytes);
    let pid = "cat /usr/local/lib/leasewatch-agent/pid";
    let old = machine.ran(pid);
    // The old command knows the old installer.
    let words = refused(machine.run(&shown));
    assert!(words.contains("Nothing was installed"), "{words}");
    assert_eq!(machine.ran(pid), old);
    let script = site.server.get("/install.sh");
    worked(machine.run(&script));
    let sum = machine.ran("sha256sum </usr/local/bin/leasewatch-agent");
    assert!(sum.starts_with(&Hash::of(&bytes).to_string()));
    assert_ne!(machine.ran(pid), old);
    let settings = machine.ran("cat /usr/local/lib/leasewatch-agent/environment");
    assert!(settings.contains("LEASEWATCH_CADENCE=500ms\n"), "{settings}");
    // Again, and there is nothing to do.
    let again = worked(machine.run(&script));
    assert!(again.contains("is here already"), "{again}");

    // An agent that dies is started again.
    let kept = machine.ran(pid);
    machine.ran("kill -9 $(pgrep -x leasewatch-agen)");
    eventually("an agent again", || {
        let running = machine.running();
        running.iter().any(|name| name == "leasewatch-agen").then_some(())
    });
    assert_eq!(machine.ran(pid), kept);

    let left = worked(machine.run(UNINSTALL));
    assert!(left.contains("its state is left in /var/lib/leasewatch-agent"), "{left}");
    worked(machine.run(&script));
    let back = site.live("lasting");
    assert_eq!(back["id"], first["id"]);
    worked(machine.run(&told(&script, "--uninstall --purge")));
    assert_eq!(machine.listing(), before);
}

#[test]
fn what_was_exchanged_or_cannot_join_is_not_installed_and_says_what_to_do() {
    let site = Site::new();
    let machine = Machine::new("careful", "dash", &[]);
    let before = machine.listing();
    let page = site.page(1);
    let shown = command(&page, "join-curl");
    let (_, digest) = shown.split_once("cut -c 1-64)\" = ").unwrap();
    let other = shown.replace(&digest[..64], &"0".repeat(64));
    let words = refused(machine.run(&other));
    assert!(words.contains("Nothing was installed"), "{words}");

    // A script that knows another agent than the server has, or is given another one.
    let script = site.server.get("/install.sh");
    let sum = Hash::of(&std::fs::read(agent()).unwrap()).to_string();
    let join = command(&page, "join-string");
    let foreign = format!("LEASEWATCH_JOIN={join}\n{}", script.replace(&sum, &"1".repeat(64)));
    let words = refused(machine.run(&foreign));
    assert!(words.contains("no agent to install") && words.contains("404"), "{words}");
    let given = format!("LEASEWATCH_JOIN={join}\n{}", told(&script, "--agent /usr/bin/env"));
    let words = refused(machine.run(&given));
    assert!(words.contains("another SHA-256"), "{words}");
    for (typed, advice) in [
        (script.clone(), "a join string is needed"),
        (format!("LEASEWATCH_JOIN=lwj2\n{script}"), "that is no join string"),
        (told(&script, "--purge"), "--purge belongs to --uninstall"),
        (told(&script, "--uninstall"), "no agent is installed"),
        (told(&script, "--set LEASEWATCH_JOIN=x"), "is no setting"),
        (told(&script, "--set PATH=x"), "is no setting"),
        (told(&script, "--state-dir /"), "is no folder for a state"),
    ] {
        let words = refused(machine.run(&typed));
        assert!(words.contains(advice), "{advice}: {words}");
    }
    let words = refused(machine.run_as_li(&shown.replace("echo sudo", "true")));
    assert!(words.contains("this needs root") && words.contains("--user"), "{words}");
    assert_eq!(machine.listing(), before);

    // Without root, by the command for it; then the string is used up for whoever comes next.
    worked(machine.run_as_li(&command(&page, "join-user")));
    site.live("careful");
    let words = refused(machine.run(&shown));
    assert!(words.contains("has not let it in") && words.contains("not authenticated"), "{words}");
    worked(machine.run(&format!("{UNINSTALL} --purge")));
    worked(machine.run_as_li("/home/li/.local/share/leasewatch-agent/uninstall --purge"));
    assert_eq!(machine.listing(), before);
    assert_eq!(machine.running(), Vec::<String>::new());
}

#[test]
fn the_agent_for_nodes_is_small_and_needs_no_glibc_above_2_17() {
    let agent = agent();
    let bytes = std::fs::metadata(&agent).unwrap().len();
    assert!(bytes <= BYTES_MAX, "{bytes} bytes");
    let dump = |option: &str| {
        let output = Command::new("objdump").arg(option).arg(&agent).output();
        worked(output.expect("objdump of binutils"))
    };
    let symbols = dump("-T");
    let needed: Vec<(u32, u32)> = symbols
        .split("GLIBC_")
        .skip(1)
        .map(|rest| {
            let version: String =
                rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
            let mut parts = version.split('.').map(|part| part.parse().unwrap());
            (parts.next().unwrap(), parts.next().unwrap())
        })
        .collect();
    assert!(needed.len() > 50, "{symbols}");
    let newest = needed.iter().max().unwrap();
    assert!(*newest <= (2, 17), "GLIBC_{}.{}", newest.0, newest.1);
    let libraries = dump("-p");
    let libraries: Vec<&str> = libraries
        .lines()
        .filter_map(|line| line.trim().strip_prefix("NEEDED"))
        .map(str::trim)
        .collect();
    let of_glibc = ["libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"];
    let is_there = |library: &&str| of_glibc.contains(library) || library.starts_with("ld-linux");
    assert!(libraries.iter().all(is_there), "{libraries:?}");
    let version = worked(Command::new(&agent).arg("--version").output().unwrap());
    assert_eq!(version, format!("leasewatch-agent {}\n", env!("CARGO_PKG_VERSION")));
}
