//! From a simulated GPU to a bundle that the other side's program accepts, and what becomes of one
//! whose database was changed after it was published.

use std::path::Path;
use std::process::{Command, Output};

use ed25519_dalek::SigningKey;
use leasewatch_core::evidence::chain::leaf_hash;
use leasewatch_core::id::{Hash, KeyId, NodeId};
use leasewatch_core::metering::{HourNames, SEAL_AFTER_MS};
use leasewatch_core::time::{HOUR_MS, Hour, Timestamp};
use leasewatch_server::clock::Clock;
use leasewatch_server::embedded_postgres::{EmbeddedPostgres, SUPERUSER};
use leasewatch_server::jobs::publish::Publisher;
use leasewatch_server::jobs::{Jobs, close_hours};
use leasewatch_server::live::Live;
use leasewatch_server::store::{Scope, hour, hour_work, node};
use serde_json::Value;
use sqlx::{Connection as _, PgConnection};

use crate::fleet::{Agent, connect, programs, scenario};
use crate::imports::utf8;
use crate::process::{RunningServer, data_dir, eventually};

/// What the server itself does a day later: seals what there is, and publishes it.
async fn seal_and_publish(data: &Path) {
    let db = connect(data).await;
    let later = Clock::system().now().plus_ms(2 * HOUR_MS + SEAL_AFTER_MS);
    let jobs = Jobs { db, live: Live::new(), clock: Clock::manual(later) };
    let mut tx = jobs.db.begin(Scope::Worker).await.unwrap();
    let now = Clock::system().now().hour();
    for row in node::list(&mut tx).await.unwrap() {
        let hours = [Hour(now.0 - 1), now].map(|hour| (row.key, hour));
        hour_work::add(&mut tx, &hours, hour_work::WorkReason::Again).await.unwrap();
    }
    tx.commit().await.unwrap();
    close_hours::turn(&jobs, true).await.unwrap();
    let (key, server) = identity(data);
    Publisher { jobs, key, server }.turn().await.unwrap();
}

/// The server's key, and the name of its logs.
fn identity(data: &Path) -> (SigningKey, String) {
    let text = std::fs::read_to_string(data.join("identity.key")).unwrap();
    let secret: Hash = text.trim().parse().unwrap();
    let key = SigningKey::from_bytes(&secret.0);
    let id = KeyId::of_public_key(&key.verifying_key().to_bytes()).to_string();
    (key, id[..16].to_owned())
}

fn bundle(data: &Path, name: &str, more: &[&str]) -> Output {
    bundle_of(data, name, &[&["--provider", "provider-a"], more].concat())
}

fn bundle_of(data: &Path, name: &str, more: &[&str]) -> Output {
    let time = |at: Timestamp| {
        let at = chrono::DateTime::from_timestamp_millis(at.0).unwrap();
        at.format("%Y-%m-%dT%H:%M:%SZ").to_string()
    };
    let now = Clock::system().now();
    let day = now.0.div_euclid(24 * HOUR_MS) * 24 * HOUR_MS;
    let (from, to) = (Timestamp(day - 24 * HOUR_MS), Timestamp(day + 48 * HOUR_MS));
    Command::new(env!("CARGO_BIN_EXE_leasewatch-server"))
        .args(["bundle", "export", "--data-dir"])
        .arg(data)
        .args(["--from", &time(from), "--to", &time(to)])
        .args(more)
        .arg(data.join(name))
        .env_remove("DATABASE_URL")
        .env_remove("DATABASE_ADMIN_URL")
        .output()
        .unwrap()
}

/// Exit status and report of the program of the other side.
fn checked(data: &Path, name: &str) -> (i32, Value) {
    let program = programs().join("leasewatch-verify");
    assert!(program.exists(), "leasewatch-verify is not built: run `cargo build --workspace`");
    // Nothing but the file: no home, no database, no server.
    let output =
        Command::new(program).args(["check", "--json"]).arg(data.join(name)).env_clear().output();
    let output = output.unwrap();
    let report = serde_json::from_slice(&output.stdout).unwrap();
    (output.status.code().unwrap(), report)
}

fn worked(output: &Output) -> String {
    assert!(output.status.success(), "{}", utf8(&output.stderr));
    utf8(&output.stdout)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_of_a_real_fleet_is_verified_and_one_of_a_rewritten_database_is_not() {
    let data = data_dir();
    let folder = data.path();
    let begins = format!("epoch_file = {:?}\n", folder.join("gpu-node.epoch"));
    std::fs::write(folder.join("gpu-node.toml"), begins + &scenario("demo-v100-t4")).unwrap();
    let server = RunningServer::start(folder);
    let mut agent = Agent::start(&server, folder, "gpu-node", Some("500ms"));
    eventually("some seconds of readings", || {
        agent.scenario_second().filter(|second| *second >= 5)
    });
    Agent::stop_all(vec![&mut agent]);
    seal_and_publish(folder).await;

    let said = worked(&bundle(folder, "small.zip", &[]));
    assert!(said.contains("hour statements and 0 headers"), "{said}");
    worked(&bundle(folder, "full.zip", &["--full"]));
    worked(&bundle(folder, "raw.zip", &["--with-raw", "--timezone", "Asia/Shanghai"]));
    for name in ["small.zip", "full.zip", "raw.zip"] {
        let (code, report) = checked(folder, name);
        assert_eq!(code, 0, "{report:#}");
        assert!(report["verdict"].as_str().unwrap().contains("self-attested"), "{report:#}");
        assert!(report["notes"].to_string().contains("simulated"), "{report:#}");
    }
    let (_, report) = checked(folder, "full.zip");
    let said = report["steps"].to_string();
    assert!(said.contains("of 1 nodes") && said.contains("heads of 1 chains"), "{report:#}");
    holds_what_it_should(folder);

    // The same request gives the same bytes, whatever came later.
    let size = size_of(folder, "full.zip");
    worked(&bundle(folder, "again.zip", &["--full", "--log-size", &size]));
    let bytes = |name| std::fs::read(folder.join(name)).unwrap();
    assert_eq!(bytes("again.zip"), bytes("full.zip"));

    follow_by_hand(folder);
    of_a_rental(folder, &server);
    rewrite(folder).await;
}

/// The commands of `verify.md`, as they stand there, with nothing of leasewatch.
fn follow_by_hand(folder: &Path) {
    let text = file(folder, "full.zip", "verify.md");
    let (_, by_hand) = text.split_once("## By hand").unwrap();
    let (by_hand, _) = by_hand.split_once("# 如何核验本证据包").unwrap();
    let commands: Vec<&str> =
        by_hand.lines().filter_map(|line| line.strip_prefix("    ")).collect();
    let place = folder.join("by-hand");
    std::fs::create_dir(&place).unwrap();
    std::fs::copy(folder.join("full.zip"), place.join("bundle.zip")).unwrap();
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &commands.join("\n")])
        .current_dir(&place)
        .output()
        .unwrap();
    let said = worked(&output);
    assert_eq!(said.matches("Signature Verified Successfully").count(), 2, "{said}");
    let hour = file(folder, "full.zip", "hours.jsonl");
    let leaf = leaf_hash(hour.lines().next().unwrap().as_bytes()).to_string();
    assert!(said.contains(&leaf), "{leaf} is not in {said}");
    let manifest: Value = serde_json::from_str(&file(folder, "full.zip", "manifest.json")).unwrap();
    let listed = manifest["files"].as_array().unwrap().iter();
    let listed = listed.filter(|file| said.contains(file["sha256"].as_str().unwrap()));
    assert_eq!(listed.count(), 6, "{said}");
    let log = file(folder, "full.zip", "log.jsonl");
    assert!(log.contains(r#"{"file":"hours.jsonl","line":1}"#), "{log}");
}

/// A rental of one of the two GPUs, from its name alone.
fn of_a_rental(folder: &Path, server: &RunningServer) {
    let day = Timestamp(Clock::system().now().0.div_euclid(24 * HOUR_MS) * 24 * HOUR_MS);
    let leases = format!(
        "[[lease]]\nname = \"one-gpu\"\nprovider = \"provider-a\"\ngpu_model = \"V100\"\n\
        gpu_count = 1\ncurrency = \"USD\"\nstarts_at = \"{day}\"\n\
        prices = [{{ amount = \"1\", unit = \"gpu_hour\" }}]\n\
        [[assignment]]\nlease = \"one-gpu\"\nnode = \"gpu-node\"\nslots = [0]\n\
        starts_at = \"{day}\"\n"
    );
    std::fs::write(folder.join("leases.toml"), leases).unwrap();
    let applied = Command::new(env!("CARGO_BIN_EXE_leasewatch-server"))
        .args(["apply", "--data-dir"])
        .arg(folder)
        .arg("-f")
        .arg(folder.join("leases.toml"))
        .env_remove("DATABASE_URL")
        .env_remove("DATABASE_ADMIN_URL")
        .output()
        .unwrap();
    worked(&applied);
    assert!(server.get("/leases?lang=en").contains("one-gpu"));
    worked(&bundle_of(folder, "rental.zip", &["--lease", "one-gpu"]));
    let (code, report) = checked(folder, "rental.zip");
    assert_eq!(code, 0, "{report:#}");
    assert!(report["steps"].to_string().contains("of 1 slots"), "{report:#}");
    let hours = file(folder, "rental.zip", "hours.jsonl");
    let all = file(folder, "full.zip", "hours.jsonl");
    assert!(!hours.is_empty() && hours.lines().count() < all.lines().count());
    assert!(hours.lines().all(|line| line.contains("\"slot\":0")), "{hours}");
    let refused = bundle_of(folder, "other.zip", &["--lease", "nobodys"]);
    assert!(utf8(&refused.stderr).contains("there is no rental nobodys"));
}

fn file(folder: &Path, bundle: &str, name: &str) -> String {
    let file = std::fs::File::open(folder.join(bundle)).unwrap();
    let mut zip = zip::ZipArchive::new(file).unwrap();
    std::io::read_to_string(zip.by_name(name).unwrap()).unwrap()
}

fn size_of(folder: &Path, bundle: &str) -> String {
    let manifest: Value = serde_json::from_str(&file(folder, bundle, "manifest.json")).unwrap();
    manifest["log_size"].as_str().unwrap().to_owned()
}

/// The documents say what a reader must know first, in both languages, and load nothing.
fn holds_what_it_should(folder: &Path) {
    let report = file(folder, "raw.zip", "report.html");
    for said in [
        "Self-attested",
        "自证（无第三方见证）",
        "Simulated data",
        "模拟数据",
        "gpu-node",
        "Asia/Shanghai",
    ] {
        assert!(report.contains(said), "{said} is not in the report");
    }
    for banned in ["<script", "http://", "https://", "src=", "@import"] {
        assert!(!report.contains(banned), "{banned} is in the report");
    }
    let table = file(folder, "full.zip", "hours.csv");
    let statements = file(folder, "full.zip", "hours.jsonl");
    assert_eq!(table.lines().count(), statements.lines().count() + 1);
    assert!(table.contains("gpu-node"));
    assert!(file(folder, "full.zip", "verify.md").contains("openssl pkeyutl"));
    let mut zip =
        zip::ZipArchive::new(std::fs::File::open(folder.join("raw.zip")).unwrap()).unwrap();
    let captured = (0..zip.len()).find_map(|at| {
        let file = zip.by_index(at).unwrap();
        let is_capture = String::from_utf8_lossy(file.name_raw()).starts_with("segments/");
        is_capture.then(|| std::io::read_to_string(file).map_or_else(|_| 1, |text| text.len()))
    });
    assert!(captured.is_some_and(|bytes| bytes > 0), "no segments in it");
}

/// The owner of the server makes a GPU busier after the fact: with the record alone, then with its
/// leaf too.
async fn rewrite(folder: &Path) {
    let db = connect(folder).await;
    let mut tx = db.begin(Scope::Worker).await.unwrap();
    let nodes = node::list(&mut tx).await.unwrap();
    let node = nodes.iter().find(|node| node.name == "gpu-node").unwrap();
    let rows = hour::of_node(&mut tx, node.key, Hour(0), Hour(1_000_000)).await.unwrap();
    let row = rows.iter().find(|row| row.record.measured_ms() > 2_000).unwrap();
    let mut record = row.record.clone();
    let busy_ms = 1_000;
    record.histogram.add(99, busy_ms);
    record.enrolled_ms += busy_ms;
    let names = HourNames {
        tenant: &node.tenant,
        node: NodeId(node.id.0),
        slot: row.slot,
        revision: row.revision,
        previous: row.previous,
    };
    let (body, hash) = (record.pack(), record.statement_hash(&names));
    let url = EmbeddedPostgres::running_url(folder, SUPERUSER, "leasewatch").unwrap();
    let mut admin = PgConnection::connect(&url).await.unwrap();
    // Triggers keep sealed hours; whoever owns the machine can switch them off.
    sqlx::raw_sql("set session_replication_role = replica").execute(&mut admin).await.unwrap();
    let changed = sqlx::query(
        "update hour_record set body = $1, hash = $2, busy_pct_ms = $3, enrolled_ms = $4,
            measured_ms = $5 where hash = $6",
    )
    .bind(&body)
    .bind(&hash.0[..])
    .bind(record.histogram.busy_pct_ms())
    .bind(i32::try_from(record.enrolled_ms).unwrap())
    .bind(i32::try_from(record.measured_ms()).unwrap())
    .bind(&row.hash.0[..])
    .execute(&mut admin)
    .await
    .unwrap();
    assert_eq!(changed.rows_affected(), 1);
    let refused = bundle(folder, "rewritten.zip", &["--full"]);
    let said = utf8(&refused.stderr);
    assert!(!refused.status.success() && said.contains("is not what was published"), "{said}");
    assert!(said.contains("gpu-node") && !folder.join("rewritten.zip").exists(), "{said}");

    let changed = sqlx::query("update log_leaf set hash = $1 where hash = $2")
        .bind(&hash.0[..])
        .bind(&row.hash.0[..])
        .execute(&mut admin)
        .await
        .unwrap();
    assert_eq!(changed.rows_affected(), 1);
    worked(&bundle(folder, "rewritten.zip", &["--full"]));
    let (code, report) = checked(folder, "rewritten.zip");
    assert_eq!(code, 1, "{report:#}");
    assert!(report.to_string().contains("do not lead to the checkpoint"), "{report:#}");
}
