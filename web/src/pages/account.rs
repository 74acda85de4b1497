//! A user's own page: password, language, signed-in browsers, tokens.

use askama::Template;
use leasewatch_core::time::Timestamp;
use serde::Serialize;

use crate::account::{Reach, Role};
use crate::context::{Context, SUGGESTED_ZONES};
use crate::form::{self, Field, FieldFault, Input, Matter};
use crate::format::Quantity;
use crate::i18n::{Language, Text, phrase};
use crate::markup::Markup;
use crate::path::{Route, pattern};
use crate::wire;

/// How long a token can be good for, in days.
pub const TOKEN_DAYS: [u16; 4] = [1, 30, 90, 365];

/// Everything that the page shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AccountView {
    /// The user's name.
    pub name: String,
    /// What the user may do.
    pub reach: Vec<Reach>,
    /// False when only a link signs in.
    pub has_password: bool,
    /// The language that was chosen; `None` for what the browser asks for.
    pub language: Option<Language>,
    /// Signed-in browsers, the one used last first.
    pub sessions: Vec<SessionLine>,
    /// Tokens that are good, latest first.
    pub tokens: Vec<TokenLine>,
    /// How far a new token can reach.
    pub token_reach: Vec<Reach>,
    /// A token that was just made; it is shown this once.
    pub made_token: Option<String>,
    /// Something was done.
    pub is_done: bool,
    /// What is wrong with what was sent.
    pub faults: Vec<FieldFault>,
    /// What a token is for, as it was typed.
    pub what: String,
}

/// A signed-in browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionLine {
    /// What the form names it by.
    pub id: i32,
    /// When it signed in.
    #[serde(serialize_with = "wire::at")]
    pub created_at: Timestamp,
    /// When it was used last, to the minute.
    #[serde(serialize_with = "wire::at")]
    pub seen_at: Timestamp,
    /// Where it signed in.
    pub address: Option<String>,
    /// How the browser called itself.
    pub browser: Option<String>,
    /// It is the one that looks.
    pub is_this: bool,
}

/// A token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokenLine {
    /// What the form names it by.
    pub id: i32,
    /// What it is for.
    pub what: String,
    /// What it asks for.
    pub reach: Vec<Reach>,
    /// It is of no use from here on.
    #[serde(serialize_with = "wire::at")]
    pub expires_at: Timestamp,
    /// When it was used last, to the minute; `None` before.
    #[serde(serialize_with = "wire::maybe_at")]
    pub used_at: Option<Timestamp>,
}

impl AccountView {
    /// An admin of one tenant, with two browsers, a token that was just made, and a mistake.
    #[must_use]
    pub fn sample() -> Self {
        let now = super::sample::NOW;
        let tenant = |role| Reach::Tenant { slug: "research".to_owned(), role };
        let session = |id, ms_ago: i64, address: &str, browser: Option<&str>| SessionLine {
            id,
            created_at: now.plus_ms(-ms_ago),
            seen_at: now.plus_ms(-ms_ago / 100),
            address: Some(address.to_owned()),
            browser: browser.map(str::to_owned),
            is_this: id == 2,
        };
        Self {
            name: "ada".to_owned(),
            reach: vec![tenant(Role::Admin)],
            has_password: true,
            language: Some(Language::En),
            sessions: vec![
                session(2, 3_600_000, "127.0.0.1", Some("Mozilla/5.0 (X11; Linux x86_64)")),
                session(1, 86_400_000, "2001:db8::7", None),
            ],
            tokens: vec![TokenLine {
                id: 4,
                what: "nightly export".to_owned(),
                reach: vec![tenant(Role::Viewer)],
                expires_at: now.plus_ms(2_592_000_000),
                used_at: None,
            }],
            token_reach: vec![tenant(Role::Viewer), tenant(Role::Admin)],
            made_token: Some("0123456789abcdef".repeat(4)),
            is_done: false,
            faults: vec![FieldFault { field: Field::Current, matter: Matter::NotCurrent }],
            what: "nightly export".to_owned(),
        }
    }

    /// An operator without a password, as a sign-in link leaves one.
    #[must_use]
    pub fn first_sample() -> Self {
        Self {
            reach: vec![Reach::Operator],
            has_password: false,
            language: None,
            sessions: Vec::new(),
            tokens: Vec::new(),
            token_reach: vec![Reach::Operator],
            made_token: None,
            is_done: true,
            faults: Vec::new(),
            what: String::new(),
            ..Self::sample()
        }
    }
}

/// Renders the page.
///
/// # Errors
/// [`askama::Error`] when a value cannot be formatted.
pub fn render(view: &AccountView, context: &Context) -> Result<String, askama::Error> {
    Ok(super::inert(&Page { cx: context, view }.render()?))
}

#[derive(Template)]
#[template(path = "account.html", whitespace = "minimize")]
struct Page<'a> {
    cx: &'a Context,
    view: &'a AccountView,
}

impl Page<'_> {
    fn title(&self) -> String {
        phrase::access_account_title(self.cx.language, &self.view.name)
    }

    fn action(&self, of: &str) -> &'static str {
        match of {
            "password" => pattern::ACCOUNT_PASSWORD,
            "language" => pattern::ACCOUNT_LANGUAGE,
            "session" => pattern::ACCOUNT_SESSION,
            "revoke" => pattern::ACCOUNT_TOKEN_REVOKE,
            _ => pattern::ACCOUNT_TOKEN,
        }
    }

    fn faults(&self) -> Markup {
        form::summary(&self.view.faults, self.cx)
    }

    fn words(&self, reach: &[Reach]) -> String {
        let words: Vec<_> = reach.iter().map(|reach| reach.words(self.cx.language)).collect();
        words.join(self.cx.t(Text::ListSeparator))
    }

    fn one(&self, reach: &Reach) -> String {
        reach.words(self.cx.language)
    }

    fn days(&self) -> Vec<(u16, String)> {
        let words = |days: u16| {
            let days = Quantity::count(days.into()).text(self.cx.language);
            phrase::access_days_long(self.cx.language, days)
        };
        TOKEN_DAYS.into_iter().map(|days| (days, words(days))).collect()
    }

    fn is_language(&self, language: &Language) -> bool {
        self.view.language == Some(*language)
    }

    fn input(&self, field: Field) -> Markup {
        let (value, autocomplete, hint) = match field {
            Field::What => (self.view.what.as_str(), "off", None),
            Field::Current => ("", "current-password", None),
            Field::Password => ("", "new-password", Some(Text::AccessPasswordHint)),
            _ => ("", "new-password", None),
        };
        let label = (field == Field::Password).then_some(Text::AccessReset);
        Input { field, value, autocomplete, hint, label }.markup(&self.view.faults, self.cx)
    }
}
