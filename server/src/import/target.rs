//! Where an import goes, as the command line says it.

use std::path::PathBuf;

use clap::Args;
use leasewatch_core::id::Slug;
use leasewatch_core::join::{JoinString, JoinToken};
use leasewatch_proto::channel::{ServerAddress, ServerCertificate, Trust};

use super::ImportError;

const DEFAULT_SERVER: &str = "http://127.0.0.1:7443";

/// Options of each import of a log.
#[derive(Debug, Args)]
pub struct Target {
    /// The tenant that the node belongs to; a join string decides it for a new node.
    #[arg(long, value_name = "SLUG", default_value = "default")]
    pub tenant: Slug,
    #[command(flatten)]
    destination: Destination,
}

/// Options of each import.
#[derive(Debug, Args)]
pub struct Destination {
    /// The provider that the node is rented from; a join string decides it for a new node.
    #[arg(long, value_name = "SLUG", default_value = "default")]
    pub provider: Slug,
    /// The running server [default: the join string's, else http://127.0.0.1:7443].
    #[arg(long, env = "LEASEWATCH_SERVER", value_name = "URL")]
    server: Option<String>,
    /// The server's certificate, for https: `tls/certificate.pem` in its data directory.
    #[arg(long, env = "LEASEWATCH_SERVER_CERTIFICATE", value_name = "FILE")]
    server_certificate: Option<PathBuf>,
    /// File with a join string, for a node that the server does not know yet. Not needed where
    /// enrolment is open. A string in `LEASEWATCH_JOIN` is taken as well.
    #[arg(long, env = "LEASEWATCH_JOIN_FILE", value_name = "FILE")]
    join_file: Option<PathBuf>,
}

/// What a new node shows to join, and the server that it shows it to.
#[derive(Debug, Clone)]
pub struct Joining {
    /// The only identity key that is shown the token.
    pub identity_key: [u8; 32],
    /// The secret.
    pub token: JoinToken,
}

impl From<&JoinString> for Joining {
    fn from(join: &JoinString) -> Self {
        Self { identity_key: join.identity_key, token: join.token.clone() }
    }
}

impl Target {
    /// The provider that the node is rented from.
    #[must_use]
    pub fn provider(&self) -> &Slug {
        &self.destination.provider
    }

    /// See [`Destination::resolve`].
    ///
    /// # Errors
    /// [`ImportError::Target`] names the option.
    pub fn resolve(&self) -> Result<(ServerAddress, Option<Joining>), ImportError> {
        self.destination.resolve()
    }
}

impl Destination {
    /// The server, and what a new node joins it with.
    ///
    /// # Errors
    /// [`ImportError::Target`] names the option.
    pub fn resolve(&self) -> Result<(ServerAddress, Option<Joining>), ImportError> {
        let fail = |what: &dyn std::fmt::Display| ImportError::Target(what.to_string());
        let join = self.join_text()?.map(|text| JoinString::parse(&text)).transpose();
        let join = join.map_err(|error| fail(&error))?;
        let certificate = self.server_certificate.as_deref().map(|path| {
            ServerCertificate::read(path).map_err(|error| {
                fail(&format_args!("--server-certificate {} {error}", path.display()))
            })
        });
        let certificate = certificate.transpose()?;
        let of_join = join.as_ref().and_then(|join| join.addresses().first());
        let url = self.server.as_deref().or(of_join.map(|address| address.as_str()));
        let url = url.unwrap_or(DEFAULT_SERVER);
        let address = match (certificate, &join) {
            (None, Some(join)) => ServerAddress::trusting(url, Some(Trust::Join(join.trust))),
            (certificate, _) => ServerAddress::new(url, certificate),
        };
        let address = address.map_err(|error| fail(&format_args!("--server {error}")))?;
        Ok((address, join.as_ref().map(Joining::from)))
    }

    fn join_text(&self) -> Result<Option<String>, ImportError> {
        match &self.join_file {
            Some(path) => {
                let read = std::fs::read_to_string(path);
                let path = path.display().to_string();
                read.map(Some).map_err(|source| ImportError::File { path, source })
            }
            None => Ok(std::env::var("LEASEWATCH_JOIN").ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use leasewatch_core::join::{JoinAddress, TlsTrust};

    use super::*;

    fn target() -> Destination {
        Destination {
            provider: Slug::new("default").unwrap(),
            server: None,
            server_certificate: None,
            join_file: None,
        }
    }

    #[test]
    fn a_join_string_names_the_server_unless_another_address_is_given() {
        assert_eq!(target().resolve().unwrap().0.to_string(), DEFAULT_SERVER);
        let address = JoinAddress::new("https://203.0.113.7:7443").unwrap();
        let join =
            JoinString::new(vec![address], [7; 32], TlsTrust::Web, JoinToken([9; 24])).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), join.to_secret_text()).unwrap();
        let joining = Destination { join_file: Some(file.path().to_owned()), ..target() };
        let (server, with) = joining.resolve().unwrap();
        assert_eq!(server.to_string(), "https://203.0.113.7:7443");
        assert_eq!(with.map(|with| with.token), Some(JoinToken([9; 24])));
        let tunnel = Destination { server: Some("https://127.0.0.1:1".to_owned()), ..joining };
        assert_eq!(tunnel.resolve().unwrap().0.to_string(), "https://127.0.0.1:1");
        std::fs::write(file.path(), "lwj1_secret").unwrap();
        let refused = tunnel.resolve().unwrap_err().to_string();
        assert!(refused.contains("cut or altered") && !refused.contains("secret"), "{refused}");
    }
}
