//! What went wrong with a request, as a page or as a problem body (RFC 9457).

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use leasewatch_report::pdf::PdfError;
use leasewatch_web::context::Context;
use leasewatch_web::pages::error::{self as error_page, ErrorView, Problem};

use super::visit::Visit;
use crate::enrollment::IssueError;
use crate::password::HashFailed;
use crate::secret::NoRandom;
use crate::store::StoreError;

/// Why a request is not answered as asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// Absent, or not the visitor's: the same answer.
    #[error("nothing is here")]
    NotFound,
    /// Nobody knows who asks.
    #[error("who asks is not known")]
    SignIn,
    /// Whoever asks may not.
    #[error("whoever asks may not do this")]
    Forbidden,
    /// A form is larger than a form can be.
    #[error("the form is too large")]
    TooLarge,
    /// A form did not arrive in time.
    #[error("the form did not arrive in time")]
    TooSlow,
    /// An address that works once does not work, or no longer.
    #[error("the link does not work")]
    LinkOver,
    /// A password could not be hashed.
    #[error(transparent)]
    Password(#[from] HashFailed),
    /// No secret could be made.
    #[error(transparent)]
    Secret(#[from] NoRandom),
    /// No join string could be made.
    #[error(transparent)]
    Issue(#[from] IssueError),
    /// Another site sent it.
    #[error("the request came from another site")]
    Foreign,
    /// A parameter, by name.
    #[error("the parameter {0} cannot be understood")]
    BadRequest(String),
    /// The disk.
    #[error("a file cannot be kept: {0}")]
    Disk(#[from] std::io::Error),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A document could not be made.
    #[error(transparent)]
    Report(#[from] PdfError),
    /// A template.
    #[error(transparent)]
    Render(#[from] leasewatch_web::RenderError),
}

impl Fault {
    fn view(&self) -> ErrorView {
        match self {
            Self::NotFound => ErrorView::new(Problem::NotFound, None),
            Self::SignIn => ErrorView::new(Problem::SignIn, None),
            Self::Forbidden => ErrorView::new(Problem::Forbidden, None),
            Self::TooLarge => ErrorView::new(Problem::TooLarge, None),
            Self::TooSlow => ErrorView::new(Problem::TooSlow, None),
            Self::LinkOver => ErrorView::new(Problem::LinkOver, None),
            Self::Foreign => ErrorView::new(Problem::Foreign, None),
            Self::BadRequest(name) => ErrorView::new(Problem::BadRequest, Some(name.clone())),
            Self::Store(StoreError::Unavailable(_)) => ErrorView::new(Problem::Unavailable, None),
            Self::Report(PdfError::NoFont(_)) => ErrorView::new(Problem::NoFont, None),
            Self::Disk(_)
            | Self::Store(_)
            | Self::Report(_)
            | Self::Render(_)
            | Self::Password(_)
            | Self::Issue(_)
            | Self::Secret(_) => ErrorView::new(Problem::Internal, None),
        }
    }

    fn log(&self) {
        let is_ours = matches!(
            self,
            Self::Disk(_)
                | Self::Store(_)
                | Self::Report(_)
                | Self::Render(_)
                | Self::Password(_)
                | Self::Issue(_)
                | Self::Secret(_)
        );
        if is_ours {
            tracing::error!(error = %self, "a request failed");
        }
    }

    /// The answer for people.
    pub(super) fn page(&self, context: &Context) -> Response {
        self.log();
        let view = self.view();
        let status = status(&view);
        match error_page::render(&view, context) {
            Ok(html) => (status, Html(html)).into_response(),
            Err(_) => {
                (status, "the server failed, and so did the page that says so\n").into_response()
            }
        }
    }

    /// The answer for programs.
    pub(super) fn problem(&self) -> Response {
        self.log();
        let view = self.view();
        let headers = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut answer = (status(&view), headers, Json(view)).into_response();
        if let Self::SignIn = self {
            let how = header::HeaderValue::from_static("Bearer");
            answer.headers_mut().insert(header::WWW_AUTHENTICATE, how);
        }
        answer
    }
}

fn status(view: &ErrorView) -> StatusCode {
    StatusCode::from_u16(view.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

pub(super) async fn nothing_here(visit: Visit) -> Response {
    Fault::NotFound.page(&visit.context)
}
