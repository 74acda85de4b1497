//! What went wrong, and what to do about it.

use askama::Template;
use serde::Serialize;

use crate::context::{Context, SUGGESTED_ZONES};
use crate::i18n::{Language, Text};
use crate::path::Route;

/// A problem of a request. As JSON it is an RFC 9457 problem body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorView {
    /// The HTTP status.
    pub status: u16,
    /// What kind of problem.
    #[serde(rename = "type")]
    pub problem: Problem,
    /// The kind in English words, the same for each occurrence.
    pub title: &'static str,
    /// What exactly, such as the name of a parameter; never an internal message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Kinds of problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Problem {
    /// There is nothing at this address.
    #[serde(rename = "urn:leasewatch:not-found")]
    NotFound,
    /// Another site sent the request.
    #[serde(rename = "urn:leasewatch:foreign")]
    Foreign,
    /// Nobody knows who asks.
    #[serde(rename = "urn:leasewatch:sign-in")]
    SignIn,
    /// Whoever asks may not do this.
    #[serde(rename = "urn:leasewatch:forbidden")]
    Forbidden,
    /// A form holds more than it can.
    #[serde(rename = "urn:leasewatch:too-large")]
    TooLarge,
    /// A form did not arrive in time.
    #[serde(rename = "urn:leasewatch:too-slow")]
    TooSlow,
    /// An address that works once was used, is too old, or never was.
    #[serde(rename = "urn:leasewatch:link-over")]
    LinkOver,
    /// A parameter cannot be understood.
    #[serde(rename = "urn:leasewatch:bad-request")]
    BadRequest,
    /// The database does not answer.
    #[serde(rename = "urn:leasewatch:unavailable")]
    Unavailable,
    /// The server's machine has no font that can show a document.
    #[serde(rename = "urn:leasewatch:no-font")]
    NoFont,
    /// A fault of the server.
    #[serde(rename = "urn:leasewatch:internal")]
    Internal,
}

impl Problem {
    fn title(self) -> Text {
        match self {
            Self::NotFound => Text::ErrorNotFound,
            Self::Foreign => Text::ErrorForeign,
            Self::SignIn => Text::AccessNeedSignIn,
            Self::Forbidden => Text::AccessForbidden,
            Self::TooLarge => Text::AccessTooLarge,
            Self::TooSlow => Text::AccessTooSlow,
            Self::LinkOver => Text::AccessLinkOver,
            Self::BadRequest => Text::ErrorBadRequest,
            Self::Unavailable => Text::ErrorUnavailable,
            Self::NoFont => Text::ErrorNoFont,
            Self::Internal => Text::ErrorInternal,
        }
    }
}

impl ErrorView {
    /// The problem with its usual status.
    #[must_use]
    pub fn new(problem: Problem, detail: Option<String>) -> Self {
        let status = match problem {
            Problem::NotFound | Problem::LinkOver => 404,
            Problem::BadRequest => 400,
            Problem::SignIn => 401,
            Problem::Foreign | Problem::Forbidden => 403,
            Problem::TooLarge => 413,
            Problem::TooSlow => 408,
            Problem::Unavailable | Problem::NoFont => 503,
            Problem::Internal => 500,
        };
        Self { status, problem, title: problem.title().words(Language::En), detail }
    }

    /// An address that leads nowhere.
    #[must_use]
    pub fn sample() -> Self {
        Self::new(Problem::NotFound, None)
    }
}

/// Renders the page.
///
/// # Errors
/// [`askama::Error`] when a value cannot be formatted.
pub fn render(view: &ErrorView, context: &Context) -> Result<String, askama::Error> {
    Ok(super::inert(&Page { cx: context, view }.render()?))
}

#[derive(Template)]
#[template(path = "error.html", whitespace = "minimize")]
struct Page<'a> {
    cx: &'a Context,
    view: &'a ErrorView,
}

impl Page<'_> {
    fn title(&self) -> &'static str {
        self.cx.t(self.view.problem.title())
    }

    fn advice(&self) -> &'static str {
        self.cx.t(match self.view.problem {
            Problem::NotFound => Text::ErrorNotFoundAdvice,
            Problem::Foreign => Text::ErrorForeignAdvice,
            Problem::SignIn => Text::AccessNeedSignInAdvice,
            Problem::Forbidden => Text::AccessForbiddenAdvice,
            Problem::TooLarge => Text::AccessTooLargeAdvice,
            Problem::TooSlow => Text::AccessTooSlowAdvice,
            Problem::LinkOver => Text::AccessLinkOverAdvice,
            Problem::BadRequest => Text::ErrorBadRequestAdvice,
            Problem::Unavailable => Text::ErrorUnavailableAdvice,
            Problem::NoFont => Text::ErrorNoFontAdvice,
            Problem::Internal => Text::ErrorInternalAdvice,
        })
    }
}
