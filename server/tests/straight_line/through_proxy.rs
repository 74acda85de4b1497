//! From behind a proxy that has to be asked for every connection, with the real programs.
//!
//! The server's name is one that only the proxy knows, so whatever arrives went through it.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::process::{RunningServer, data_dir, eventually};
use crate::secure::{Running, nodes, program};

const SERVER: &str = "https://watch.example:7443";
/// `ada:hunter2`
const CREDENTIALS: &str = "\r\nProxy-Authorization: Basic YWRhOmh1bnRlcjI=\r\n";

/// What a proxy does with a connection that it was asked for.
#[derive(Clone)]
enum Way {
    /// Bytes go to this address, for whoever shows the credentials.
    On(String),
    /// The proxy speaks TLS itself, as one that looks into what passes does.
    Opened(Arc<ServerConfig>),
}

/// A proxy that runs until the test binary ends.
struct Proxy {
    port: u16,
    /// Connections that were asked for.
    asked: Arc<AtomicUsize>,
}

impl Proxy {
    fn start(way: Way) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::Relaxed);
                let way = way.clone();
                // Whoever hangs up ends one connection.
                thread::spawn(move || drop(serve(client, &way)));
            }
        });
        Self { port, asked }
    }

    fn url(&self, user: &str) -> String {
        format!("http://{user}127.0.0.1:{}", self.port)
    }
}

fn serve(mut client: TcpStream, way: &Way) -> io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let is_wanted = head.starts_with("CONNECT watch.example:7443 HTTP/1.1\r\n");
    match way {
        _ if !is_wanted => client.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n"),
        Way::On(_) if !head.contains(CREDENTIALS) => {
            client.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
        }
        Way::On(server) => {
            let mut server = TcpStream::connect(server)?;
            client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
            let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
            let upwards = thread::spawn(move || {
                let _ = io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Write);
            });
            let _ = io::copy(&mut server, &mut client);
            let _ = client.shutdown(Shutdown::Both);
            let _ = upwards.join();
            Ok(())
        }
        Way::Opened(config) => {
            client.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
            let tls = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
            let mut stream = StreamOwned::new(tls, client);
            stream.read_to_end(&mut Vec::new()).map(drop)
        }
    }
}

/// Arguments and environment of a client that knows the server by its name.
fn client(name: &str, arguments: &[&str], proxy: &str, certificate: &Path) -> Command {
    let mut command = Command::new(program(name));
    command
        .args(arguments)
        .args(["--server", SERVER, "--server-certificate"])
        .arg(certificate)
        .env("HTTPS_PROXY", proxy)
        .env_remove("https_proxy")
        .env_remove("NO_PROXY")
        .env_remove("no_proxy")
        .stdin(Stdio::null());
    command
}

fn both(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

#[test]
fn an_agent_an_import_and_doctor_go_through_the_proxy_of_the_environment() {
    let data = data_dir();
    let server = RunningServer::start(data.path());
    let certificate = data.path().join("tls/certificate.pem");
    let proxy = Proxy::start(Way::On(server.address.clone()));
    let url = proxy.url("ada:hunter2@");
    let log_path = data.path().join("agent.log");
    let library = program("libnvidia_ml_sim.so");
    let state = data.path().join("agent");
    let run = ["run", "--name", "inside", "--nvml-library", library.to_str().unwrap()];
    let run = [&run[..], &["--state-dir", state.to_str().unwrap()]].concat();
    let agent = client("leasewatch-agent", &run, &url, &certificate)
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log_path).unwrap())
        .spawn();
    let _agent = Running(agent.unwrap());
    eventually("the node behind the proxy", || {
        nodes(&server).into_iter().find(|node| node["name"] == "inside" && node["state"] == "up")
    });

    let log = data.path().join("log.csv");
    std::fs::write(
        &log,
        "timestamp, index, utilization.gpu\n2026/04/20 10:00:00.000, 0, 50\n\
         2026/04/20 10:00:01.000, 0, 50\n",
    )
    .unwrap();
    let keys = data.path().join("imports");
    let import = ["import", "nvidia-smi", "--node", "archive", "--key-dir"];
    let import = [&import[..], &[keys.to_str().unwrap(), log.to_str().unwrap()]].concat();
    let imported = client("leasewatch-server", &import, &url, &certificate).output().unwrap();
    assert!(imported.status.success(), "{}", both(&imported));

    // Each client says which proxy it was, and none repeats a password.
    let empty = data.path().join("empty");
    let doctor = ["doctor", "--nvml-library", library.to_str().unwrap(), "--state-dir"];
    let doctor = [&doctor[..], &[empty.to_str().unwrap()]].concat();
    let examined = client("leasewatch-agent", &doctor, &url, &certificate).output().unwrap();
    let without_secret = proxy.url("");
    let reached = format!("{SERVER} answers, over TLS through the proxy {without_secret}");
    assert!(both(&examined).contains(&reached), "{}", both(&examined));
    let wrong = proxy.url("ada:hunter3@");
    let refused = client("leasewatch-agent", &doctor, &wrong, &certificate).output().unwrap();
    let why = format!("the proxy {without_secret} wants a user and a password");
    assert!(both(&refused).contains(&why), "{}", both(&refused));
    let not_imported = client("leasewatch-server", &import, &wrong, &certificate).output().unwrap();
    assert!(!not_imported.status.success() && both(&not_imported).contains(&why));
    let told = std::fs::read_to_string(&log_path).unwrap();
    for text in [&both(&imported), &both(&examined), &both(&refused), &both(&not_imported), &told] {
        assert!(!text.contains("hunter") && !text.contains("YWRhOmh1"), "{text}");
    }

    // Nobody is asked for what is excepted, nor for this machine.
    let asked = proxy.asked.load(Ordering::Relaxed);
    let direct = client("leasewatch-agent", &doctor, &url, &certificate)
        .env("NO_PROXY", "watch.example")
        .output()
        .unwrap();
    assert!(!both(&direct).contains("proxy http"), "{}", both(&direct));
    let here = Command::new(program("leasewatch-agent"))
        .args(&doctor)
        .args(["--server", &format!("https://{}", server.address), "--server-certificate"])
        .arg(&certificate)
        .env("HTTPS_PROXY", &url)
        .output()
        .unwrap();
    assert!(both(&here).contains("answers, over TLS"), "{}", both(&here));
    assert_eq!(proxy.asked.load(Ordering::Relaxed), asked);
    // What is no proxy is never gone around.
    let socks = client("leasewatch-agent", &doctor, "socks5://x:hunter2@127.0.0.1:1", &certificate)
        .output()
        .unwrap();
    assert!(both(&socks).contains("HTTPS_PROXY must be http://HOST:PORT"), "{}", both(&socks));
    assert!(!socks.status.success() && !both(&socks).contains("hunter2"));
}

#[test]
fn a_proxy_that_opens_the_connection_is_refused_and_told_nothing() {
    let data = data_dir();
    let made = rcgen::generate_simple_self_signed(vec!["watch.example".to_owned()]).unwrap();
    let certificate = data.path().join("certificate.pem");
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    // The same name, vouched for by nobody that the agent was told of.
    let own = rcgen::generate_simple_self_signed(vec!["watch.example".to_owned()]).unwrap();
    let chain: Vec<CertificateDer<'static>> = vec![own.cert.der().clone()];
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let proxy = Proxy::start(Way::Opened(Arc::new(config)));
    let state = data.path().join("agent");
    let doctor = ["doctor", "--state-dir", state.to_str().unwrap()];
    let url = proxy.url("");
    let examined = client("leasewatch-agent", &doctor, &url, &certificate).output().unwrap();
    let text = both(&examined);
    assert!(text.contains("another certificate than the one given"), "{text}");
    assert!(text.contains(&format!("through the proxy {url}")), "{text}");
    assert_eq!(examined.status.code(), Some(1), "{text}");
    assert_eq!(proxy.asked.load(Ordering::Relaxed), 1);
}
