//! `leasewatch-server join-token` and `leasewatch-server nodes`: on the server's database, beside a
//! running server or without one.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use leasewatch_core::id::{NodeId, Slug};
use leasewatch_core::join::TlsTrust;
use leasewatch_core::time::Timestamp;
use tokio::sync::watch;

use super::{FLEET_MS, Issuer, Order, SINGLE_MS};
use crate::clock::Clock;
use crate::config::{Database, ServeFlags, ServeOptions};
use crate::embedded_postgres::EmbeddedPostgres;
use crate::identity::{self, Identity};
use crate::serve::{DATABASE, LOGIN, node_addresses, node_trust, open_database};
use crate::store::audit::Who;
use crate::store::enrollment::{self, TokenKey, TokenKind, TokenRow};
use crate::store::{Db, Scope, node, node_key, tenant};

/// Strings with which nodes join.
#[derive(Debug, Subcommand)]
pub enum JoinTokenCommand {
    /// Makes a join string and prints it, alone, on standard output. Whoever has it can join.
    ///
    /// For one node and 15 minutes, unless --fleet or --valid says otherwise. On the node:
    /// `leasewatch-agent run --join-file FILE`.
    Create(Box<Create>),
    /// Lists tokens and who joined with them. The strings themselves are kept nowhere.
    List(Box<ServeFlags>),
    /// Takes a token back: nobody joins with it any more, and whoever did stays.
    Revoke {
        /// Its number in the list.
        number: i32,
        /// The tenant that it is of.
        #[arg(long, value_name = "SLUG", default_value = "default")]
        tenant: Slug,
        #[command(flatten)]
        serve: Box<ServeFlags>,
    },
}

/// What `join-token create` is asked for.
#[derive(Debug, Args)]
pub struct Create {
    #[command(flatten)]
    serve: ServeFlags,
    /// The tenant of the nodes that join; made if there is none.
    #[arg(long, value_name = "SLUG", default_value = "default")]
    tenant: Slug,
    /// Who supplies them; made if there is none [default: default, with --lease its provider].
    #[arg(long, value_name = "SLUG")]
    provider: Option<Slug>,
    /// A lease of the tenant: the GPUs of nodes that join are assigned to it from then on.
    #[arg(long, value_name = "NAME")]
    lease: Option<Slug>,
    /// For up to so many nodes, such as a DaemonSet or a frozen image; at most 60 a minute.
    #[arg(long, value_name = "NODES")]
    fleet: Option<u32>,
    /// For how long, such as 15m, 24h or 30d [default: 15m, with --fleet 30d].
    #[arg(long, value_name = "TIME", value_parser = duration_ms)]
    valid: Option<i64>,
    /// Nodes check the certificate as browsers do, by its name and a public authority, instead of
    /// the server's own key. Short for `--node-certificate web`.
    #[arg(long)]
    web: bool,
}

/// Nodes and their keys.
#[derive(Debug, Subcommand)]
pub enum NodesCommand {
    /// Lists nodes.
    List(Box<ServeFlags>),
    /// Accepts a node's keys no more. Open streams end within 5 seconds; what is recorded stays.
    /// The node can come back with a new key and a new token: `leasewatch-agent run --replaces`.
    Revoke {
        /// The node's id, 32 hex digits, as pages and lists show it.
        node: NodeId,
        #[command(flatten)]
        serve: Box<ServeFlags>,
    },
}

/// `15m`, `24h`, `30d`.
fn duration_ms(text: &str) -> Result<i64, String> {
    let unit_ms = match text.chars().next_back() {
        Some('m') => 60_000,
        Some('h') => 3_600_000,
        Some('d') => 86_400_000,
        _ => 0,
    };
    let number = text.get(..text.len().saturating_sub(1)).and_then(|digits| digits.parse().ok());
    number
        .and_then(|number: i64| number.checked_mul(unit_ms))
        .filter(|ms| *ms > 0)
        .ok_or_else(|| "must be a time such as 15m, 24h or 30d".to_owned())
}

/// Runs a command about tokens.
///
/// # Errors
/// What is wrong, in words for the operator.
pub async fn join_token(command: JoinTokenCommand) -> anyhow::Result<()> {
    match command {
        JoinTokenCommand::Create(create) => create.run().await,
        JoinTokenCommand::List(serve) => {
            let options = ServeOptions::resolve(*serve)?;
            on_database(&options, async |db| print_tokens(&db).await).await
        }
        JoinTokenCommand::Revoke { number, tenant, serve } => {
            let options = ServeOptions::resolve(*serve)?;
            on_database(&options, async |db| revoke_token(&db, &tenant, number).await).await
        }
    }
}

/// Runs a command about nodes.
///
/// # Errors
/// What is wrong, in words for the operator.
pub async fn nodes(command: NodesCommand) -> anyhow::Result<()> {
    match command {
        NodesCommand::List(serve) => {
            let options = ServeOptions::resolve(*serve)?;
            on_database(&options, async |db| print_nodes(&db).await).await
        }
        NodesCommand::Revoke { node, serve } => {
            let options = ServeOptions::resolve(*serve)?;
            // One that is made here would sign for nobody.
            if !options.data_dir.join(identity::FILE_NAME).exists() {
                bail!(
                    "{} holds no identity.key, with which a revocation is signed: say with --data-dir where \
                     the server keeps it",
                    options.data_dir.display()
                );
            }
            let identity = Identity::of_server(&options.data_dir)?;
            on_database(&options, async |db| revoke_node(&db, &identity, node).await).await
        }
    }
}

impl Create {
    async fn run(self) -> anyhow::Result<()> {
        let options = ServeOptions::resolve(self.serve.clone())?;
        let addresses = node_addresses(&options, options.listen)?;
        on_database(&options, async |db| {
            let clock = Clock::system();
            let trust = if self.web { TlsTrust::Web } else { node_trust(&options, clock.now())? };
            let issuer = Issuer {
                db,
                clock,
                identity: Arc::new(Identity::of_server(&options.data_dir)?),
                trust: watch::channel(trust).1,
                addresses,
            };
            let usual = Slug::new("default")?;
            let provider = self.provider.as_ref().or(self.lease.is_none().then_some(&usual));
            let kind = self.fleet.map_or(TokenKind::Single, TokenKind::Fleet);
            let usual_ms = if self.fleet.is_some() { FLEET_MS } else { SINGLE_MS };
            let issued = issuer
                .issue(Order {
                    tenant: &self.tenant,
                    provider,
                    lease: self.lease.as_ref(),
                    kind,
                    valid_ms: self.valid.unwrap_or(usual_ms),
                    created_by: "command line",
                    who: Some(&Who::command()),
                })
                .await?;
            let nodes = self.fleet.map_or("one node".to_owned(), |n| format!("up to {n} nodes"));
            eprintln!(
                "token {} of tenant {}: for {nodes}, until {}. Whoever has this line can join:",
                issued.key.number(),
                self.tenant,
                issued.expires_at
            );
            println!("{}", issued.join.to_secret_text());
            eprintln!(
                "on the node, with the line in a file: leasewatch-agent run --join-file FILE"
            );
            Ok(())
        })
        .await
    }
}

/// Works on the database of the server that runs, or starts one for it.
async fn on_database<T>(
    options: &ServeOptions,
    work: impl AsyncFnOnce(Db) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let running = match options.database {
        Database::Own { .. } => EmbeddedPostgres::running_url(&options.data_dir, LOGIN, DATABASE),
        Database::External { .. } => None,
    };
    if let Some(url) = running {
        let db = Db::connect(&url, 1).await.context("the running database does not answer")?;
        return work(db).await;
    }
    let database = open_database(options).await?;
    let done = work(database.db.clone()).await;
    database.close().await?;
    done
}

async fn print_tokens(db: &Db) -> anyhow::Result<()> {
    let now = Clock::system().now();
    let mut tx = db.begin(Scope::Operator).await?;
    for token in enrollment::tokens(&mut tx).await? {
        println!("{}", token_line(&token, now));
        for join in enrollment::joins(&mut tx, token.key).await? {
            let how = if join.has_replaced { "took over" } else { "joined as" };
            println!("    {} {how} {} {}", join.joined_at, join.node, join.name);
        }
    }
    Ok(())
}

fn token_line(token: &TokenRow, now: Timestamp) -> String {
    let ceiling = match token.kind {
        TokenKind::Single => 1,
        TokenKind::Fleet(ceiling) => ceiling,
    };
    let state = match token.revoked_at {
        Some(at) => format!("revoked {at}"),
        None if token.joins >= ceiling => "used".to_owned(),
        None if token.expires_at <= now => format!("expired {}", token.expires_at),
        None => format!("good until {}", token.expires_at),
    };
    let lease = token.lease.as_ref().map(|lease| format!(" lease {lease}")).unwrap_or_default();
    format!(
        "{} tenant {} provider {}{lease} by {}: {} of {ceiling} joined, {state}",
        token.key.number(),
        token.tenant,
        token.provider,
        token.created_by,
        token.joins
    )
}

async fn revoke_token(db: &Db, tenant: &Slug, number: i32) -> anyhow::Result<()> {
    let mut tx = db.begin(Scope::Ingest).await?;
    let Some(owner) = tenant::by_slug(&mut tx, tenant).await? else {
        bail!("there is no tenant {tenant}");
    };
    let key = TokenKey::new(owner.key, number);
    let at = Clock::system().now();
    if !enrollment::revoke_token(&mut tx, key, at).await? {
        bail!("tenant {tenant} has no token {number} that could still be revoked");
    }
    super::taken_back(&mut tx, (owner.key, number), &Who::command(), at).await?;
    tx.commit().await?;
    println!("revoked token {number} of tenant {tenant}; nodes that joined with it stay");
    Ok(())
}

async fn print_nodes(db: &Db) -> anyhow::Result<()> {
    let mut tx = db.begin(Scope::Operator).await?;
    for row in node::list(&mut tx).await? {
        let good = node_key::has_good_one(&mut tx, row.key).await?;
        let contested = node_key::contested_sessions(&mut tx, row.key).await? > 0;
        let marks = [(!good, ", revoked"), (contested, ", contested")];
        let marks: String = marks.iter().filter(|(is, _)| *is).map(|(_, mark)| *mark).collect();
        println!("{} {}/{} {}{marks}", row.id, row.tenant, row.name, row.origin.name());
    }
    Ok(())
}

async fn revoke_node(db: &Db, identity: &Identity, id: NodeId) -> anyhow::Result<()> {
    let by = Who::command();
    let revoked = super::revoke(db, identity, (id, &by), Clock::system().now()).await?;
    let Some((row, keys)) = revoked else { bail!("there is no node {id}") };
    if keys == 0 {
        bail!("the node {id} was revoked before");
    }
    println!("revoked {id} ({}); its streams end within 5 seconds", row.name);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        assert_eq!(duration_ms("15m"), Ok(900_000));
        assert_eq!(duration_ms("24h"), Ok(86_400_000));
        assert_eq!(duration_ms("30d"), Ok(2_592_000_000));
        for wrong in ["", "15", "m", "0m", "-1h", "1.5h", "9223372036854775807d", "1é"] {
            assert!(duration_ms(wrong).is_err(), "{wrong}");
        }
    }
}
