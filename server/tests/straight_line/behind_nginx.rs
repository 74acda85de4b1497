//! nginx in front, with the configuration that `deploy` has for it: browsers and agents speak TLS
//! with nginx, and the server sees who they are.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::first_user::said;
use crate::process::{RunningServer, data_dir, eventually, free_port};
use crate::secure::{Running, program};

const NAME: &str = "gpus.example";
/// Where browsers of these tests come from: on loopback as well, and not the proxy's own address.
const BROWSER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

struct Rig {
    data: tempfile::TempDir,
    /// Port of nginx.
    port: u16,
    /// Port of the server, the same after a restart.
    server_port: u16,
    certificate: CertificateDer<'static>,
    _nginx: Running,
}

impl Rig {
    fn start() -> Self {
        let data = data_dir();
        let made = rcgen::generate_simple_self_signed(vec![NAME.to_owned()]).unwrap();
        let certificate_file = data.path().join("nginx.pem");
        std::fs::write(&certificate_file, made.cert.pem()).unwrap();
        std::fs::write(data.path().join("nginx.key"), made.signing_key.serialize_pem()).unwrap();
        let (port, server_port) = (free_port(), free_port());
        let nginx = start_nginx(data.path(), port, server_port);
        let certificate = made.cert.der().clone();
        Self { data, port, server_port, certificate, _nginx: nginx }
    }

    /// As the configuration file asks for it.
    fn serve(&self) -> RunningServer {
        let options = self.options();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        RunningServer::start_with(
            self.data.path(),
            &format!("127.0.0.1:{}", self.server_port),
            &[&["--trusted-proxy", "127.0.0.1"], &options[..]].concat(),
        )
    }

    /// What commands beside the server have to know too.
    fn options(&self) -> Vec<String> {
        let base = format!("https://127.0.0.1:{}", self.port);
        let certificate = self.data.path().join("nginx.pem");
        ["--page-address", &base, "--node-address", &base, "--node-certificate"]
            .map(str::to_owned)
            .into_iter()
            .chain([certificate.to_str().unwrap().to_owned()])
            .collect()
    }

    fn said(&self, arguments: &[&str]) -> String {
        let options = self.options();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        said(self.data.path(), &[arguments, &options].concat())
    }

    /// The whole answer of nginx to a browser at [`BROWSER`].
    fn ask(&self, request: &str) -> String {
        whole(self.open(request))
    }

    fn open(&self, request: &str) -> StreamOwned<ClientConnection, TcpStream> {
        self.open_as(NAME, request)
    }

    fn open_as(&self, host: &str, request: &str) -> StreamOwned<ClientConnection, TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(NAME).unwrap();
        let tls = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = StreamOwned::new(tls, from(BROWSER, self.port));
        let (line, rest) = request.split_once("\r\n").unwrap();
        let head = format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{rest}");
        stream.write_all(head.as_bytes()).unwrap();
        stream
    }

    /// Signs in as a browser does, with a link.
    fn enter(&self, more: &str) -> String {
        let link = self.said(&["users", "sign-in", "ada"]);
        assert!(link.starts_with(&format!("https://127.0.0.1:{}/link/", self.port)), "{link}");
        let path = &link[link.find("/link/").unwrap()..];
        let kind = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 0";
        let origin = format!("Origin: https://{NAME}");
        self.ask(&format!("POST {path}\r\n{kind}\r\n{origin}\r\n{more}\r\n"))
    }
}

fn whole(mut stream: StreamOwned<ClientConnection, TcpStream>) -> String {
    let mut answer = Vec::new();
    // nginx closes without TLS's own goodbye at times; what came is what counts.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// A connection from an address of this machine's own choice.
fn from(address: Ipv4Addr, port: u16) -> TcpStream {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::new(IpAddr::V4(address), 0)).unwrap();
    let nginx = SocketAddr::from(([127, 0, 0, 1], port));
    rustix::net::connect(&socket, &nginx).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// The file of `deploy`, with the places of this test.
fn site(folder: &Path, port: u16, server_port: u16) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/nginx.conf");
    let mut text = std::fs::read_to_string(path).unwrap();
    let folder = folder.display();
    for (ours, of_the_test) in [
        ("listen 443 ssl http2;", format!("listen 127.0.0.1:{port} ssl http2;")),
        (
            "ssl_certificate /etc/leasewatch/certificate.pem",
            format!("ssl_certificate {folder}/nginx.pem"),
        ),
        (
            "ssl_certificate_key /etc/leasewatch/key.pem",
            format!("ssl_certificate_key {folder}/nginx.key"),
        ),
        ("//127.0.0.1:7443;", format!("//127.0.0.1:{server_port};")),
    ] {
        assert!(text.contains(ours), "deploy/nginx.conf lacks `{ours}`");
        text = text.replace(ours, &of_the_test);
    }
    text
}

fn start_nginx(folder: &Path, port: u16, server_port: u16) -> Running {
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {}/nginx-{name};\n", folder.display()))
        .concat();
    let site = site(folder, port, server_port);
    // As root, nginx would leave its workers to an account that cannot read the test's folder.
    let user = if rustix::process::geteuid().is_root() { "user root;\n" } else { "" };
    let text = format!(
        "{user}daemon off;\npid {0}/nginx.pid;\nworker_processes 1;\nerror_log {0}/nginx.log;\n\
         events {{}}\nhttp {{\naccess_log off;\n{temporary}{site}}}\n",
        folder.display()
    );
    let path = folder.join("nginx.conf");
    std::fs::write(&path, text).unwrap();
    let nginx = ["/usr/sbin/nginx", "/usr/bin/nginx"].map(PathBuf::from);
    let nginx = nginx.into_iter().find(|path| path.exists());
    let nginx = nginx.unwrap_or_else(|| panic!("nginx is missing: apt-get install nginx-light"));
    let child = Command::new(nginx)
        .arg("-c")
        .arg(&path)
        .args(["-e", "stderr"])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let running = Running(child);
    eventually("nginx", || TcpStream::connect(("127.0.0.1", port)).ok());
    running
}

fn cookie(answer: &str) -> (&str, &str) {
    let set = answer.lines().find_map(|line| line.strip_prefix("set-cookie: "));
    let set = set.unwrap_or_else(|| panic!("no cookie in {answer}"));
    (set, set.split(';').next().unwrap())
}

#[test]
fn a_browser_behind_nginx_is_known_by_its_address_and_its_cookie_is_secure() {
    let rig = Rig::start();
    // Before there is a user, nobody else is brought in.
    let options = rig.options();
    let open = Command::new(program("leasewatch-server"))
        .args(["serve", "--listen", "127.0.0.1:0", "--trusted-proxy", "127.0.0.1", "--data-dir"])
        .arg(rig.data.path())
        .args(&options)
        .env_remove("DATABASE_URL")
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&open.stderr).into_owned();
    assert!(!open.status.success() && words.contains("a proxy brings others here"), "{words}");
    assert!(!words.contains("/link/"), "{words}");

    rig.said(&["users", "sign-in", "ada"]);
    let server = rig.serve();
    let entered = rig.enter("");
    let (set, pair) = cookie(&entered);
    assert!(set.starts_with("__Host-") && set.ends_with("; Secure"), "{set}");
    let page = rig.ask(&format!("GET /account?lang=en\r\nCookie: {pair}\r\n\r\n"));
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("127.0.0.9"), "{page}");
    // What a browser claims of itself is overwritten.
    let liar = rig.enter("X-Forwarded-For: 203.0.113.99\r\nX-Forwarded-Proto: http\r\n");
    let (set, pair) = cookie(&liar);
    assert!(set.ends_with("; Secure"), "{set}");
    let page = rig.ask(&format!("GET /account?lang=en\r\nCookie: {pair}\r\n\r\n"));
    assert!(!page.contains("203.0.113.99"), "{page}");
    // A page of another host, or of this one without TLS, changes nothing.
    for origin in ["https://evil.example", &format!("http://{NAME}")] {
        let form = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 0";
        let foreign = rig.ask(&format!(
            "POST /sign-out\r\n{form}\r\nOrigin: {origin}\r\nCookie: {pair}\r\n\r\n"
        ));
        assert!(foreign.starts_with("HTTP/1.1 403"), "{foreign}");
    }

    // Whatever a browser calls this host, no page repeats it.
    let named = rig.open_as("evil.example", &format!("GET /?lang=en\r\nCookie: {pair}\r\n\r\n"));
    let page = whole(named);
    assert!(page.starts_with("HTTP/1.1 200") && !page.contains("evil"), "{page}");

    // Live values come as they are, not when a buffer is full.
    let mut live = rig.open(&format!("GET /live.sse\r\nCookie: {pair}\r\n\r\n"));
    let mut seen = Vec::new();
    let mut chunk = [0; 4_096];
    while !String::from_utf8_lossy(&seen).contains("event:") {
        let read = live.read(&mut chunk).unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&chunk[..read]);
    }
    drop(live);

    // Of whoever reaches the server past the proxy nothing is believed.
    let link = rig.said(&["users", "sign-in", "ada"]);
    let path = &link[link.find("/link/").unwrap()..];
    let mut direct = from(Ipv4Addr::new(127, 0, 0, 7), rig.server_port);
    write!(
        direct,
        "POST {path} HTTP/1.0\r\nHost: {NAME}\r\nContent-Length: 0\r\nOrigin: https://{NAME}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nX-Forwarded-For: 203.0.113.99\r\n\
         X-Forwarded-Proto: https\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    direct.read_to_string(&mut answer).unwrap();
    let (set, _) = cookie(&answer);
    assert!(!set.starts_with("__Host-") && !set.contains("Secure"), "{set}");
    let page = rig.ask(&format!("GET /account?lang=en\r\nCookie: {pair}\r\n\r\n"));
    assert!(page.contains("127.0.0.7") && !page.contains("203.0.113.99"), "{page}");
    drop(server);
}

#[test]
fn an_agent_joins_through_nginx_and_outlives_a_restart_of_the_server() {
    let rig = Rig::start();
    rig.said(&["users", "sign-in", "ada"]);
    let server = rig.serve();
    let join = rig.said(&["join-token", "create", "--tenant", "lab"]);
    let file = rig.data.path().join("join");
    std::fs::write(&file, &join).unwrap();
    let log_path = rig.data.path().join("agent.log");
    let agent = Command::new(program("leasewatch-agent"))
        .args(["run", "--name", "behind", "--nvml-library"])
        .arg(program("libnvidia_ml_sim.so"))
        .arg("--state-dir")
        .arg(rig.data.path().join("agent"))
        .arg("--join-file")
        .arg(&file)
        .env_remove("LEASEWATCH_JOIN")
        .env_remove("LEASEWATCH_SERVER")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log_path).unwrap())
        .spawn();
    let _agent = Running(agent.unwrap());
    let entered = rig.enter("");
    let (_, pair) = cookie(&entered);
    let is_up = || {
        let overview = rig.ask(&format!("GET /overview.json\r\nCookie: {pair}\r\n\r\n"));
        (overview.contains("\"behind\"") && overview.contains("\"up\"")).then_some(())
    };
    eventually("the node that joined through nginx", is_up);
    let log = || std::fs::read_to_string(&log_path).unwrap();
    assert_eq!(log().matches("welcomed").count(), 1, "{}", log());

    server.kill();
    eventually("the loss of the stream", || {
        log().contains("no stream to the server").then_some(())
    });
    let _server = rig.serve();
    eventually("the next welcome", || (log().matches("welcomed").count() == 2).then_some(()));
    eventually("the node that came back", is_up);
    assert!(!log().contains(join.trim()));
}
