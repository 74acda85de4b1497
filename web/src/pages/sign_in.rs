//! Where somebody says who they are.

use askama::Template;
use serde::Serialize;

use crate::context::{Context, SUGGESTED_ZONES};
use crate::form::{Field, Input};
use crate::i18n::{Language, Text};
use crate::markup::Markup;
use crate::path::{Route, pattern};

/// Everything that the page shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct SignInView {
    /// The name that was typed.
    pub name: String,
    /// Where to afterwards: a path of this server, with its query.
    pub next: String,
    /// It was tried and refused. Why, nobody is told: a wrong name, a wrong password and too many
    /// attempts read the same.
    pub is_refused: bool,
}

impl SignInView {
    /// A try that failed.
    #[must_use]
    pub fn sample() -> Self {
        Self { name: "ada".to_owned(), next: "/?lang=en".to_owned(), is_refused: true }
    }
}

/// Renders the page.
///
/// # Errors
/// [`askama::Error`] when a value cannot be formatted.
pub fn render(view: &SignInView, context: &Context) -> Result<String, askama::Error> {
    Ok(super::inert(&Page { cx: context, view }.render()?))
}

#[derive(Template)]
#[template(path = "sign_in.html", whitespace = "minimize")]
struct Page<'a> {
    cx: &'a Context,
    view: &'a SignInView,
}

impl Page<'_> {
    fn title(&self) -> &'static str {
        self.cx.t(Text::AccessSignIn)
    }

    fn action(&self) -> &'static str {
        pattern::SIGN_IN
    }

    fn input(&self, field: Field) -> Markup {
        let (value, autocomplete) = match field {
            Field::Name => (self.view.name.as_str(), "username"),
            _ => ("", "current-password"),
        };
        Input { field, value, autocomplete, hint: None, label: None }.markup(&[], self.cx)
    }
}
