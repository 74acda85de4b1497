//! The first user, with the real program: until there is one the server is for this machine alone.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use crate::process::{RunningServer, data_dir};

fn server(data: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_leasewatch-server"))
        .args(arguments)
        .arg("--data-dir")
        .arg(data)
        .env_remove("DATABASE_URL")
        .env_remove("DATABASE_ADMIN_URL")
        .output()
        .unwrap()
}

/// What a command printed; it has to work.
pub(crate) fn said(data: &Path, arguments: &[&str]) -> String {
    let output = server(data, arguments);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// Head and body of an answer.
fn ask(server: &RunningServer, request: &str) -> String {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let (line, rest) = request.split_once("\r\n").unwrap();
    write!(stream, "{line} HTTP/1.0\r\nHost: {}\r\n{rest}", server.address).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn path(link: &str) -> &str {
    let at = link.find("/link/").unwrap();
    &link[at..]
}

/// Beside the running server.
fn a_tenant_comes_and_goes(data: &Path) {
    said(data, &["tenant", "create", "team-a", "--name", "Team A"]);
    assert!(!server(data, &["tenant", "create", "team-a"]).status.success());
    assert!(said(data, &["tenant", "list"]).contains("team-a\t0 nodes\tTeam A"));
    let archive = data.join("team-a.zip");
    let export = ["tenant", "export", "team-a", archive.to_str().unwrap()];
    assert!(said(data, &export).starts_with("wrote 3 rows of tenant team-a"));
    assert!(std::fs::read(&archive).unwrap().starts_with(b"PK"));
    let again = server(data, &export);
    assert_eq!(again.status.code(), Some(2), "nothing is overwritten");
    let wrong = server(data, &["tenant", "remove", "team-a", "--confirm", "default"]);
    assert_eq!(wrong.status.code(), Some(2));
    let removed = said(data, &["tenant", "remove", "team-a", "--confirm", "team-a"]);
    assert!(removed.ends_with("removed tenant team-a with 3 rows"), "{removed}");
    assert!(!said(data, &["tenant", "list"]).contains("team-a"));
}

#[test]
fn an_address_that_others_reach_needs_a_user_first() {
    let data = data_dir();
    let everywhere = ["serve", "--listen", "0.0.0.0:0"];
    let refused = server(data.path(), &everywhere);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{words}");
    assert!(words.contains("no users yet") && words.contains("users sign-in NAME"), "{words}");
    // A link that leads nowhere is not printed.
    assert!(!words.contains("/link/"), "{words}");
    let open = [&everywhere[..], &["--open-enrollment"]].concat();
    let refused = server(data.path(), &open);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("join-token create"));

    // On loopback everybody is let in, and the log has the link, here alone.
    let running = RunningServer::start(data.path());
    assert!(ask(&running, "GET /\r\n\r\n").starts_with("HTTP/1.0 200"));
    let old = said(data.path(), &["users", "setup-link"]);
    let link = said(data.path(), &["users", "setup-link"]);
    assert!(link.starts_with("http://127.0.0.1:7443/link/"), "{link}");
    assert!(ask(&running, &format!("GET {}\r\n\r\n", path(&old))).starts_with("HTTP/1.0 404"));
    let form = "name=ada&password=correct+horse+battery&again=correct+horse+battery";
    let kind = "Content-Type: application/x-www-form-urlencoded";
    let length = form.len();
    let request =
        format!("POST {}\r\n{kind}\r\nContent-Length: {length}\r\n\r\n{form}", path(&link));
    let made = ask(&running, &request);
    assert!(made.starts_with("HTTP/1.0 303"), "{made}");
    let cookie = made.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    let cookie = cookie.split(';').next().unwrap();

    // From then on nobody else is, and commands beside the running server say who there is.
    assert!(ask(&running, "GET /\r\n\r\n").contains("location: /sign-in?next=%2F"));
    let request = format!("GET /settings/users?lang=en\r\nCookie: {cookie}\r\n\r\n");
    assert!(ask(&running, &request).contains("Invite somebody"));
    assert_eq!(said(data.path(), &["users", "list"]), "ada\toperator");
    assert!(!server(data.path(), &["users", "setup-link"]).status.success());
    assert!(!server(data.path(), &["users", "sign-in", "eve"]).status.success());
    let token = said(
        data.path(),
        &["tokens", "create", "--user", "ada", "--for", "a test", "--tenant", "default"],
    );
    let bearer = format!("GET /overview.json\r\nAuthorization: Bearer {token}\r\n\r\n");
    assert!(ask(&running, &bearer).starts_with("HTTP/1.0 200"));
    assert!(said(data.path(), &["tokens", "list"]).starts_with("1\tada\tdefault:viewer\t"));
    said(data.path(), &["tokens", "revoke", "1"]);
    assert!(ask(&running, &bearer).starts_with("HTTP/1.0 401"));
    assert!(said(data.path(), &["users", "disable", "ada"]).contains("disabled"));
    let request = format!("GET /\r\nCookie: {cookie}\r\n\r\n");
    assert!(ask(&running, &request).starts_with("HTTP/1.0 303"));
    said(data.path(), &["users", "enable", "ada"]);
    a_tenant_comes_and_goes(data.path());
    running.kill();

    // Now the server may be reached by others.
    let running = RunningServer::start_on(data.path(), "0.0.0.0:0");
    assert!(running.address.starts_with("0.0.0.0:"));
    assert!(ask(&running, "GET /\r\n\r\n").contains("location: /sign-in?next=%2F"));
    let link = said(data.path(), &["users", "sign-in", "Ada"]);
    assert!(ask(&running, &format!("GET {}\r\n\r\n", path(&link))).starts_with("HTTP/1.0 200"));
}
