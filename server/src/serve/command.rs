//! `leasewatch-server identity` and `leasewatch-server tls`: the server's keys, beside a running
//! server or without one.

use std::path::PathBuf;

use clap::Subcommand;
use leasewatch_core::id::Hash;

use super::certificate::Certificate;
use crate::clock::Clock;
use crate::config::{ServeFlags, ServeOptions};
use crate::identity::{self, Identity, RECOVERY_FILE};

/// The key by which nodes know the server.
#[derive(Debug, Subcommand)]
pub enum IdentityCommand {
    /// Shows the public key, and how often it was passed on.
    Show(Box<ServeFlags>),
    /// Makes a new key and signs with the one before that it takes its place. Nodes follow by
    /// themselves, however long they were away. Restart the server afterwards: until then it goes
    /// on with the key before.
    Rotate {
        /// Sign with the recovery key in this file: the key before is lost, or somebody stole it.
        #[arg(long, value_name = "FILE")]
        recovery: Option<PathBuf>,
        #[command(flatten)]
        serve: Box<ServeFlags>,
    },
}

/// The server's own certificate.
#[derive(Debug, Subcommand)]
pub enum TlsCommand {
    /// Makes a next certificate with a key of its own. A running server tells nodes of it within
    /// seconds, and those that come later at their next stream.
    Rotate {
        /// Show the next certificate from now on. Nodes that were not connected since it was made
        /// need a new join string: wait until all have been.
        #[arg(long)]
        now: bool,
        #[command(flatten)]
        serve: Box<ServeFlags>,
    },
}

/// Runs a command about the identity key.
///
/// # Errors
/// What is wrong, in words for the operator.
pub fn identity(command: IdentityCommand) -> anyhow::Result<()> {
    println!("{}", about_identity(command)?);
    Ok(())
}

fn about_identity(command: IdentityCommand) -> anyhow::Result<String> {
    match command {
        IdentityCommand::Show(serve) => {
            let options = ServeOptions::resolve(*serve)?;
            let identity = Identity::of_server(&options.data_dir)?;
            let recovery = identity.recovery().map(|key| Hash(key).to_string());
            let waits = options.data_dir.join(RECOVERY_FILE).exists();
            Ok(format!(
                "identity key {}\npassed on {} times\nrecovery key {}{}",
                Hash(identity.public_key()),
                identity.rotations().len(),
                recovery.unwrap_or_default(),
                if waits { ", still on this machine: move it away" } else { "" }
            ))
        }
        IdentityCommand::Rotate { recovery, serve } => {
            let options = ServeOptions::resolve(*serve)?;
            // A recovery key has to be there before it can be needed.
            if recovery.is_none() {
                Identity::of_server(&options.data_dir)?;
            }
            let now = Clock::system().now();
            let rotated = identity::rotate(&options.data_dir, recovery.as_deref(), now)?;
            Ok(format!(
                "identity key {} is number {} of this server; restart it, and put its data directory \
                 into a new backup",
                Hash(rotated.new),
                rotated.number.saturating_add(1)
            ))
        }
    }
}

/// Runs a command about the certificate.
///
/// # Errors
/// What is wrong, in words for the operator.
pub fn tls(command: TlsCommand) -> anyhow::Result<()> {
    println!("{}", about_tls(command)?);
    Ok(())
}

fn about_tls(command: TlsCommand) -> anyhow::Result<String> {
    let TlsCommand::Rotate { now, serve } = command;
    let options = ServeOptions::resolve(*serve)?;
    if options.tls.is_some() {
        anyhow::bail!("the certificate is a given one: put a new one into its file");
    }
    let at = Clock::system().now();
    // One that is shown has to be there before another can come after it.
    Certificate::load_or_create(&options.data_dir, at)?;
    if now {
        let shown = Certificate::take_over(&options.data_dir)?;
        return Ok(format!(
            "{} with SHA-256 {} is shown from now on",
            shown.path.display(),
            shown.fingerprint
        ));
    }
    let next = Certificate::make_next(&options.data_dir, at)?;
    Ok(format!(
        "{} with SHA-256 {} is the next one; when all nodes have been connected once: \
         leasewatch-server tls rotate --now",
        next.path.display(),
        next.fingerprint
    ))
}
