//! Who there is, and what each may do; invitations.

use askama::Template;
use leasewatch_core::time::Timestamp;
use serde::Serialize;

use crate::account::{Reach, Role};
use crate::context::{Context, SUGGESTED_ZONES};
use crate::form::{self, Field, FieldFault, Matter};
use crate::i18n::{Language, Text, phrase};
use crate::markup::Markup;
use crate::path::{Route, pattern};
use crate::wire;

/// Everything that the page shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UsersView {
    /// By name.
    pub users: Vec<UserLine>,
    /// Public names of the tenants.
    pub tenants: Vec<String>,
    /// A link that was just made; it is shown this once.
    pub made: Option<MadeLink>,
    /// Something was done.
    pub is_done: bool,
    /// What is wrong with what was sent.
    pub faults: Vec<FieldFault>,
}

/// A user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UserLine {
    /// The name, which forms use too.
    pub name: String,
    /// What the user may do.
    pub reach: Vec<Reach>,
    /// When it was made.
    #[serde(serialize_with = "wire::at")]
    pub created_at: Timestamp,
    /// Nothing of it is good.
    pub is_disabled: bool,
    /// It is the one who looks.
    pub is_self: bool,
}

/// A link that was just made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MadeLink {
    /// The address as the browser knows this server, or the path alone.
    pub address: String,
    /// Whose password it resets; `None` for an invitation.
    pub reset: Option<String>,
    /// It is of no use from here on.
    #[serde(serialize_with = "wire::at")]
    pub expires_at: Timestamp,
}

impl UsersView {
    /// Three users, an invitation that was just made, and a mistake.
    #[must_use]
    pub fn sample() -> Self {
        let now = super::sample::NOW;
        let user = |name: &str, reach, is_disabled| UserLine {
            name: name.to_owned(),
            reach,
            created_at: now.plus_ms(-86_400_000),
            is_disabled,
            is_self: name == "ada",
        };
        let tenant = |slug: &str, role| Reach::Tenant { slug: slug.to_owned(), role };
        let research = tenant("research", Role::Admin);
        Self {
            users: vec![
                user("ada", vec![Reach::Operator], false),
                user("li.lei", vec![tenant("default", Role::Viewer), research], false),
                user("old@example.org", Vec::new(), true),
            ],
            tenants: vec!["default".to_owned(), "research".to_owned()],
            made: Some(MadeLink {
                address: format!("https://gpus.example/link/{}", "0123456789abcdef".repeat(4)),
                reset: None,
                expires_at: now.plus_ms(604_800_000),
            }),
            is_done: false,
            faults: vec![FieldFault { field: Field::User, matter: Matter::LastOperator }],
        }
    }
}

/// Renders the page.
///
/// # Errors
/// [`askama::Error`] when a value cannot be formatted.
pub fn render(view: &UsersView, context: &Context) -> Result<String, askama::Error> {
    Ok(super::inert(&Page { cx: context, view }.render()?))
}

#[derive(Template)]
#[template(path = "users.html", whitespace = "minimize")]
struct Page<'a> {
    cx: &'a Context,
    view: &'a UsersView,
}

impl Page<'_> {
    fn title(&self) -> &'static str {
        self.cx.t(Text::AccessUsers)
    }

    fn change(&self) -> &'static str {
        pattern::USERS
    }

    fn invite(&self) -> &'static str {
        pattern::USERS_INVITE
    }

    fn faults(&self) -> Markup {
        form::summary(&self.view.faults, self.cx)
    }

    fn reach(&self, user: &UserLine) -> String {
        if user.reach.is_empty() {
            return self.cx.t(Text::AccessNoReach).to_owned();
        }
        let words: Vec<_> = user.reach.iter().map(|reach| reach.words(self.cx.language)).collect();
        words.join(self.cx.t(Text::ListSeparator))
    }

    /// Values and words of what an invitation can give.
    fn choices(&self) -> Vec<(String, String)> {
        let tenants = self.view.tenants.iter().flat_map(|slug| {
            Role::ALL.into_iter().map(|role| Reach::Tenant { slug: slug.clone(), role })
        });
        let all = tenants.chain([Reach::Operator]);
        all.map(|reach| (reach.value(), reach.words(self.cx.language))).collect()
    }

    /// Values and words of what a user's role can be changed to; the present one is chosen.
    fn changes(&self, user: &UserLine) -> Vec<(String, String, bool)> {
        let none = |slug: &String| {
            let nothing = self.cx.t(Text::AccessNoRole);
            let words = phrase::access_in_tenant(self.cx.language, nothing, slug);
            (format!("{slug}:none"), words)
        };
        let mut all = self.choices();
        all.extend(self.view.tenants.iter().map(none));
        all.push(("no_operator".to_owned(), self.cx.t(Text::AccessNoOperator).to_owned()));
        let now = user.reach.first().map(Reach::value);
        let chosen = |(value, words)| {
            let is_now = now.as_ref() == Some(&value);
            (value, words, is_now)
        };
        all.into_iter().map(chosen).collect()
    }

    fn made(&self, link: &MadeLink) -> String {
        let language = self.cx.language;
        match &link.reset {
            None => self.cx.t(Text::AccessMadeInvite).to_owned(),
            Some(name) => phrase::access_made_reset(language, name),
        }
    }

    fn role_of(&self, user: &UserLine) -> String {
        phrase::access_role_of(self.cx.language, &user.name)
    }
}
