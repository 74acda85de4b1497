//! `doctor`: what is wrong is named with what to do, and looking changes nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use ed25519_dalek::{Signer, SigningKey};
use leasewatch_core::id::Hash;
use leasewatch_proto::convert::{Challenge, Hello};
use leasewatch_proto::v1::agent_message::Kind as Up;
use leasewatch_proto::v1::server_message::Kind as Down;
use leasewatch_proto::v1::telemetry_server::{Telemetry, TelemetryServer};
use leasewatch_proto::v1::{AgentMessage, ServerMessage};
use tokio::net::TcpListener;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use crate::rig::{Ended, Rig};

fn doctor(rig: &Rig, more: &[&str]) -> Ended {
    let state = rig.state_dir().display().to_string();
    rig.run(&[&["doctor", "--json", "--state-dir", &state][..], more].concat())
}

fn check(ended: &Ended, id: &str) -> serde_json::Value {
    let json = ended.json();
    let checks = json["checks"].as_array().unwrap().clone();
    checks.into_iter().find(|check| check["id"] == id).unwrap_or_else(|| panic!("{id}: {json}"))
}

#[test]
fn a_node_without_a_server_is_well_and_looking_leaves_nothing_behind() {
    let rig = Rig::of_cards("H100-SXM5-80GB", 40, "");
    fs::create_dir(rig.state_dir()).unwrap();
    fs::set_permissions(rig.state_dir(), fs::Permissions::from_mode(0o700)).unwrap();
    let ended = doctor(&rig, &[]);
    // Where the tests run, the state may lie on a file system that the agent warns of.
    let differ: Vec<_> =
        ended.ids("differs").into_iter().filter(|id| id != "state.filesystem").collect();
    assert_eq!(differ, [""; 0], "{}", ended.out);
    assert_eq!(check(&ended, "server.reach")["outcome"], "not_readable", "none is configured");
    let document = include_str!("../../../docs/OPERATIONS.md");
    for id in ended.json()["checks"].as_array().unwrap().iter().map(|check| &check["id"]) {
        let id = id.as_str().unwrap();
        assert!(document.contains(&format!("`{id}`")), "{id} is not in docs/OPERATIONS.md");
    }
    for id in ["driver.library", "events.xid", "permission.profiling", "state.durable"] {
        assert_eq!(check(&ended, id)["outcome"], "ok", "{id}");
    }
    assert_eq!(fs::read_dir(rig.state_dir()).unwrap().count(), 0);
}

#[test]
fn each_masked_sensor_is_named_and_what_a_class_lacks_is_normal() {
    let hidden = "[[faults]]\nkind = \"masked\"\ncard = 0\nmetrics = [\"power\", \"gpm\"]\n";
    let ended = doctor(&Rig::of_cards("H100-SXM5-80GB", 40, hidden), &[]);
    let masked = check(&ended, "sensor.masked");
    assert_eq!(
        (&masked["found"], &masked["outcome"]),
        (&"power_draw_mw".into(), &"differs".into())
    );
    assert_eq!(ended.code, Some(1));
    let geforce = doctor(&Rig::of_cards("RTX-4090", 40, ""), &[]);
    assert!(check(&geforce, "sensor.absent")["found"].as_str().unwrap().contains("memory_temp"));
    assert_eq!(check(&geforce, "sensor.masked")["outcome"], "ok");
}

#[test]
fn a_missing_driver_and_a_state_directory_that_is_open_come_with_the_cure() {
    let rig = Rig::of_cards("T4", 0, "");
    fs::create_dir(rig.state_dir()).unwrap();
    fs::set_permissions(rig.state_dir(), fs::Permissions::from_mode(0o755)).unwrap();
    let ended = doctor(&rig, &["--nvml-library", "/nowhere/libnvidia-ml.so.1"]);
    assert_eq!(ended.code, Some(1));
    let library = check(&ended, "driver.library");
    assert!(library["advice"].as_str().unwrap().contains("--nvml-library"), "{library}");
    let directory = check(&ended, "state.directory");
    assert!(directory["advice"].as_str().unwrap().contains("chmod 700"), "{directory}");
    assert_eq!(doctor(&rig, &["--cadence", "1h"]).code, Some(2));
}

#[test]
fn a_server_that_is_not_there_is_wrong_only_where_one_was_named() {
    let ended = doctor(&Rig::of_cards("T4", 0, ""), &["--server", "http://127.0.0.1:9"]);
    assert_eq!(check(&ended, "server.reach")["outcome"], "differs");
}

/// A server that answers a hello with its challenge and notes what comes.
#[derive(Clone)]
struct Service {
    identity: SigningKey,
    came: Arc<Mutex<Vec<&'static str>>>,
}

#[tonic::async_trait]
impl Telemetry for Service {
    type StreamStream = Pin<Box<dyn Stream<Item = Result<ServerMessage, Status>> + Send>>;

    async fn stream(
        &self,
        request: Request<Streaming<AgentMessage>>,
    ) -> Result<Response<Self::StreamStream>, Status> {
        let (answers, stream) = tokio::sync::mpsc::channel(4);
        let (service, mut messages) = (self.clone(), request.into_inner());
        tokio::spawn(async move {
            while let Some(Ok(message)) = messages.next().await {
                let Some(Up::Hello(hello)) = message.kind else {
                    service.came.lock().unwrap().push("more");
                    continue;
                };
                service.came.lock().unwrap().push("hello");
                let hello = Hello::from_wire(&hello).unwrap();
                let server_nonce = [7; 32];
                let signature = service.identity.sign(&hello.challenge_message(&server_nonce));
                let challenge = Challenge {
                    server_nonce,
                    identity_key: service.identity.verifying_key().to_bytes(),
                    signature: signature.to_bytes(),
                    rotations: Vec::new(),
                };
                let kind = Some(Down::Challenge(challenge.to_wire()));
                let _ = answers.send(Ok(ServerMessage { kind })).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}

#[test]
fn the_server_s_identity_is_proven_without_joining_it() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let identity = SigningKey::from_bytes(&[9; 32]);
    let came = Arc::new(Mutex::new(Vec::new()));
    let service = Service { identity: identity.clone(), came: Arc::clone(&came) };
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let serving = tonic::transport::Server::builder()
        .add_service(TelemetryServer::new(service))
        .serve_with_incoming(TcpListenerStream::new(listener));
    // It ends with the process of the test.
    std::thread::spawn(move || runtime.block_on(serving));
    let rig = Rig::of_cards("T4", 0, "");
    fs::create_dir(rig.state_dir()).unwrap();
    fs::set_permissions(rig.state_dir(), fs::Permissions::from_mode(0o700)).unwrap();
    let outcome =
        || check(&doctor(&rig, &["--server", &server]), "server.identity")["outcome"].clone();
    assert_eq!(outcome(), "ok", "proven, and nothing is pinned yet");
    assert!(!rig.state_dir().join("server.pub").exists(), "nor pinned by looking");
    let pin = |key: &SigningKey| {
        let text = format!("{}\n", Hash(key.verifying_key().to_bytes()));
        fs::write(rig.state_dir().join("server.pub"), text).unwrap();
    };
    pin(&identity);
    assert_eq!(outcome(), "ok");
    pin(&SigningKey::from_bytes(&[1; 32]));
    assert_eq!(outcome(), "differs", "another server than the one of before");
    assert_eq!(*came.lock().unwrap(), ["hello"; 3], "no proof, so nothing joined");
}
