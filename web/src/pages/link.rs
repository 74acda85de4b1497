//! What an address that works once asks for: a name and a password, or a click.

use askama::Template;
use serde::Serialize;

use crate::account::{Reach, Role};
use crate::context::{Context, SUGGESTED_ZONES};
use crate::form::{self, Field, FieldFault, Input, Matter};
use crate::i18n::{Language, Text, phrase};
use crate::markup::Markup;
use crate::path::Route;

/// What a link is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkPurpose {
    /// Makes the first operator.
    Setup,
    /// Makes a user.
    Invite {
        /// What the user may then do.
        reach: Vec<Reach>,
    },
    /// Gives this user another password.
    Reset {
        /// The user's name.
        name: String,
    },
    /// Signs this browser in as this user.
    SignIn {
        /// The user's name.
        name: String,
    },
}

/// Everything that the page shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LinkView {
    /// What the link is for.
    pub purpose: LinkPurpose,
    /// The name that was typed, where one is asked for.
    pub name: String,
    /// What is wrong with what was sent.
    pub faults: Vec<FieldFault>,
}

impl LinkView {
    /// An invitation that was filled in with three mistakes.
    #[must_use]
    pub fn sample() -> Self {
        let fault = |field, matter| FieldFault { field, matter };
        let reach = Reach::Tenant { slug: "research".to_owned(), role: Role::Viewer };
        Self {
            purpose: LinkPurpose::Invite { reach: vec![reach] },
            name: "Li Lei".to_owned(),
            faults: vec![
                fault(Field::Name, Matter::Invalid),
                fault(Field::Password, Matter::Short),
                fault(Field::Again, Matter::Different),
            ],
        }
    }

    /// The page of a purpose, before anything was sent.
    #[must_use]
    pub fn first(purpose: LinkPurpose) -> Self {
        Self { purpose, name: String::new(), faults: Vec::new() }
    }
}

/// Renders the page.
///
/// # Errors
/// [`askama::Error`] when a value cannot be formatted.
pub fn render(view: &LinkView, context: &Context) -> Result<String, askama::Error> {
    Ok(super::inert(&Page { cx: context, view }.render()?))
}

#[derive(Template)]
#[template(path = "link.html", whitespace = "minimize")]
struct Page<'a> {
    cx: &'a Context,
    view: &'a LinkView,
}

impl Page<'_> {
    fn title(&self) -> String {
        let language = self.cx.language;
        match &self.view.purpose {
            LinkPurpose::Setup => self.cx.t(Text::AccessSetupTitle).to_owned(),
            LinkPurpose::Invite { .. } => self.cx.t(Text::AccessInviteTitle).to_owned(),
            LinkPurpose::Reset { name } => phrase::access_reset_title(language, name),
            LinkPurpose::SignIn { name } => phrase::access_enter_title(language, name),
        }
    }

    fn lead(&self) -> &'static str {
        self.cx.t(match self.view.purpose {
            LinkPurpose::Setup => Text::AccessSetupText,
            LinkPurpose::Invite { .. } => Text::AccessInviteText,
            LinkPurpose::Reset { .. } => Text::AccessResetText,
            LinkPurpose::SignIn { .. } => Text::AccessEnterText,
        })
    }

    fn button(&self) -> &'static str {
        self.cx.t(match self.view.purpose {
            LinkPurpose::Setup | LinkPurpose::Invite { .. } => Text::AccessCreate,
            LinkPurpose::Reset { .. } => Text::AccessSetPassword,
            LinkPurpose::SignIn { .. } => Text::AccessSignIn,
        })
    }

    fn reach(&self) -> Vec<String> {
        match &self.view.purpose {
            LinkPurpose::Invite { reach } => {
                reach.iter().map(|reach| reach.words(self.cx.language)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn faults(&self) -> Markup {
        form::summary(&self.view.faults, self.cx)
    }

    fn asks_name(&self) -> bool {
        matches!(self.view.purpose, LinkPurpose::Setup | LinkPurpose::Invite { .. })
    }

    fn asks_password(&self) -> bool {
        !matches!(self.view.purpose, LinkPurpose::SignIn { .. })
    }

    fn input(&self, field: Field) -> Markup {
        let (value, autocomplete, hint) = match field {
            Field::Name => (self.view.name.as_str(), "username", Some(Text::AccessNameHint)),
            Field::Password => ("", "new-password", Some(Text::AccessPasswordHint)),
            _ => ("", "new-password", None),
        };
        Input { field, value, autocomplete, hint, label: None }.markup(&self.view.faults, self.cx)
    }
}
