//! What an operator can set: flags, environment variables and one TOML file.
//!
//! A flag wins over its variable, a variable over the file, the file over the default. A key that
//! does not exist is an error, in the file as on the command line. Not here: reading any of it
//! again later; a change needs a restart.

use std::fmt;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use leasewatch_core::join::{JoinAddress, JoinError};
use serde::Deserialize;

use crate::embedded_postgres::default_base_dir;

/// Uploads are read into memory, several times their size.
const UPLOAD_MIB_MAX: u32 = 256;

/// Flags of `serve`.
#[derive(Debug, Default, Clone, clap::Args)]
pub struct ServeFlags {
    /// TOML file with the settings below, by their long names with `_` for `-`.
    #[arg(long, env = "LEASEWATCH_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address of pages and agents. Others than this machine reach it when there is a user, and then
    /// over TLS alone [default: 127.0.0.1:7443].
    #[arg(long, env = "LEASEWATCH_LISTEN", value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// PostgreSQL to use instead of an own one: a login that is a member of the leasewatch roles.
    /// It may hold a password, so prefer the variable or the file.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_name = "URL")]
    pub database_url: Option<DatabaseUrl>,
    /// With --database-url: the role that may create roles and run migrations [default: none, the
    /// schema has to be there].
    #[arg(long, env = "DATABASE_ADMIN_URL", hide_env_values = true, value_name = "URL")]
    pub database_admin_url: Option<DatabaseUrl>,
    /// Where the own PostgreSQL and the server's keys live [default: /var/lib/leasewatch as root,
    /// else the XDG data directory].
    #[arg(long, env = "LEASEWATCH_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Directory with `postgres` and `initdb` [default: the newest one found].
    #[arg(long, env = "LEASEWATCH_PG_BIN", value_name = "DIR")]
    pub pg_bin: Option<PathBuf>,
    /// Where nodes reach this server, for join strings, such as https://203.0.113.7:7443; several
    /// are tried in turn [default: https:// and --listen, or this machine's name].
    #[arg(long, env = "LEASEWATCH_NODE_ADDRESS", value_name = "URL", value_delimiter = ',', value_parser = node_address)]
    pub node_address: Vec<JoinAddress>,
    /// The certificate that nodes see at --node-address where a proxy in front ends TLS: its file, or
    /// `web` for one of a public authority [default: the server's own].
    #[arg(long, env = "LEASEWATCH_NODE_CERTIFICATE", value_name = "FILE")]
    pub node_certificate: Option<PathBuf>,
    /// Where browsers reach this server, for links, such as https://gpus.example [default: --listen].
    #[arg(long, env = "LEASEWATCH_PAGE_ADDRESS", value_name = "URL", value_parser = node_address)]
    pub page_address: Option<JoinAddress>,
    /// Proxies in front, such as 127.0.0.1 or 10.1.0.0/16: what they say in X-Forwarded-For and
    /// X-Forwarded-Proto is believed, and of nobody else [default: none].
    #[arg(long, env = "LEASEWATCH_TRUSTED_PROXY", value_name = "ADDRESS", value_delimiter = ',', value_parser = network)]
    pub trusted_proxy: Vec<IpNet>,
    /// Let nodes join without a token, of the tenants `default` and `demo`. For demos on one
    /// machine: with a loopback address only.
    #[arg(long, env = "LEASEWATCH_OPEN_ENROLLMENT")]
    pub open_enrollment: bool,
    /// Agents for nodes to install, with their SHA256SUMS: see `scripts/agent-dir` [default: agents
    /// in --data-dir].
    #[arg(long, env = "LEASEWATCH_AGENT_DIR", value_name = "DIR")]
    pub agent_dir: Option<PathBuf>,
    /// Certificate to show over TLS, in PEM form, with those that vouch for it behind it, in place of
    /// the server's own. Read anew when the file changes.
    #[arg(long, env = "LEASEWATCH_TLS_CERTIFICATE", value_name = "FILE")]
    pub tls_certificate: Option<PathBuf>,
    /// The key of that certificate.
    #[arg(long, env = "LEASEWATCH_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// The largest log that can be uploaded to be imported, in MiB [default: 256].
    #[arg(long, env = "LEASEWATCH_UPLOAD_MIB_MAX", value_name = "MIB")]
    pub upload_mib_max: Option<u32>,
}

/// The same settings in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServeFile {
    listen: Option<SocketAddr>,
    database_url: Option<DatabaseUrl>,
    database_admin_url: Option<DatabaseUrl>,
    data_dir: Option<PathBuf>,
    pg_bin: Option<PathBuf>,
    #[serde(default)]
    node_address: Vec<String>,
    node_certificate: Option<PathBuf>,
    page_address: Option<String>,
    #[serde(default)]
    trusted_proxy: Vec<String>,
    #[serde(default)]
    open_enrollment: bool,
    agent_dir: Option<PathBuf>,
    tls_certificate: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    upload_mib_max: Option<u32>,
}

/// What `serve` works with.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Address of pages and agents; `serve` refuses one that others reach while there are no users.
    pub listen: SocketAddr,
    /// Which PostgreSQL.
    pub database: Database,
    /// Keys of the server, and the own PostgreSQL.
    pub data_dir: PathBuf,
    /// Where nodes reach the server; empty: where it listens.
    pub node_addresses: Vec<JoinAddress>,
    /// What nodes see there; `None`: the server's own certificate.
    pub node_certificate: Option<NodeCertificate>,
    /// Where browsers reach the server; `None`: where it listens.
    pub page_address: Option<JoinAddress>,
    /// Proxies that are believed about whom they ask for.
    pub trusted_proxies: Vec<IpNet>,
    /// Whether nodes join without a token; never with an address that others reach.
    pub open_enrollment: bool,
    /// Agents for nodes to install.
    pub agent_dir: PathBuf,
    /// A certificate of somebody else; `None`: the server's own.
    pub tls: Option<GivenCertificate>,
    /// The largest log that can be uploaded, in MiB.
    pub upload_mib_max: u32,
}

/// The certificate of a proxy in front.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeCertificate {
    /// One that a public authority vouches for.
    Web,
    /// The one in this file.
    File(PathBuf),
}

impl From<PathBuf> for NodeCertificate {
    fn from(path: PathBuf) -> Self {
        if path.as_os_str() == "web" { Self::Web } else { Self::File(path) }
    }
}

/// The files of a certificate that somebody else made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenCertificate {
    /// The certificate, in PEM form.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// Which PostgreSQL.
#[derive(Debug, Clone)]
pub enum Database {
    /// One that the server starts itself.
    Own {
        /// Directory with its programs; `None` searches.
        pg_bin: Option<PathBuf>,
    },
    /// One that somebody else runs.
    External {
        /// For everything at run time.
        url: DatabaseUrl,
        /// For migrations; `None` expects that they were run.
        admin_url: Option<DatabaseUrl>,
    },
}

/// A connection string; it may hold a password and therefore never prints itself.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct DatabaseUrl(String);

impl DatabaseUrl {
    /// The string, for the driver only.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DatabaseUrl(..)")
    }
}

impl From<&str> for DatabaseUrl {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file is not TOML, has an unknown key, or a value of the wrong type.
    #[error("{path}: {message}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Line, key and reason; values are not repeated, one of them may be a password.
        message: String,
    },
    /// Nodes would join without a token from elsewhere.
    #[error(
        "open_enrollment lets every node join that reaches the port, and {0} is not a loopback address: leave it out, \
         and give nodes a token with `leasewatch-server join-token create`"
    )]
    OpenEnrollment(SocketAddr),
    /// The same, by way of a proxy.
    #[error(
        "open_enrollment lets every node join that reaches the port, and a trusted proxy brings nodes from elsewhere: \
         leave it out, and give nodes a token with `leasewatch-server join-token create`"
    )]
    OpenBehindProxy,
    /// Join strings or links cannot name it.
    #[error("{0}: {1}")]
    Address(&'static str, JoinError),
    /// Neither an address nor a network.
    #[error("trusted_proxy: {0}")]
    TrustedProxy(String),
    /// An option that has no effect with another one.
    #[error("{0} has no effect {1}")]
    NoEffect(&'static str, &'static str),
    /// What is wrong stands in the file.
    #[error("{path}: line {line}: {source}")]
    InFile {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What it is.
        source: Box<ConfigError>,
    },
}

impl ConfigError {
    /// The setting that is wrong, as it is named in the file.
    fn setting(&self) -> Option<&'static str> {
        match self {
            Self::OpenEnrollment(_) | Self::OpenBehindProxy => Some("open_enrollment"),
            Self::Address(setting, _) | Self::NoEffect(setting, _) => Some(setting),
            Self::TrustedProxy(_) => Some("trusted_proxy"),
            Self::InFile { source, .. } => source.setting(),
            Self::Unreadable { .. } | Self::Invalid { .. } => None,
        }
    }
}

impl ServeOptions {
    /// Reads the file, if one is named, and puts flags over it.
    ///
    /// # Errors
    /// [`ConfigError`] in words for the operator.
    pub fn resolve(flags: ServeFlags) -> Result<Self, ConfigError> {
        let Some(path) = flags.config.clone() else {
            return Self::put_together(flags, ServeFile::default());
        };
        let (text, file) = read_file(&path)?;
        let flags_alone = flags.clone();
        Self::put_together(flags, file).map_err(|error| {
            let alone = Self::put_together(flags_alone, ServeFile::default()).err();
            // What is wrong without the file as well was not said there.
            let is_elsewhere = alone.is_some_and(|alone| alone.setting() == error.setting());
            let line = error.setting().and_then(|setting| line_of(&text, setting));
            match line.filter(|_| !is_elsewhere) {
                Some(line) => ConfigError::InFile { path, line, source: Box::new(error) },
                None => error,
            }
        })
    }

    fn put_together(flags: ServeFlags, file: ServeFile) -> Result<Self, ConfigError> {
        let listen = flags.listen.or(file.listen).unwrap_or_else(default_listen);
        let open_enrollment = flags.open_enrollment || file.open_enrollment;
        if open_enrollment && !listen.ip().is_loopback() {
            return Err(ConfigError::OpenEnrollment(listen));
        }
        let trusted_proxies = trusted_proxies(flags.trusted_proxy, &file.trusted_proxy)?;
        if open_enrollment && !trusted_proxies.is_empty() {
            return Err(ConfigError::OpenBehindProxy);
        }
        let pg_bin = flags.pg_bin.or(file.pg_bin);
        let admin_url = flags.database_admin_url.or(file.database_admin_url);
        let database = match flags.database_url.or(file.database_url) {
            Some(_) if pg_bin.is_some() => {
                return Err(ConfigError::NoEffect("pg_bin", "with database_url"));
            }
            Some(url) => Database::External { url, admin_url },
            None if admin_url.is_some() => {
                return Err(ConfigError::NoEffect("database_admin_url", "without database_url"));
            }
            None => Database::Own { pg_bin },
        };
        let data_dir = flags.data_dir.or(file.data_dir).unwrap_or_else(default_base_dir);
        let agent_dir = flags.agent_dir.or(file.agent_dir);
        let agent_dir = agent_dir.unwrap_or_else(|| data_dir.join("agents"));
        let upload_mib_max = flags.upload_mib_max.or(file.upload_mib_max).unwrap_or(UPLOAD_MIB_MAX);
        let mut node_addresses = flags.node_address;
        if node_addresses.is_empty() {
            let from_file = file.node_address.iter().map(|text| address("node_address", text));
            node_addresses = from_file.collect::<Result<_, _>>()?;
        }
        let page_address = file.page_address.map(|text| address("page_address", &text));
        let page_address = flags.page_address.map(Ok).or(page_address).transpose()?;
        let node_certificate = flags.node_certificate.or(file.node_certificate);
        let certificate = flags.tls_certificate.or(file.tls_certificate);
        let tls = match (certificate, flags.tls_key.or(file.tls_key)) {
            (Some(certificate), Some(key)) => Some(GivenCertificate { certificate, key }),
            (None, None) => None,
            (Some(_), None) => {
                return Err(ConfigError::NoEffect("tls_certificate", "without tls_key"));
            }
            (None, Some(_)) => {
                return Err(ConfigError::NoEffect("tls_key", "without tls_certificate"));
            }
        };
        Ok(Self {
            listen,
            database,
            // PostgreSQL takes a folder that does not begin with / for the name of a host.
            data_dir: std::path::absolute(&data_dir).unwrap_or(data_dir),
            node_addresses,
            node_certificate: node_certificate.map(NodeCertificate::from),
            page_address,
            trusted_proxies,
            open_enrollment,
            agent_dir,
            tls,
            upload_mib_max,
        })
    }
}

fn address(key: &'static str, text: &str) -> Result<JoinAddress, ConfigError> {
    JoinAddress::new(text).map_err(|error| ConfigError::Address(key, error))
}

fn trusted_proxies(flags: Vec<IpNet>, file: &[String]) -> Result<Vec<IpNet>, ConfigError> {
    if !flags.is_empty() {
        return Ok(flags);
    }
    let networks = file.iter().map(|text| network(text).map_err(ConfigError::TrustedProxy));
    networks.collect()
}

/// `127.0.0.1`, `10.1.0.0/16`.
fn network(text: &str) -> Result<IpNet, String> {
    let address = || text.parse().map(|address: IpAddr| IpNet::from(address));
    let parsed = text.parse().or_else(|_| address());
    parsed
        .map_err(|_| "must be an address or a network, such as 127.0.0.1 or 10.1.0.0/16".to_owned())
}

fn node_address(text: &str) -> Result<JoinAddress, JoinError> {
    JoinAddress::new(text)
}

fn default_listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 7443))
}

/// The line in which a setting of the file stands, counted from 1.
fn line_of(text: &str, setting: &str) -> Option<usize> {
    let names = |line: &str| {
        let name = line.split_once('=').map(|(name, _)| name.trim().trim_matches(['"', '\'']));
        name == Some(setting)
    };
    text.lines().position(names).map(|line| line + 1)
}

/// The file's text and what it says.
fn read_file(path: &Path) -> Result<(String, ServeFile), ConfigError> {
    let text = fs::read_to_string(path)
        .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    let file = toml::from_str(&text).map_err(|error| {
        // The error's Display quotes the line, which may hold a password.
        let line =
            error.span().map_or(0, |span| text[..span.start.min(text.len())].matches('\n').count());
        let message = format!("line {}: {}", line + 1, error.message());
        ConfigError::Invalid { path: path.to_owned(), message }
    })?;
    Ok((text, file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        serve: ServeFlags,
    }

    fn with_file(
        text: &str,
        change: impl FnOnce(&mut ServeFlags),
    ) -> Result<ServeOptions, ConfigError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("leasewatch.toml");
        fs::write(&path, text).unwrap();
        let mut flags = ServeFlags { config: Some(path), ..ServeFlags::default() };
        change(&mut flags);
        ServeOptions::resolve(flags)
    }

    #[test]
    fn defaults_are_an_own_database_on_loopback() {
        let options = ServeOptions::resolve(ServeFlags::default()).unwrap();
        assert_eq!(options.listen.to_string(), "127.0.0.1:7443");
        assert!(matches!(options.database, Database::Own { pg_bin: None }));
        assert_eq!(options.agent_dir, options.data_dir.join("agents"));
    }

    #[test]
    fn a_data_directory_is_named_in_full() {
        let options = with_file("data_dir = 'data'", |_| ()).unwrap();
        assert_eq!(options.data_dir, std::env::current_dir().unwrap().join("data"));
    }

    #[test]
    fn a_flag_wins_over_the_file_and_the_file_over_the_default() {
        let text = "listen = '127.0.0.1:1'\ndata_dir = '/tmp/x'\n";
        let from_file = with_file(text, |_| ()).unwrap();
        assert_eq!(from_file.listen.port(), 1);
        let from_flag = with_file(text, |flags| flags.listen = "[::1]:2".parse().ok()).unwrap();
        assert_eq!((from_flag.listen.port(), from_flag.data_dir), (2, PathBuf::from("/tmp/x")));
    }

    #[test]
    fn an_unknown_key_and_a_secret_value_are_handled_without_repeating_the_value() {
        let error = with_file("\ndatabse_url = 'postgres://u:hunter2@h/d'\n", |_| ())
            .unwrap_err()
            .to_string();
        assert!(error.contains("line 2") && error.contains("databse_url"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
        let options = with_file("database_url = 'postgres://u:hunter2@h/d'\n", |_| ()).unwrap();
        assert!(!format!("{options:?}").contains("hunter2"));
    }

    #[test]
    fn open_enrollment_is_for_loopback_only() {
        let resolve = |address: &str| {
            let listen = address.parse().ok();
            let open_enrollment = true;
            ServeOptions::resolve(ServeFlags { listen, open_enrollment, ..ServeFlags::default() })
        };
        for address in ["0.0.0.0:7443", "192.168.1.2:7443", "[::]:7443"] {
            assert!(matches!(resolve(address), Err(ConfigError::OpenEnrollment(_))), "{address}");
        }
        assert!(resolve("127.0.0.2:7443").is_ok_and(|options| options.open_enrollment));
    }

    #[test]
    fn node_addresses_come_from_the_flag_or_the_file() {
        let shown = |options: &ServeOptions| {
            let texts = options.node_addresses.iter().map(|address| address.as_str().to_owned());
            texts.collect::<Vec<_>>()
        };
        let text = "node_address = ['https://a.example', 'https://203.0.113.7:7443']";
        let from_file = with_file(text, |_| ()).unwrap();
        assert_eq!(shown(&from_file), ["https://a.example", "https://203.0.113.7:7443"]);
        let program = Program::try_parse_from(["x", "--node-address", "https://b,https://c"]);
        let flags = program.unwrap().serve;
        assert_eq!(shown(&ServeOptions::resolve(flags).unwrap()), ["https://b", "https://c"]);
        assert!(with_file("node_address = ['a.example']", |_| ()).is_err());
        assert!(Program::try_parse_from(["x", "--node-address", "https://a/b"]).is_err());
    }

    #[test]
    fn a_trusted_proxy_is_an_address_or_a_network_and_never_with_open_enrollment() {
        let shown = |options: ServeOptions| {
            options.trusted_proxies.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let program = Program::try_parse_from(["x", "--trusted-proxy", "127.0.0.1,10.1.0.0/16"]);
        let flags = program.unwrap().serve;
        assert_eq!(
            shown(ServeOptions::resolve(flags.clone()).unwrap()),
            ["127.0.0.1/32", "10.1.0.0/16"]
        );
        let from_file = with_file("trusted_proxy = ['::1', '2001:db8::/32']", |_| ()).unwrap();
        assert_eq!(shown(from_file), ["::1/128", "2001:db8::/32"]);
        for wrong in ["proxy.example", "10.1.0.0/33", "127.0.0.1:80", ""] {
            assert!(Program::try_parse_from(["x", "--trusted-proxy", wrong]).is_err(), "{wrong}");
            let text = format!("trusted_proxy = ['{wrong}']");
            let error = with_file(&text, |_| ()).unwrap_err().to_string();
            assert!(error.contains(".toml: line 1: trusted_proxy: must be an address"), "{error}");
        }
        let open = ServeFlags { open_enrollment: true, ..flags };
        assert!(matches!(ServeOptions::resolve(open), Err(ConfigError::OpenBehindProxy)));
    }

    #[test]
    fn what_browsers_and_nodes_see_of_a_proxy_can_be_said() {
        let text = "page_address = 'https://gpus.example/'\nnode_certificate = 'web'";
        let options = with_file(text, |_| ()).unwrap();
        assert_eq!(options.page_address.unwrap().as_str(), "https://gpus.example");
        assert_eq!(options.node_certificate, Some(NodeCertificate::Web));
        let flags =
            ServeFlags { node_certificate: Some("/etc/a.pem".into()), ..ServeFlags::default() };
        let file = Some(NodeCertificate::File("/etc/a.pem".into()));
        assert_eq!(ServeOptions::resolve(flags).unwrap().node_certificate, file);
        let wrong = with_file("page_address = 'gpus.example'", |_| ()).unwrap_err().to_string();
        assert!(wrong.contains(".toml: line 1: page_address: "), "{wrong}");
    }

    #[test]
    fn a_mistake_is_named_with_its_line_where_it_stands_in_the_file() {
        let error = |text: &str, change: fn(&mut ServeFlags)| {
            let error = with_file(text, change).unwrap_err().to_string();
            error.split_once(".toml: ").map_or(error.clone(), |(_, rest)| rest.to_owned())
        };
        for (text, expected) in [
            ("\nlisten = 7443", "line 2: invalid type"),
            ("listen = 'here'", "line 1: invalid socket address"),
            ("upload_mib_max = -1", "line 1: invalid value"),
            ("data_dir = '/x'\n\nnode_address = ['gpus']", "line 3: node_address: "),
            ("listen = '0.0.0.0:1'\nopen_enrollment = true", "line 2: open_enrollment lets"),
            ("\ntls_key = '/x'", "line 2: tls_key has no effect without tls_certificate"),
        ] {
            let error = error(text, |_| ());
            assert!(error.starts_with(expected), "{text}: {error}");
        }
        let wrong_flag = error("listen = '0.0.0.0:1'", |flags| flags.open_enrollment = true);
        assert!(wrong_flag.starts_with("open_enrollment lets"), "{wrong_flag}");
    }

    #[test]
    fn settings_that_would_be_ignored_are_refused() {
        assert!(with_file("database_admin_url = 'postgres://h/d'", |_| ()).is_err());
        assert!(with_file("database_url = 'postgres://h/d'\npg_bin = '/x'", |_| ()).is_err());
    }

    #[test]
    fn flags_parse_and_a_mistyped_one_does_not() {
        let program = Program::try_parse_from([
            "x",
            "--listen",
            "127.0.0.1:9",
            "--database-url",
            "postgres://a/b",
        ]);
        assert_eq!(program.ok().and_then(|p| p.serve.listen).map(|l| l.port()), Some(9));
        assert!(Program::try_parse_from(["x", "--lisen", "127.0.0.1:9"]).is_err());
    }
}
