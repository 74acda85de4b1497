//! How a node comes to its server: a join string at first, what was kept of it afterwards.
//!
//! A join string is a secret; only its token is, so addresses, the server's key and how its
//! certificate is known are kept in the state directory and the string is needed once. Where none
//! was given the agent trusts the server that it meets first, on loopback. Not here: showing the
//! token (`uplink`), which happens after the server has proven itself.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use clap::Args;
use leasewatch_core::id::{Hash, NodeId};
use leasewatch_core::join::{JoinAddress, JoinString, JoinToken, TlsTrust};
use leasewatch_proto::channel::{AddressError, ServerAddress, Trust};
use serde::{Deserialize, Serialize};

use crate::identity::{
    IdentityError, KeptNotice, StateDir, forget_addresses, pin_server_key, write_atomically,
};

const KEPT: &str = "server.toml";
const VERSION: u32 = 1;
const DEFAULT_SERVER: &str = "http://127.0.0.1:7443";
/// No join string is longer.
const FILE_BYTES: u64 = 8_192;

/// Options of `run` that say how a new node joins.
#[derive(Debug, Default, Clone, Args)]
pub struct JoinArgs {
    /// A file with the join string of this node, from the server's page or `leasewatch-server
    /// join-token create`. Needed until the node has joined; then the server is known
    #[arg(long, env = "LEASEWATCH_JOIN_FILE", value_name = "FILE")]
    pub join_file: Option<PathBuf>,
    /// The join string itself. Other accounts of this machine can see the arguments of a program:
    /// prefer the variable or --join-file
    #[arg(long, env = "LEASEWATCH_JOIN", hide_env_values = true, value_name = "STRING")]
    pub join: Option<String>,
    /// With a join string: take over this node, whose key is lost or was revoked. Its record goes
    /// on under the new key
    #[arg(long, env = "LEASEWATCH_REPLACES", value_name = "NODE")]
    pub replaces: Option<NodeId>,
}

/// What a new node joins with.
#[derive(Debug, Clone)]
pub struct Joining {
    /// The string.
    pub string: JoinString,
    /// The node to take over.
    pub replaces: Option<NodeId>,
}

/// Where to deliver, and what to show there.
#[derive(Debug, Clone)]
pub struct Servers {
    /// In the order in which to try; at least one.
    pub addresses: Vec<ServerAddress>,
    /// What a node that was never welcomed shows.
    pub claim: Option<JoinClaim>,
    /// Whether the addresses are those that were kept, so that the server may say others.
    pub is_kept: bool,
}

/// What a node that was never welcomed shows to a server that has proven itself.
#[derive(Debug, Clone)]
pub struct JoinClaim {
    /// The secret.
    pub token: JoinToken,
    /// The node to take over.
    pub replaces: Option<NodeId>,
}

/// Why it is not clear where to deliver.
#[derive(Debug, thiserror::Error)]
pub enum EnrollmentError {
    /// The node belongs to another server.
    #[error(
        "this node has joined another server than the one of the join string; give it another \
         --state-dir to make it a new node there, or run it without a join string"
    )]
    AnotherServer,
    /// An address cannot be used.
    #[error("the server's address {0} {1}")]
    Address(String, AddressError),
    /// What was kept is not what this program writes.
    #[error("{} cannot be read; give a join string or --server to replace it", .0.display())]
    Kept(PathBuf),
    /// The state directory cannot be worked with.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

/// Of a join string, what is no secret.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptFile {
    version: u32,
    addresses: Vec<String>,
    /// SHA-256 of the certificate's public key; absent: a public authority vouches for its name.
    pin: Option<String>,
}

impl JoinArgs {
    /// What a new node joins with, if anything.
    ///
    /// # Errors
    /// Which option, and what is wrong with it; nothing of a join string is repeated.
    pub fn resolve(self) -> Result<Option<Joining>, (&'static str, String)> {
        let (option, text) = match (self.join, self.join_file) {
            (Some(_), Some(_)) => {
                return Err((
                    "join",
                    "a join string is given twice, here and as a file".to_owned(),
                ));
            }
            (Some(text), None) => ("join", text),
            (None, Some(path)) => {
                let read = read(&path);
                let fail = |error| ("join_file", format!("{}: {error}", path.display()));
                ("join_file", read.map_err(fail)?)
            }
            (None, None) if self.replaces.is_some() => {
                return Err(("replaces", "needs a join string of the node's tenant".to_owned()));
            }
            (None, None) => return Ok(None),
        };
        let string = JoinString::parse(&text).map_err(|error| (option, error.to_string()))?;
        Ok(Some(Joining { string, replaces: self.replaces }))
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(FILE_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

impl Servers {
    /// Decides where to deliver: to the server of the join string, else to the one that was named,
    /// else to the one that was kept, else to the usual port of this machine. What a join string
    /// says of its server is kept and pinned at once.
    ///
    /// # Errors
    /// [`EnrollmentError`].
    pub fn resolve(
        dir: &StateDir,
        named: Option<ServerAddress>,
        joining: Option<&Joining>,
        is_enrolled: bool,
    ) -> Result<Self, EnrollmentError> {
        if let Some(joining) = joining {
            let string = &joining.string;
            if !pin_server_key(dir, &string.identity_key, is_enrolled)? {
                return Err(EnrollmentError::AnotherServer);
            }
            let kept = KeptFile::of(string);
            kept.write(dir)?;
            forget_addresses(dir)?;
            let claim = JoinClaim { token: string.token.clone(), replaces: joining.replaces };
            let addresses = kept.addresses(&KeptNotice::default())?;
            return Ok(Self { addresses, claim: Some(claim), is_kept: true });
        }
        let is_named = named.is_some();
        let known = Self::known(dir.path(), named, None)?;
        let is_kept = known.is_some() && !is_named;
        let addresses = known.map_or_else(|| Ok(vec![Self::usual()?]), Ok::<_, EnrollmentError>)?;
        Ok(Self { addresses, claim: None, is_kept })
    }

    /// Where to deliver as far as anybody said: nothing is pinned or kept.
    ///
    /// # Errors
    /// [`EnrollmentError`].
    pub fn known(
        dir: &Path,
        named: Option<ServerAddress>,
        joining: Option<&Joining>,
    ) -> Result<Option<Vec<ServerAddress>>, EnrollmentError> {
        if let Some(joining) = joining {
            return KeptFile::of(&joining.string).addresses(&KeptNotice::default()).map(Some);
        }
        match named {
            Some(named) => Ok(Some(vec![named])),
            None => {
                let kept = KeptFile::read(dir)?;
                kept.map(|kept| kept.addresses(&KeptNotice::read(dir))).transpose()
            }
        }
    }

    /// Where a server of this machine is, unless somebody says otherwise.
    ///
    /// # Errors
    /// Never for the fixed address.
    pub fn usual() -> Result<ServerAddress, EnrollmentError> {
        address(DEFAULT_SERVER, None)
    }
}

impl KeptFile {
    fn of(string: &JoinString) -> Self {
        let pin = match string.trust {
            TlsTrust::Pin(pin) => Some(pin.to_string()),
            TlsTrust::Web => None,
        };
        let addresses = string.addresses().iter().map(|a| a.as_str().to_owned()).collect();
        Self { version: VERSION, addresses, pin }
    }

    fn read(dir: &Path) -> Result<Option<Self>, EnrollmentError> {
        let path = dir.join(KEPT);
        let text = match read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(_) => return Err(EnrollmentError::Kept(path)),
        };
        let file: Option<Self> = toml::from_str(&text).ok();
        let good = file.filter(|file| file.version == VERSION && !file.addresses.is_empty());
        good.map(Some).ok_or(EnrollmentError::Kept(path))
    }

    fn write(&self, dir: &StateDir) -> Result<(), EnrollmentError> {
        let path = dir.path().join(KEPT);
        let text = toml::to_string(self).map_err(|error| IdentityError::Io {
            path: path.clone(),
            source: io::Error::other(error),
        })?;
        Ok(write_atomically(&path, text.as_bytes())?)
    }

    /// Those that the server said itself first, and then those of the join string, which may lead
    /// there when the others do not. What the server said of its certificate counts instead of what
    /// the string says, unless that asks a public authority.
    fn addresses(&self, notice: &KeptNotice) -> Result<Vec<ServerAddress>, EnrollmentError> {
        let bad = |text: &str| EnrollmentError::Address(text.to_owned(), AddressError::NotAUrl);
        let trust = match &self.pin {
            Some(_) if !notice.pins.is_empty() => Trust::Pins(notice.pins.clone()),
            Some(pin) => Trust::Pins(vec![pin.parse::<Hash>().map_err(|_| bad(pin))?]),
            None => Trust::Join(TlsTrust::Web),
        };
        let mut texts: Vec<&str> = notice.addresses.iter().map(JoinAddress::as_str).collect();
        for text in &self.addresses {
            if !texts.contains(&text.as_str()) {
                texts.push(text);
            }
        }
        texts
            .into_iter()
            .map(|text| {
                let checked = JoinAddress::new(text).map_err(|_| bad(text))?;
                address(checked.as_str(), Some(trust.clone()))
            })
            .collect()
    }
}

fn address(url: &str, trust: Option<Trust>) -> Result<ServerAddress, EnrollmentError> {
    ServerAddress::trusting(url, trust)
        .map_err(|error| EnrollmentError::Address(url.to_owned(), error))
}

#[cfg(test)]
mod tests {
    use leasewatch_core::evidence::identity::ServerNotice;
    use leasewatch_core::time::Timestamp;

    use super::*;
    use crate::identity::keep_notice;

    fn joining(key: u8) -> Joining {
        let address = |text| JoinAddress::new(text).unwrap();
        let addresses = vec![address("https://203.0.113.7:7443"), address("https://b.example")];
        let pin = TlsTrust::Pin(Hash([3; 32]));
        let string = JoinString::new(addresses, [key; 32], pin, JoinToken([9; 24])).unwrap();
        Joining { string, replaces: None }
    }

    fn shown(servers: &Servers) -> Vec<String> {
        servers.addresses.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_join_string_is_needed_once_and_its_secret_is_not_kept() {
        let temp = tempfile::tempdir().unwrap();
        let dir = StateDir::open(temp.path()).unwrap();
        let alone = Servers::resolve(&dir, None, None, false).unwrap();
        assert_eq!(shown(&alone), [DEFAULT_SERVER]);
        let first = Servers::resolve(&dir, None, Some(&joining(1)), false).unwrap();
        assert_eq!(shown(&first), ["https://203.0.113.7:7443", "https://b.example"]);
        assert!(first.claim.is_some());
        let later = Servers::resolve(&dir, None, None, true).unwrap();
        assert_eq!((shown(&later), later.claim.is_none()), (shown(&first), true));
        let token = joining(1).string.to_secret_text();
        for entry in fs::read_dir(temp.path()).unwrap() {
            let text = fs::read_to_string(entry.unwrap().path()).unwrap();
            assert!(!text.contains(&token[token.len() - 30..]) && !text.contains("090909"));
        }
        let named = ServerAddress::new("http://127.0.0.1:1", None).unwrap();
        let elsewhere = Servers::resolve(&dir, Some(named), None, true).unwrap();
        assert_eq!(shown(&elsewhere), ["http://127.0.0.1:1"]);
    }

    #[test]
    fn a_node_that_has_joined_does_not_change_its_server() {
        let temp = tempfile::tempdir().unwrap();
        let dir = StateDir::open(temp.path()).unwrap();
        Servers::resolve(&dir, None, Some(&joining(1)), false).unwrap();
        // A wrong string before the first welcome can be corrected.
        Servers::resolve(&dir, None, Some(&joining(2)), false).unwrap();
        Servers::resolve(&dir, None, Some(&joining(2)), true).unwrap();
        let refused = Servers::resolve(&dir, None, Some(&joining(1)), true).unwrap_err();
        assert!(matches!(refused, EnrollmentError::AnotherServer), "{refused}");
    }

    #[test]
    fn what_the_server_says_later_counts_and_the_join_string_s_addresses_stay() {
        let temp = tempfile::tempdir().unwrap();
        let dir = StateDir::open(temp.path()).unwrap();
        let joined = Servers::resolve(&dir, None, Some(&joining(1)), false).unwrap();
        assert!(joined.is_kept);
        let notice = ServerNotice {
            at: Timestamp(1_790_000_000_000),
            recovery: None,
            pins: vec![Hash([4; 32]), Hash([5; 32])],
            addresses: vec![
                JoinAddress::new("https://new.example").unwrap(),
                JoinAddress::new("https://b.example").unwrap(),
            ],
        };
        keep_notice(&dir, notice).unwrap();
        let later = Servers::resolve(&dir, None, None, true).unwrap();
        let all = ["https://new.example", "https://b.example", "https://203.0.113.7:7443"];
        assert_eq!((shown(&later), later.is_kept), (all.map(str::to_owned).to_vec(), true));
        let named = ServerAddress::new("http://127.0.0.1:1", None).unwrap();
        assert!(!Servers::resolve(&dir, Some(named), None, true).unwrap().is_kept);
        // A join string of now says it all anew.
        let again = Servers::resolve(&dir, None, Some(&joining(1)), true).unwrap();
        assert_eq!(shown(&again), shown(&joined));
    }

    #[test]
    fn what_was_kept_and_is_damaged_is_refused_and_a_join_string_replaces_it() {
        let temp = tempfile::tempdir().unwrap();
        let dir = StateDir::open(temp.path()).unwrap();
        for text in ["", "version = 2\naddresses = [\"https://a\"]", "version = 1\naddresses = []"]
        {
            fs::write(temp.path().join(KEPT), text).unwrap();
            let refused = Servers::resolve(&dir, None, None, true).unwrap_err();
            assert!(matches!(refused, EnrollmentError::Kept(_)), "{refused}");
        }
        fs::write(temp.path().join(KEPT), "version = 1\naddresses = [\"http://10.0.0.1\"]")
            .unwrap();
        let refused = Servers::resolve(&dir, None, None, true).unwrap_err().to_string();
        assert!(refused.contains("https://"), "{refused}");
        assert!(Servers::resolve(&dir, None, Some(&joining(1)), false).is_ok());
    }

    #[test]
    fn options_that_contradict_each_other_are_named_and_secrets_not_repeated() {
        let text = joining(1).string.to_secret_text();
        let resolve = |join: Option<&str>, join_file: Option<&str>, replaces| {
            let join_file = join_file.map(PathBuf::from);
            JoinArgs { join: join.map(str::to_owned), join_file, replaces }.resolve()
        };
        assert!(resolve(None, None, None).unwrap().is_none());
        assert_eq!(resolve(Some(&text), None, None).unwrap().unwrap().string, joining(1).string);
        assert_eq!(resolve(Some(&text), Some("/x"), None).unwrap_err().0, "join");
        assert_eq!(resolve(None, Some("/nowhere"), None).unwrap_err().0, "join_file");
        assert_eq!(resolve(None, None, Some(NodeId([1; 16]))).unwrap_err().0, "replaces");
        let (option, problem) = resolve(Some(&text[..40]), None, None).unwrap_err();
        assert_eq!(option, "join");
        assert!(!problem.contains(&text[8..20]), "{problem}");
    }
}
