//! How nodes join: making a join string, the command that uses it, who joined with which token.
//!
//! A string is shown once, on the answer to the form that made it, and never on a page with an
//! address of its own.

mod command;
mod token;

use askama::Template;
use leasewatch_core::time::Timestamp;
use serde::Serialize;

use crate::context::{Context, SUGGESTED_ZONES};
use crate::i18n::{Language, Text, phrase};
use crate::path::{Route, pattern};
use crate::wire;

use command::Way;
pub use token::{EnrollTokenView, JoinProblem, JoinedNode, render_token};

/// How long a token can be good: the value in the form, and in the command line.
pub const VALID: [&str; 6] = ["15m", "1h", "24h", "7d", "30d", "90d"];

/// Everything that the page shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EnrollView {
    /// Public names of the tenants for which the asker may make a string.
    pub tenants: Vec<String>,
    /// What was typed last.
    pub entered: Entered,
    /// What is wrong with it.
    pub fault: Option<EnrollFault>,
    /// A string that was just made.
    pub made: Option<MadeString>,
    /// What the server hands out to install; `None` when it has no agents.
    pub installer: Option<InstallerFacts>,
    /// Every token, the newest first.
    pub tokens: Vec<TokenLine>,
}

/// The fields of the form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entered {
    /// Public name of the tenant.
    pub tenant: String,
    /// Public name of the provider; may be empty beside a lease.
    pub provider: String,
    /// Name of a lease, or nothing.
    pub lease: String,
    /// For how many nodes.
    pub nodes: String,
    /// One of [`VALID`].
    pub valid: String,
}

impl Default for Entered {
    fn default() -> Self {
        Self {
            tenant: "default".to_owned(),
            provider: "default".to_owned(),
            lease: String::new(),
            nodes: "1".to_owned(),
            valid: VALID[0].to_owned(),
        }
    }
}

/// What is wrong with the form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EnrollFault {
    /// The provider is no public name.
    Provider,
    /// The tenant has no such lease.
    Lease,
    /// The lease is of another provider.
    LeaseProvider,
    /// No number of nodes.
    Nodes,
    /// Not one of the times.
    Valid,
}

/// A join string that was just made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MadeString {
    /// The secret.
    pub text: String,
    /// The token's tenant.
    pub tenant: String,
    /// The token's number.
    pub number: i32,
    /// How many nodes it is for.
    pub node_ceiling: i64,
    /// Good until here.
    #[serde(serialize_with = "wire::at")]
    pub expires_at: Timestamp,
}

/// The script that installs an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InstallerFacts {
    /// Where nodes fetch it: `https://203.0.113.7:7443/install.sh`, without a quote in it.
    pub url: String,
    /// SHA-256 of it, 64 hex digits.
    pub sha256: String,
}

/// A token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokenLine {
    /// Its number within its tenant.
    pub number: i32,
    /// Public name of the tenant.
    pub tenant: String,
    /// Public name of the provider.
    pub provider: String,
    /// Name of the lease that GPUs of its nodes are assigned to.
    pub lease: Option<String>,
    /// How many nodes it is for.
    pub node_ceiling: i64,
    /// How many joined with it.
    pub joins: i64,
    /// Who made it.
    pub created_by: String,
    /// When.
    #[serde(serialize_with = "wire::at")]
    pub created_at: Timestamp,
    /// Good until here.
    #[serde(serialize_with = "wire::at")]
    pub expires_at: Timestamp,
    /// Whether a node can join with it.
    pub state: TokenState,
    /// Whether the asker may take it back.
    pub may_revoke: bool,
}

/// Whether a node can join with a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenState {
    /// Yes.
    Good,
    /// As many as it is for have joined.
    Used,
    /// Its time is over.
    Expired,
    /// It was taken back.
    Revoked,
}

impl EnrollView {
    /// A string that was just made, and a token in each state.
    #[must_use]
    pub fn sample() -> Self {
        let states = [TokenState::Good, TokenState::Used, TokenState::Expired, TokenState::Revoked];
        let now = super::sample::NOW;
        let line = |(number, state)| TokenLine {
            number,
            tenant: "default".to_owned(),
            provider: "acme".to_owned(),
            lease: (number == 4).then(|| "spring-h100".to_owned()),
            node_ceiling: if number == 4 { 50 } else { 1 },
            joins: i64::from(state == TokenState::Used),
            created_by: "ada".to_owned(),
            created_at: now.plus_ms(-3_600_000),
            expires_at: now.plus_ms(900_000),
            state,
            may_revoke: state == TokenState::Good,
        };
        Self {
            tenants: vec!["default".to_owned(), "research".to_owned()],
            entered: Entered::default(),
            fault: Some(EnrollFault::Nodes),
            made: Some(MadeString {
                text: format!("lwj1_{}", "AQgI".repeat(40)),
                tenant: "default".to_owned(),
                number: 4,
                node_ceiling: 50,
                expires_at: now.plus_ms(900_000),
            }),
            installer: Some(InstallerFacts {
                url: "https://203.0.113.7:7443/install.sh".to_owned(),
                sha256: "0123456789abcdef".repeat(4),
            }),
            tokens: (1..=4).rev().zip(states).map(line).collect(),
        }
    }
}

/// Renders the page with the form.
///
/// # Errors
/// [`askama::Error`] when a value cannot be formatted.
pub fn render(view: &EnrollView, context: &Context) -> Result<String, askama::Error> {
    Ok(super::inert(&Page { cx: context, view }.render()?))
}

#[derive(Template)]
#[template(path = "enroll.html", whitespace = "minimize")]
struct Page<'a> {
    cx: &'a Context,
    view: &'a EnrollView,
}

impl Page<'_> {
    fn title(&self) -> &'static str {
        self.cx.t(Text::EnrollTitle)
    }

    fn action(&self) -> &'static str {
        pattern::ENROLL
    }

    fn revoke(&self) -> &'static str {
        pattern::ENROLL_REVOKE
    }

    fn fault(&self, fault: EnrollFault) -> Option<&'static str> {
        let text = match fault {
            EnrollFault::Provider => Text::ImportInvalidSlug,
            EnrollFault::Lease => Text::EnrollLeaseWrong,
            EnrollFault::LeaseProvider => Text::EnrollLeaseProvider,
            EnrollFault::Nodes => Text::EnrollNodesWrong,
            EnrollFault::Valid => Text::ImportMissing,
        };
        (self.view.fault == Some(fault)).then(|| self.cx.t(text))
    }

    /// Ways to join, the first ones the most usual.
    fn ways(&self, made: &MadeString) -> Vec<Way> {
        command::ways(&made.text, self.view.installer.as_ref())
    }

    fn upgrade(&self) -> Option<Way> {
        self.view.installer.as_ref().map(command::upgrade)
    }

    fn made(&self, made: &MadeString) -> String {
        phrase::enroll_made(self.cx.language, made.node_ceiling, &made.tenant)
    }

    fn watch(&self, tenant: &str, number: impl std::borrow::Borrow<i32>) -> String {
        let token = *number.borrow();
        self.cx.here.to(Route::EnrollToken { tenant: tenant.to_owned(), token }).href()
    }

    fn joined(&self, token: &TokenLine) -> String {
        joined(token, self.cx.language)
    }

    fn state(&self, token: &TokenLine) -> &'static str {
        self.cx.t(words(token.state))
    }
}

fn joined(token: &TokenLine, language: Language) -> String {
    phrase::enroll_joined(language, token.node_ceiling, token.joins)
}

fn words(state: TokenState) -> Text {
    match state {
        TokenState::Good => Text::EnrollGood,
        TokenState::Used => Text::EnrollUsed,
        TokenState::Expired => Text::EnrollExpired,
        TokenState::Revoked => Text::EnrollRevoked,
    }
}
