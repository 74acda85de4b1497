//! Who did what: the audit log, filtered by action and time, and the same as CSV.

use askama::Template;
use leasewatch_core::time::Timestamp;
use serde::Serialize;

use crate::context::{Context, SUGGESTED_ZONES};
use crate::i18n::{Language, Text};
use crate::path::{self, Route, pattern};
use crate::wire;

/// What each action is called, by its name in the log.
const ACTIONS: [(&str, Text); 33] = [
    ("signed_in", Text::AuditSignedIn),
    ("sign_in_refused", Text::AuditSignInRefused),
    ("signed_out", Text::AuditSignedOut),
    ("session_ended", Text::AuditSessionEnded),
    ("link_used", Text::AuditLinkUsed),
    ("password_changed", Text::AuditPasswordChanged),
    ("user_invited", Text::AuditUserInvited),
    ("reset_link_made", Text::AuditResetLinkMade),
    ("user_made", Text::AuditUserMade),
    ("user_disabled", Text::AuditUserDisabled),
    ("user_enabled", Text::AuditUserEnabled),
    ("role_changed", Text::AuditRoleChanged),
    ("token_made", Text::AuditTokenMade),
    ("token_revoked", Text::AuditTokenRevoked),
    ("join_token_made", Text::AuditJoinTokenMade),
    ("join_token_revoked", Text::AuditJoinTokenRevoked),
    ("node_revoked", Text::AuditNodeRevoked),
    ("imported", Text::AuditImported),
    ("exported", Text::AuditExported),
    ("tenant_made", Text::AuditTenantMade),
    ("tenant_renamed", Text::AuditTenantRenamed),
    ("tenant_exported", Text::AuditTenantExported),
    ("tenant_removed", Text::AuditTenantRemoved),
    ("provider_changed", Text::AuditProviderChanged),
    ("profile_changed", Text::AuditProfileChanged),
    ("lease_changed", Text::AuditLeaseChanged),
    ("prices_changed", Text::AuditPricesChanged),
    ("bill_added", Text::AuditBillAdded),
    ("ticket_changed", Text::AuditTicketChanged),
    ("claim_changed", Text::AuditClaimChanged),
    ("notice_changed", Text::AuditNoticeChanged),
    ("probe_changed", Text::AuditProbeChanged),
    ("settings_changed", Text::AuditSettingsChanged),
];

/// Everything that the page shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditView {
    /// The newest first.
    pub entries: Vec<AuditLine>,
    /// The only action that is shown, by name.
    pub action: Option<String>,
    /// The number that older entries are below; `None` when these are all.
    pub older: Option<i64>,
}

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditLine {
    /// A later one is higher.
    pub number: i64,
    /// When.
    #[serde(serialize_with = "wire::at")]
    pub at: Timestamp,
    /// Public name of the tenant; `None` for what is no tenant's.
    pub tenant: Option<String>,
    /// Who, by the name of that time; `None` where nobody was signed in.
    pub user: Option<String>,
    /// `session`, `token`, `command`, `no_users` or `outside`.
    pub way: &'static str,
    /// What, by name.
    pub action: String,
    /// To what.
    pub object: String,
    /// More about it.
    pub detail: Vec<(String, String)>,
    /// From where.
    pub address: Option<String>,
}

impl AuditView {
    /// Four entries of different kinds.
    #[must_use]
    pub fn sample() -> Self {
        let now = super::sample::NOW;
        let line = |number: i64, way, user: Option<&str>, action: &str, object: &str| AuditLine {
            number,
            at: now.plus_ms(-60_000 * (100 - number)),
            tenant: (action == "node_revoked").then(|| "research".to_owned()),
            user: user.map(str::to_owned),
            way,
            action: action.to_owned(),
            object: object.to_owned(),
            detail: Vec::new(),
            address: (way != "command").then(|| "192.0.2.17".to_owned()),
        };
        let mut entries = vec![
            line(99, "session", Some("ada"), "node_revoked", "gpu-node-7"),
            line(98, "token", Some("li.lei"), "exported", "hours.csv"),
            line(97, "outside", None, "sign_in_refused", "ada"),
            line(96, "command", None, "user_invited", "research:admin"),
        ];
        let detail = [("from", "2026-07-01"), ("to", "2026-07-31")];
        entries[1].detail = detail.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
        Self { entries, action: None, older: Some(96) }
    }
}

/// True for an action that has a name for people.
#[must_use]
pub fn is_named(action: &str) -> bool {
    ACTIONS.iter().any(|(known, _)| *known == action)
}

/// Renders the page.
///
/// # Errors
/// [`askama::Error`] when a value cannot be formatted.
pub fn render(view: &AuditView, context: &Context) -> Result<String, askama::Error> {
    Ok(super::inert(&Page { cx: context, view }.render()?))
}

#[derive(Template)]
#[template(path = "audit.html", whitespace = "minimize")]
struct Page<'a> {
    cx: &'a Context,
    view: &'a AuditView,
}

impl Page<'_> {
    fn title(&self) -> &'static str {
        self.cx.t(Text::AuditTitle)
    }

    fn csv(&self) -> String {
        path::audit(&self.cx.here, pattern::AUDIT_CSV, None)
    }

    fn older(&self, number: &i64) -> String {
        path::audit(&self.cx.here, pattern::AUDIT, Some(*number))
    }

    /// Names and words of what can be shown alone.
    fn actions(&self) -> Vec<(&'static str, &'static str, bool)> {
        let chosen = |name| self.view.action.as_deref() == Some(name);
        ACTIONS.iter().map(|(name, words)| (*name, self.cx.t(*words), chosen(*name))).collect()
    }

    /// A day of the range as it is typed; empty where none is chosen.
    fn day(&self, name: &str) -> String {
        let kept = self.cx.here.kept("");
        let found = kept.into_iter().find(|(known, _)| *known == name);
        found.map_or_else(String::new, |(_, value)| value.chars().take(10).collect())
    }

    fn action(&self, line: &AuditLine) -> String {
        let known = ACTIONS.iter().find(|(name, _)| *name == line.action);
        known.map_or_else(|| line.action.clone(), |(_, words)| self.cx.t(*words).to_owned())
    }

    /// How somebody came to do it, where it was not a browser.
    fn way(&self, line: &AuditLine) -> Option<&'static str> {
        let words = match line.way {
            "token" => Text::AuditWayToken,
            "command" => Text::AuditWayCommand,
            "no_users" => Text::AuditWayNoUsers,
            "outside" => Text::AuditWayOutside,
            _ => return None,
        };
        Some(self.cx.t(words))
    }

    fn detail(&self, line: &AuditLine) -> String {
        let pairs = line.detail.iter().filter(|(_, text)| !text.is_empty());
        let pairs: Vec<_> = pairs.map(|(name, text)| format!("{name} {text}")).collect();
        pairs.join(self.cx.t(Text::ListSeparator))
    }
}
