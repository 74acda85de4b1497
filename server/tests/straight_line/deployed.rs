//! What the files in `deploy` start: each of their command lines is taken out of them and run, with
//! the real programs, on a PostgreSQL of this test and in its folder.
//!
//! There is no container here. What stands for one is the environment that its image and its file
//! set; folders, ports and the database's address are the test's own.

#[path = "deployed/files.rs"]
mod files;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use leasewatch_server::embedded_postgres::{EmbeddedPostgres, Options, SUPERUSER};
use leasewatch_server::store::{self, Durability};

use crate::process::{data_dir, eventually, free_port};
use crate::secure::{Running, program};
use files::{Container, Deployed};

const DATABASE: &str = "leasewatch";

/// The database, and where the files' places are here.
struct Rig {
    folder: tempfile::TempDir,
    postgres: EmbeddedPostgres,
    /// What a file says, and what it is here.
    places: Vec<(String, String)>,
}

impl Rig {
    async fn start(files: &Deployed) -> Self {
        let folder = data_dir();
        let options = Options {
            base_dir: folder.path().join("database"),
            bin_dir: None,
            helper: program("leasewatch-server"),
            durability: Durability::Durable,
        };
        let postgres = EmbeddedPostgres::start(options).await.unwrap();
        store::create_database(&postgres.url(SUPERUSER, DATABASE)).await.unwrap();
        let port = free_port();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        for name in ["server", "join", "agent", "node", "secret"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let admin = format!("postgres://postgres:leasewatch@postgres:5432/{DATABASE}");
        let login = format!("postgres://leasewatch_login:leasewatch@postgres:5432/{DATABASE}");
        let library = program("libnvidia_ml_sim.so");
        let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(files.scenario());
        let places = [
            (admin.as_str(), postgres.url(SUPERUSER, DATABASE)),
            (&login, postgres.url("leasewatch_login", DATABASE)),
            ("https://server:7443", format!("https://127.0.0.1:{port}")),
            ("https://127.0.0.1:7443", format!("https://127.0.0.1:{port}")),
            ("0.0.0.0:7443", format!("0.0.0.0:{port}")),
            ("/usr/local/lib/leasewatch/libnvidia_ml_sim.so", library.to_str().unwrap().to_owned()),
            ("/usr/local/share/leasewatch/scenario.toml", scenario.to_str().unwrap().to_owned()),
            ("/var/lib/leasewatch-agent", at("agent")),
            ("/var/lib/leasewatch", at("server")),
            ("/run/leasewatch", at("secret")),
            ("/join", at("join")),
        ];
        let places = places.map(|(from, to)| (from.to_owned(), to)).to_vec();
        Self { folder, postgres, places }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn here(&self, text: &str) -> String {
        for (from, to) in &self.places {
            // The longer ones stand first, so the first that fits is the one that is meant.
            if text.contains(from.as_str()) {
                return text.replace(from.as_str(), to);
            }
        }
        text.to_owned()
    }

    /// One command line of a container, in its environment and no other.
    fn command(&self, container: &Container, line: &[String]) -> Command {
        let programs = program("leasewatch-server");
        let path = format!("{}:/usr/bin:/bin", programs.parent().unwrap().display());
        let mut command = Command::new(&line[0]);
        command.env_clear().env("PATH", path).stdin(Stdio::null());
        command.args(line[1..].iter().map(|word| self.here(word)));
        for (name, value) in &container.environment {
            command.env(name, self.here(value));
        }
        command
    }

    fn output(&self, container: &Container, line: &[String]) -> Output {
        self.command(container, line).output().unwrap()
    }

    /// What a command printed that has to work.
    fn said(&self, container: &Container, line: &[String]) -> String {
        let output = self.output(container, line);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{line:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn start_container(&self, name: &str, container: &Container) -> Running {
        let log = std::fs::File::create(self.path(&format!("{name}.log"))).unwrap();
        let mut command = self.command(container, &container.line);
        Running(command.stdout(Stdio::null()).stderr(log).spawn().unwrap())
    }

    /// Until the container's own health check is content.
    fn await_health(&self, name: &str, container: &Container) {
        eventually(&format!("{name} to be healthy"), || {
            self.output(container, &container.health).status.success().then_some(())
        });
    }

    /// As PostgreSQL's image runs its scripts, and its health check, which is asked before and after.
    fn make_login(&self, container: &Container) {
        let url = self.postgres.url(SUPERUSER, DATABASE);
        let socket = url.split("host=").nth(1).unwrap().split('&').next().unwrap();
        let socket = socket.replace("%2F", "/").replace("%2f", "/");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/postgres-login.sh");
        let health =
            container.health[2].replace("-h 127.0.0.1 -U postgres", &format!("-U {SUPERUSER}"));
        let health = [&container.health[..2], &[health]].concat();
        let run = |line: &[String]| {
            let mut command = self.command(container, line);
            command.env("PGHOST", &socket).env("POSTGRES_USER", SUPERUSER).output().unwrap()
        };
        assert!(!run(&health).status.success(), "healthy before there is a login");
        let made = run(&["sh".to_owned(), script.to_str().unwrap().to_owned()]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        assert!(run(&health).status.success());
    }
}

fn words(line: &[&str]) -> Vec<String> {
    line.iter().map(|word| (*word).to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compose_makes_a_user_a_server_and_an_agent_and_the_daemon_set_another() {
    let files = Deployed::read();
    let rig = Rig::start(&files).await;
    rig.make_login(&files.service("postgres"));

    // The first start and a later one.
    let setup = files.service("setup");
    let first = rig.said(&setup, &setup.line);
    let link = first.lines().find(|line| line.contains("/link/")).unwrap().to_owned();
    let base = rig.here("https://127.0.0.1:7443");
    assert!(link.starts_with(&format!("{base}/link/")), "{link}");
    let join = std::fs::read_to_string(rig.path("join/string")).unwrap();
    assert!(join.starts_with("lwj1_"), "{join}");
    let again = rig.said(&setup, &setup.line);
    assert_eq!(again.trim(), "operator\toperator");
    assert_eq!(std::fs::read_to_string(rig.path("join/string")).unwrap(), join);

    let server = files.service("server");
    assert!(!rig.output(&server, &server.health).status.success(), "healthy before it runs");
    let _server = rig.start_container("server", &server);
    rig.await_health("server", &server);
    let agent = files.service("agent");
    let running = rig.start_container("agent", &agent);
    rig.await_health("agent", &agent);
    let nodes = || rig.said(&server, &words(&["leasewatch-server", "nodes", "list"]));
    assert!(nodes().contains("default/simulated simulated"), "{}", nodes());
    // What the head of the file tells people to type.
    let exec = words(&["leasewatch-server", "users", "sign-in", "operator"]);
    assert!(rig.said(&server, &exec).starts_with(&format!("{base}/link/")));

    // The next one takes over the folder's path, which is the same in both images.
    drop(running);
    std::fs::rename(rig.path("agent"), rig.path("compose-agent")).unwrap();
    let fleet = files.daemon_set_token();
    let secret = rig.said(&server, &fleet);
    std::fs::write(rig.path("secret/join"), secret).unwrap();
    let mut pod = files.daemon_set();
    // The driver of this test's node.
    let simulated = ["LEASEWATCH_NVML_LIBRARY", "LEASEWATCH_SIM_SCENARIO"];
    pod.environment
        .extend(simulated.map(|name| (name.to_owned(), agent.environment[name].clone())));
    let _pod = rig.start_container("pod", &pod);
    rig.await_health("pod", &pod);
    assert!(nodes().contains("default/node-of-the-pod simulated"), "{}", nodes());
}

/// A variable that no program reads is a setting that has no effect, and nobody would notice.
#[test]
fn every_variable_of_the_files_is_one_that_a_program_reads() {
    let files = Deployed::read();
    let help = |name: &str, command: &str| {
        let output = Command::new(program(name)).args([command, "--help"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let known = help("leasewatch-server", "serve") + &help("leasewatch-agent", "run");
    let all: BTreeMap<String, String> =
        files.containers().into_iter().flat_map(|c| c.environment).collect();
    let ours: Vec<&String> = all
        .keys()
        .filter(|name| name.starts_with("LEASEWATCH_") || name.starts_with("DATABASE_"))
        // The simulator's, and the database's own script's.
        .filter(|name| {
            !name.starts_with("LEASEWATCH_SIM_") && *name != "LEASEWATCH_DATABASE_PASSWORD"
        })
        .collect();
    assert!(ours.len() > 6, "{ours:?}");
    for name in ours {
        assert!(known.contains(&format!("[env: {name}")), "{name} is read by no program");
    }
}

#[test]
fn nothing_is_published_beyond_this_machine_and_no_container_has_more_rights_than_it_needs() {
    let files = Deployed::read();
    let published: Vec<String> = ["postgres", "setup", "server", "agent"]
        .into_iter()
        .flat_map(|name| files.published(name))
        .collect();
    assert_eq!(published, ["127.0.0.1:5433:5432", "127.0.0.1:7443:7443"]);
    for text in files.texts() {
        for wrong in ["privileged", "network_mode", "hostNetwork", "hostPID", "SYS_ADMIN"] {
            assert!(!text.contains(wrong), "{wrong}");
        }
    }
    // Nothing in an image runs as root but where a file says so with its reason.
    for target in ["server", "agent", "simulated"] {
        assert_eq!(files.image_user(target), "10001:10001", "{target}");
    }
}
