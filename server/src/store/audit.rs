//! The audit log: who did what. An entry is written in the transaction of what it is about, so there
//! is none without the other; nobody can change or delete one (`migrations/0017_audit.sql`).
//!
//! Not here: what was read. Secrets never come here, and texts are cut and made inert.

use leasewatch_core::id::{Slug, clean_text};
use leasewatch_core::time::Timestamp;
use serde_json::{Map, Value};

use super::column::Column;
use super::user::UserKey;
use super::{StoreError, TenantKey, Tx};

/// Characters of what something was done to, of a text beside it, and of an address.
const OBJECT_CHARS: usize = 200;
const DETAIL_CHARS: usize = 300;
const ADDRESS_CHARS: usize = 64;
/// Texts beside it.
const DETAILS_MAX: usize = 64;

macro_rules! actions {
    ($($variant:ident = $name:literal, $about:literal;)*) => {
        /// What was done. Names stand in the database for ever: none is changed or used again.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Action {
            $(#[doc = $about] $variant,)*
        }

        impl Action {
            /// Every action, in the order of the page's filter.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Its name in the database, in forms and in files.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

actions! {
    SignedIn = "signed_in", "Somebody signed in with a password.";
    SignInRefused = "sign_in_refused", "Somebody did not.";
    SignedOut = "signed_out", "Somebody signed out.";
    SessionEnded = "session_ended", "A session was ended from another one.";
    LinkUsed = "link_used", "A link that works once was used.";
    PasswordChanged = "password_changed", "A user chose another password.";
    UserInvited = "user_invited", "A link that makes a user was made.";
    ResetLinkMade = "reset_link_made", "A link for a new password, or to sign in, was made.";
    UserMade = "user_made", "A user came to be.";
    UserDisabled = "user_disabled", "A user was shut out.";
    UserEnabled = "user_enabled", "A user was let in again.";
    RoleChanged = "role_changed", "What a user may do was changed.";
    TokenMade = "token_made", "A token for programs was made.";
    TokenRevoked = "token_revoked", "A token for programs was made worthless.";
    JoinTokenMade = "join_token_made", "A join string was made.";
    JoinTokenRevoked = "join_token_revoked", "A join string was taken back.";
    NodeRevoked = "node_revoked", "A node was shut out.";
    Imported = "imported", "A log or recording was given to be imported.";
    Exported = "exported", "Records were taken out.";
    TenantMade = "tenant_made", "A tenant was made.";
    TenantRenamed = "tenant_renamed", "A tenant got another name.";
    TenantExported = "tenant_exported", "Everything of a tenant was taken out.";
    TenantRemoved = "tenant_removed", "Everything of a tenant was removed.";
    ProviderChanged = "provider_changed", "Facts about a provider were changed.";
    ProfileChanged = "profile_changed", "An SLA profile was added.";
    LeaseChanged = "lease_changed", "Terms of a lease, its times or its slots were changed.";
    PricesChanged = "prices_changed", "Prices were added.";
    BillAdded = "bill_added", "A bill was added.";
    TicketChanged = "ticket_changed", "A ticket with a provider was changed.";
    ClaimChanged = "claim_changed", "A claim was changed.";
    NoticeChanged = "notice_changed", "A maintenance notice was added or changed.";
    ProbeChanged = "probe_changed", "A probe or a reference target was changed.";
    SettingsChanged = "settings_changed", "Another setting was changed.";
}

impl Action {
    /// The action of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|action| action.name() == name)
    }
}

/// How somebody came to do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// A user in a browser.
    Session,
    /// A program with a user's token.
    Token,
    /// The command line of the server.
    Command,
    /// A page, while there were no users.
    NoUsers,
    /// Somebody who is not signed in.
    Outside,
}

impl Way {
    /// Every way.
    pub const ALL: [Self; 5] =
        [Self::Session, Self::Token, Self::Command, Self::NoUsers, Self::Outside];

    /// Its name in the database and in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Token => "token",
            Self::Command => "command",
            Self::NoUsers => "no_users",
            Self::Outside => "outside",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|way| way.name() == name)
    }
}

/// Who did it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Who {
    /// The user, and its name now. There is one for [`Way::Session`] and [`Way::Token`] alone.
    pub user: Option<(UserKey, String)>,
    /// How.
    pub way: Way,
    /// From where; `None` when not known.
    pub address: Option<String>,
}

impl Who {
    /// The command line.
    #[must_use]
    pub fn command() -> Self {
        Self { user: None, way: Way::Command, address: None }
    }

    /// Somebody who is not signed in.
    #[must_use]
    pub fn outside(address: Option<String>) -> Self {
        Self { user: None, way: Way::Outside, address }
    }
}

/// An entry that is to be written.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// Server time.
    pub at: Timestamp,
    /// Whose it is; `None` for what is no tenant's.
    pub tenant: Option<TenantKey>,
    /// Who did it.
    pub who: &'a Who,
    /// What.
    pub action: Action,
    /// To what, for people; cut at 200 characters.
    pub object: &'a str,
    /// More about it, by name; no secrets. At most 40, each cut at 300 characters.
    pub detail: &'a [(&'a str, String)],
}

/// Adds an entry. Scope: tenant (its own alone), auth, ingest, worker.
///
/// # Errors
/// [`StoreError`] of the database; [`StoreError::Denied`] for another tenant's entry.
pub async fn write(tx: &mut Tx, entry: Entry<'_>) -> Result<(), StoreError> {
    let mut detail = Map::new();
    for (name, text) in entry.detail.iter().take(DETAILS_MAX) {
        detail.insert((*name).to_owned(), Value::String(clean_text(text, DETAIL_CHARS)));
    }
    let user = entry.who.user.as_ref();
    let address = entry.who.address.as_ref().map(|text| clean_text(text, ADDRESS_CHARS));
    sqlx::query!(
        "insert into audit_entry (tenant_id, at, user_id, user_name, way, action, object, detail, address)
        values ($1, $2, $3, $4, $5, $6, $7, $8::text::json, $9)",
        entry.tenant.map(|tenant| tenant.0),
        entry.at.0,
        user.map(|(key, _)| key.0),
        user.map(|(_, name)| name.as_str()),
        entry.who.way.name(),
        entry.action.name(),
        clean_text(entry.object, OBJECT_CHARS),
        Value::Object(detail).to_string(),
        address
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// An entry as it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryRow {
    /// Its number: a later one is higher.
    pub number: i64,
    /// Server time.
    pub at: Timestamp,
    /// Public name of the tenant; `None` for what is no tenant's.
    pub tenant: Option<Slug>,
    /// Who did it, by the name of that time; `None` where nobody was signed in.
    pub user: Option<String>,
    /// How.
    pub way: Way,
    /// What. A later program's action is kept by its name alone.
    pub action: String,
    /// To what.
    pub object: String,
    /// More about it, by name.
    pub detail: Vec<(String, String)>,
    /// From where.
    pub address: Option<String>,
}

/// Which entries are asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    /// Of this action alone.
    pub action: Option<Action>,
    /// From here on.
    pub from: Option<Timestamp>,
    /// Before this.
    pub to: Option<Timestamp>,
    /// Older than this number.
    pub before: Option<i64>,
}

/// Entries that the scope may see, the newest first, at most `limit`. Scope: tenant, operator.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn read(tx: &mut Tx, wanted: Wanted, limit: u32) -> Result<Vec<EntryRow>, StoreError> {
    let rows = sqlx::query!(
        r#"select a.entry_id, a.at, t.slug as "slug?", a.user_name, a.way, a.action, a.object,
            a.detail::text as "detail!", a.address
        from audit_entry a left join tenant t on t.tenant_id = a.tenant_id
        where ($1::text is null or a.action = $1) and ($2::bigint is null or a.at >= $2)
            and ($3::bigint is null or a.at < $3) and ($4::bigint is null or a.entry_id < $4)
        order by a.entry_id desc limit $5"#,
        wanted.action.map(Action::name),
        wanted.from.map(|at| at.0),
        wanted.to.map(|at| at.0),
        wanted.before,
        i64::from(limit)
    );
    let rows = rows.fetch_all(tx.connection()).await?;
    let column = |name| Column("audit_entry", name);
    rows.into_iter()
        .map(|row| {
            let tenant = row.slug.map(|slug| Column("tenant", "slug").parsed(&slug)).transpose()?;
            let detail: Map<String, Value> =
                serde_json::from_str(&row.detail).map_err(|error| column("detail").wrong(error))?;
            let text = |value: Value| match value {
                Value::String(text) => text,
                other => other.to_string(),
            };
            Ok(EntryRow {
                number: row.entry_id,
                at: Timestamp(row.at),
                tenant,
                user: row.user_name,
                way: column("way").named(&row.way, Way::from_name)?,
                action: row.action,
                object: row.object,
                detail: detail.into_iter().map(|(name, value)| (name, text(value))).collect(),
                address: row.address,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_action_has_a_name_of_its_own_that_the_database_takes() {
        let mut names: Vec<_> = Action::ALL.iter().map(|action| action.name()).collect();
        for name in &names {
            let plain = |b: u8| b.is_ascii_lowercase() || b == b'_';
            assert!((1..=40).contains(&name.len()) && name.bytes().all(plain), "{name}");
            assert_eq!(Action::from_name(name).map(Action::name), Some(*name));
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Action::ALL.len());
    }
}
