//! Users and tokens from the command line: beside a running server, or without one.
//!
//! Whoever may run this can read the database, so it asks for no password. It sets none either:
//! people get links, which work once. Secrets go to standard output and nowhere else.

use anyhow::{Context as _, bail};
use clap::{ArgGroup, Args, Subcommand};
use leasewatch_core::id::{Slug, clean_text};
use leasewatch_core::time::{DAY_MS, HOUR_MS, Timestamp};

use crate::clock::Clock;
use crate::config::{Database, ServeFlags, ServeOptions};
use crate::embedded_postgres::EmbeddedPostgres;
use crate::secret::{Secret, TOKEN_PREFIX};
use crate::serve::{DATABASE, LOGIN, OpenDatabase, open_database, page_address};
use crate::store::audit::{self, Action, Who};
use crate::store::token::{self, NewToken, TokenKey};
use crate::store::user::{self, Membership, NewUser, Role, UserKey, UserRow};
use crate::store::user_link::{self, NewLink, Purpose};
use crate::store::{Db, Scope, TenantKey, Tx, tenant};

/// How long links wait: invitations and new passwords, and those that are used at once.
const LINK_MS: i64 = 7 * DAY_MS;
const SETUP_LINK_MS: i64 = DAY_MS;
const SIGN_IN_LINK_MS: i64 = HOUR_MS;

/// Users.
#[derive(Debug, Subcommand)]
pub enum UsersCommand {
    /// Prints a link that makes the first user, an operator. Older ones stop working.
    SetupLink(ServeFlags),
    /// Prints a link with which somebody becomes a user.
    Invite {
        #[command(flatten)]
        reach: ReachFlags,
        #[command(flatten)]
        serve: Box<ServeFlags>,
    },
    /// Prints a link with which a user chooses another password.
    Reset(Named),
    /// Prints a link that signs a browser in as a user, once. While there are no users it makes
    /// this one, an operator without a password.
    SignIn(Named),
    /// Prints who there is.
    List(ServeFlags),
    /// Ends a user's sessions and tokens, and lets no password or link in.
    Disable(Named),
    /// Lets a disabled user in again.
    Enable(Named),
}

/// Tokens for programs.
#[derive(Debug, Subcommand)]
pub enum TokensCommand {
    /// Prints a new token, once. It acts for a user, and never with more than the user has.
    Create {
        /// For whom it acts.
        #[arg(long, value_name = "NAME")]
        user: String,
        /// What it is for.
        #[arg(long = "for", value_name = "TEXT")]
        what: String,
        /// How long it is good for.
        #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u16).range(1..=366))]
        days: u16,
        #[command(flatten)]
        reach: ReachFlags,
        #[command(flatten)]
        serve: Box<ServeFlags>,
    },
    /// Prints the tokens that are good, without their secrets.
    List(Box<ServeFlags>),
    /// Makes a token worthless.
    Revoke {
        /// Its number in the list.
        token: i32,
        #[command(flatten)]
        serve: Box<ServeFlags>,
    },
}

/// How far somebody reaches.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("reach").required(true).args(["operator", "tenant"]))]
pub struct ReachFlags {
    /// Everything.
    #[arg(long)]
    operator: bool,
    /// One tenant.
    #[arg(long, value_name = "SLUG")]
    tenant: Option<Slug>,
    /// What may be done there: `viewer` or `admin`.
    #[arg(long, default_value = "viewer", value_parser = role, requires = "tenant")]
    role: Role,
}

/// A user, and where the database is.
#[derive(Debug, Args)]
pub struct Named {
    /// The user's name.
    name: String,
    #[command(flatten)]
    serve: Box<ServeFlags>,
}

fn role(text: &str) -> Result<Role, String> {
    Role::from_name(text).ok_or_else(|| "it is `viewer` or `admin`".to_owned())
}

/// Does it; returns what is to be printed.
///
/// # Errors
/// In words for whoever typed it.
pub async fn users(command: UsersCommand) -> anyhow::Result<String> {
    match command {
        UsersCommand::SetupLink(flags) => {
            let at = Opened::with(flags).await?;
            let result = setup_link(&at.db, at.now, &at.base).await;
            at.close(result).await?.context("there are users already; see `users sign-in`")
        }
        UsersCommand::Invite { reach, serve } => {
            let at = Opened::with(*serve).await?;
            let result = invite(&at, &reach).await;
            at.close(result).await
        }
        UsersCommand::List(flags) => {
            let at = Opened::with(flags).await?;
            let result = list(&at).await;
            at.close(result).await
        }
        UsersCommand::Reset(named) => link_for(named, Purpose::Reset, LINK_MS).await,
        UsersCommand::SignIn(named) => link_for(named, Purpose::SignIn, SIGN_IN_LINK_MS).await,
        UsersCommand::Disable(named) => disable(named, true).await,
        UsersCommand::Enable(named) => disable(named, false).await,
    }
}

/// As [`users`].
///
/// # Errors
/// In words for whoever typed it.
pub async fn tokens(command: TokensCommand) -> anyhow::Result<String> {
    match command {
        TokensCommand::Create { user, what, days, reach, serve } => {
            let at = Opened::with(*serve).await?;
            let result = create_token(&at, &user, &what, (days, &reach)).await;
            at.close(result).await
        }
        TokensCommand::List(flags) => {
            let at = Opened::with(*flags).await?;
            let result = list_tokens(&at).await;
            at.close(result).await
        }
        TokensCommand::Revoke { token, serve } => {
            let at = Opened::with(*serve).await?;
            let result = revoke_token(&at, TokenKey(token)).await;
            at.close(result).await
        }
    }
}

/// The database of a server, running or not.
struct Opened {
    db: Db,
    now: Timestamp,
    /// Where the server is reached.
    base: String,
    /// What was started for this command alone.
    own: Option<OpenDatabase>,
}

impl Opened {
    async fn with(flags: ServeFlags) -> anyhow::Result<Self> {
        let options = ServeOptions::resolve(flags)?;
        let (now, base) = (Clock::system().now(), page_address(&options, options.listen));
        let running = match options.database {
            Database::Own { .. } => {
                EmbeddedPostgres::running_url(&options.data_dir, LOGIN, DATABASE)
            }
            Database::External { .. } => None,
        };
        if let Some(url) = running {
            let db = Db::connect(&url, 1).await.context("the running database does not answer")?;
            return Ok(Self { db, now, base, own: None });
        }
        let own = open_database(&options).await?;
        Ok(Self { db: own.db.clone(), now, base, own: Some(own) })
    }

    async fn close<T>(self, result: anyhow::Result<T>) -> anyhow::Result<T> {
        if let Some(own) = self.own {
            own.close().await?;
        }
        result
    }
}

/// A new set-up link; `None` when there are users.
///
/// # Errors
/// When the database does not take it.
pub(crate) async fn setup_link(
    db: &Db,
    now: Timestamp,
    base: &str,
) -> anyhow::Result<Option<String>> {
    let mut tx = db.begin(Scope::Auth).await?;
    let link = match user::exist(&mut tx).await? {
        true => None,
        false => {
            let wanted = Wanted { purpose: Purpose::Setup, user: None, is_operator: true };
            Some(link(&mut tx, wanted, &[], (now, SETUP_LINK_MS, base)).await?)
        }
    };
    tx.commit().await?;
    Ok(link)
}

#[derive(Clone, Copy)]
struct Wanted {
    purpose: Purpose,
    user: Option<UserKey>,
    is_operator: bool,
}

async fn link(
    tx: &mut Tx,
    wanted: Wanted,
    grants: &[(TenantKey, Role)],
    (now, ms, base): (Timestamp, i64, &str),
) -> anyhow::Result<String> {
    let secret = Secret::random()?;
    let new = NewLink {
        hash: &secret.hash(),
        purpose: wanted.purpose,
        user: wanted.user,
        is_operator: wanted.is_operator,
        grants,
        created_by: None,
        at: now,
        expires_at: now.plus_ms(ms),
    };
    user_link::create(tx, new).await?;
    Ok(format!("{base}/link/{}", secret.text()))
}

async fn grants(tx: &mut Tx, reach: &ReachFlags) -> anyhow::Result<Vec<(TenantKey, Role)>> {
    let Some(slug) = &reach.tenant else { return Ok(Vec::new()) };
    let found = tenant::by_slug(tx, slug).await?;
    let found = found.with_context(|| format!("there is no tenant {slug}"))?;
    Ok(vec![(found.key, reach.role)])
}

async fn invite(at: &Opened, reach: &ReachFlags) -> anyhow::Result<String> {
    let mut tx = at.db.begin(Scope::Auth).await?;
    let grants = grants(&mut tx, reach).await?;
    let wanted = Wanted { purpose: Purpose::Invite, user: None, is_operator: reach.operator };
    let link = link(&mut tx, wanted, &grants, (at.now, LINK_MS, &at.base)).await?;
    let reach = match &reach.tenant {
        Some(slug) => format!("{slug}:{}", reach.role.name()),
        None => "operator".to_owned(),
    };
    note(&mut tx, (Action::UserInvited, &reach), at.now).await?;
    tx.commit().await?;
    Ok(link)
}

async fn link_for(named: Named, purpose: Purpose, ms: i64) -> anyhow::Result<String> {
    let at = Opened::with(*named.serve).await?;
    let result = async {
        let mut tx = at.db.begin(Scope::Auth).await?;
        user::hold(&mut tx).await?;
        let name = named.name.to_ascii_lowercase();
        let key = match user::by_name(&mut tx, &name).await? {
            Some(row) if row.disabled_at.is_some() => bail!("{name} is disabled"),
            Some(row) => row.key,
            None if purpose == Purpose::SignIn && !user::exist(&mut tx).await? => {
                first_operator(&mut tx, &name, at.now).await?
            }
            None => bail!("there is no user {name}"),
        };
        let wanted = Wanted { purpose, user: Some(key), is_operator: false };
        let link = link(&mut tx, wanted, &[], (at.now, ms, &at.base)).await?;
        note(&mut tx, (Action::ResetLinkMade, &name), at.now).await?;
        tx.commit().await?;
        Ok(link)
    };
    let result = result.await;
    at.close(result).await
}

/// Notes what the command line did, which is no tenant's.
async fn note(tx: &mut Tx, (action, object): (Action, &str), at: Timestamp) -> anyhow::Result<()> {
    let who = Who::command();
    let entry = audit::Entry { at, tenant: None, who: &who, action, object, detail: &[] };
    Ok(audit::write(tx, entry).await?)
}

async fn first_operator(tx: &mut Tx, name: &str, at: Timestamp) -> anyhow::Result<UserKey> {
    if !user::is_name(name) {
        bail!("a name is 1 to 64 of a-z, 0-9 and . _ - + @");
    }
    let new = NewUser { name, password_hash: None, is_operator: true, at };
    user::create(tx, new).await?.context("the name is taken")
}

async fn disable(named: Named, is_disabled: bool) -> anyhow::Result<String> {
    let at = Opened::with(*named.serve).await?;
    let result = async {
        let mut tx = at.db.begin(Scope::Auth).await?;
        let name = named.name.to_ascii_lowercase();
        let row = user::by_name(&mut tx, &name).await?;
        let row = row.with_context(|| format!("there is no user {name}"))?;
        user::set_disabled(&mut tx, row.key, is_disabled.then_some(at.now)).await?;
        let action = if is_disabled { Action::UserDisabled } else { Action::UserEnabled };
        note(&mut tx, (action, &name), at.now).await?;
        tx.commit().await?;
        Ok(format!("{name} is {}", if is_disabled { "disabled" } else { "let in again" }))
    };
    let result = result.await;
    at.close(result).await
}

async fn list(at: &Opened) -> anyhow::Result<String> {
    let mut tx = at.db.begin(Scope::Auth).await?;
    let users = user::list(&mut tx).await?;
    tx.commit().await?;
    let line = |row: &UserRow| {
        let disabled = if row.disabled_at.is_some() { "\tdisabled" } else { "" };
        format!("{}\t{}{disabled}", row.name, reach(row.is_operator, &row.memberships))
    };
    Ok(users.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// `operator`, or `default:viewer research:admin`.
fn reach(is_operator: bool, memberships: &[Membership]) -> String {
    let tenants = memberships.iter().map(|own| format!("{}:{}", own.slug, own.role.name()));
    let all: Vec<_> =
        is_operator.then(|| "operator".to_owned()).into_iter().chain(tenants).collect();
    if all.is_empty() { "nothing".to_owned() } else { all.join(" ") }
}

async fn create_token(
    at: &Opened,
    name: &str,
    what: &str,
    (days, reach): (u16, &ReachFlags),
) -> anyhow::Result<String> {
    let what = clean_text(what.trim(), 80);
    if what.is_empty() {
        bail!("--for says what the token is for");
    }
    let secret = Secret::random()?;
    let mut tx = at.db.begin(Scope::Auth).await?;
    let row = user::by_name(&mut tx, &name.to_ascii_lowercase()).await?;
    let row = row.with_context(|| format!("there is no user {name}"))?;
    let grants = grants(&mut tx, reach).await?;
    let new = NewToken {
        hash: &secret.hash(),
        user: row.key,
        name: &what,
        is_operator: reach.operator,
        grants: &grants,
        at: at.now,
        expires_at: at.now.plus_ms(i64::from(days) * DAY_MS),
    };
    token::create(&mut tx, new).await?;
    note(&mut tx, (Action::TokenMade, &format!("{} for {}", what, row.name)), at.now).await?;
    tx.commit().await?;
    Ok(format!("{TOKEN_PREFIX}{}", secret.text()))
}

async fn list_tokens(at: &Opened) -> anyhow::Result<String> {
    let mut tx = at.db.begin(Scope::Auth).await?;
    let tokens = token::list(&mut tx, None, at.now).await?;
    tx.commit().await?;
    let line = |row: &token::TokenRow| {
        let reach = reach(row.is_operator, &row.grants);
        format!("{}\t{}\t{reach}\tuntil {}\t{}", row.key.0, row.user, row.expires_at, row.name)
    };
    Ok(tokens.iter().map(line).collect::<Vec<_>>().join("\n"))
}

async fn revoke_token(at: &Opened, key: TokenKey) -> anyhow::Result<String> {
    let mut tx = at.db.begin(Scope::Auth).await?;
    if !token::revoke(&mut tx, key, None, at.now).await? {
        bail!("there is no token {}; see `tokens list`", key.0);
    }
    note(&mut tx, (Action::TokenRevoked, &key.0.to_string()), at.now).await?;
    tx.commit().await?;
    Ok(format!("token {} is revoked", key.0))
}
