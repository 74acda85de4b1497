//! The way to the server: is it there, over TLS where asked for, and is it the one of before.
//!
//! A hello is sent with a key that is made for it and thrown away; the server answers with its
//! signed challenge. The proof that would make a node of it is never sent, so nothing joins.

use std::error::Error;
use std::time::Duration;

use ed25519_dalek::{Signature, SigningKey, VerifyingKey};
use leasewatch_core::id::{ChainId, EpochId, LifeUnitId, clean_text};
use leasewatch_core::segment::Origin;
use leasewatch_proto::convert::{Challenge, Hello};
use leasewatch_proto::v1::AgentMessage;
use leasewatch_proto::v1::agent_message::Kind as Up;
use leasewatch_proto::v1::server_message::Kind as Down;
use leasewatch_proto::v1::telemetry_client::TelemetryClient;
use tokio::time::timeout;
use tonic::transport::Channel;

use crate::command::finding::{Finding, Findings};
use crate::command::run::random;
use crate::config::Config;
use crate::enrollment::Servers;
use crate::identity::server_trust;

/// How long the server gets for each step.
const PATIENCE: Duration = Duration::from_secs(5);
/// The server's identity key as the agent keeps it.
const PINNED: &str = "server.pub";

pub(super) fn check(config: &Config, findings: &mut Findings) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime {
        Ok(runtime) => runtime.block_on(look(config, findings)),
        Err(error) => findings.node(Finding::not_readable("server.reach", error.to_string())),
    }
}

async fn look(config: &Config, findings: &mut Findings) {
    let id = "server.reach";
    let (named, joining) = (config.server.clone(), config.joining.as_ref());
    let known = Servers::known(&config.state_dir, named, joining);
    let is_given = known.as_ref().map_or(true, Option::is_some);
    // Of several addresses the first: an agent tries the others when it does not answer.
    let server = match known.map(|known| known.and_then(|all| all.into_iter().next())) {
        Ok(Some(server)) => Ok(server),
        Ok(None) => Servers::usual(),
        Err(error) => Err(error),
    };
    let server = match server {
        Ok(server) => server,
        Err(error) => return findings.node(Finding::differs(id, error.to_string())),
    };
    let way =
        server.proxy().map_or_else(String::new, |proxy| format!(" through the proxy {proxy}"));
    let connect = timeout(PATIENCE, server.connect(|end| end.connect_timeout(PATIENCE))).await;
    let channel = match connect {
        Ok(Ok(channel)) => channel,
        Ok(Err(error)) if !is_given => {
            let found = format!("none is configured, and {server}: {}", causes(&error));
            return findings.node(Finding::not_readable(id, found).advising(
                "Name one with --server, or use the commands that need none: check, exec, record",
            ));
        }
        Ok(Err(error)) => {
            let found = format!("{server}{way}: {}", causes(&error));
            return findings.node(Finding::differs(id, found).advising(
                "Start the server or its tunnel; check --server, --server-certificate, HTTPS_PROXY \
                 and NO_PROXY. The agent records meanwhile, once a server has welcomed it",
            ));
        }
        Err(_) => {
            let found = format!("{server} does not answer{way}");
            return findings
                .node(Finding::differs(id, found).advising("Check the tunnel or proxy"));
        }
    };
    let secured = if server.to_string().starts_with("https") { "over TLS" } else { "without TLS" };
    findings.node(Finding::ok(id, format!("{server} answers, {secured}{way}")));
    let challenge = timeout(PATIENCE, challenge(channel, config)).await;
    findings.node(identity(config, challenge.unwrap_or(Err("no challenge came".to_owned()))));
}

/// The identity key that the server proves to hold, and how it came to be that one.
async fn challenge(channel: Channel, config: &Config) -> Result<Challenge, String> {
    let hello = hello(config).map_err(|error| error.to_string())?;
    let message = AgentMessage { kind: Some(Up::Hello(hello.to_wire())) };
    // The stream stays open until the answer is here, and ends with this function.
    let messages = tokio_stream::StreamExt::chain(
        tokio_stream::once(message),
        tokio_stream::pending::<AgentMessage>(),
    );
    let status = |status: tonic::Status| {
        format!("{:?}: {}", status.code(), clean_text(status.message(), 200))
    };
    let mut answers =
        TelemetryClient::new(channel).stream(messages).await.map_err(status)?.into_inner();
    let answer = answers.message().await.map_err(status)?;
    let Some(Down::Challenge(wire)) = answer.and_then(|answer| answer.kind) else {
        return Err("it did not answer as a leasewatch server does".to_owned());
    };
    let challenge = Challenge::from_wire(&wire).map_err(|error| error.to_string())?;
    let key = VerifyingKey::from_bytes(&challenge.identity_key)
        .map_err(|_| "its identity key is none".to_owned())?;
    let signed = hello.challenge_message(&challenge.server_nonce);
    key.verify_strict(&signed, &Signature::from_bytes(&challenge.signature))
        .map_err(|_| "it does not hold the identity key that it shows".to_owned())?;
    Ok(challenge)
}

fn hello(config: &Config) -> anyhow::Result<Hello> {
    Ok(Hello {
        public_key: SigningKey::from_bytes(&random()?).verifying_key().to_bytes(),
        client_nonce: random()?,
        chain: ChainId(random()?),
        epoch: EpochId(random()?),
        life_unit: LifeUnitId(random()?),
        oldest: None,
        newest: None,
        tenant: config.tenant.clone(),
        provider: config.provider.clone(),
        node_name: config.name.clone(),
        origin: Origin::Measured,
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

fn identity(config: &Config, shown: Result<Challenge, String>) -> Finding {
    let id = "server.identity";
    let shown = match shown {
        Ok(shown) => shown,
        Err(why) => {
            return Finding::differs(id, why).advising("Check that it is a leasewatch server");
        }
    };
    let trust = match server_trust(&config.state_dir) {
        Ok(trust) => trust,
        Err(error) => return Finding::not_readable(id, error.to_string()),
    };
    match trust {
        None => Finding::ok(id, "proven; this node has not joined a server yet"),
        Some(trust) if trust.identity == shown.identity_key => {
            Finding::ok(id, "the server of before")
        }
        Some(trust) if trust.follow(&shown.rotations).identity == shown.identity_key => {
            Finding::ok(id, "the server of before, with a new key that the one before has named")
        }
        Some(_) => Finding::differs(id, "another identity key than at first").advising(format!(
            "Nothing is sent to it. If the server was set up anew on purpose, remove {}",
            config.state_dir.join(PINNED).display()
        )),
    }
}

fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
