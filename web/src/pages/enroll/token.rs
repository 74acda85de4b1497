//! One join token: whether it can be used, who joined with it, and what their agents found.

use askama::Template;
use leasewatch_core::time::Timestamp;
use serde::Serialize;

use super::{EnrollView, TokenLine, TokenState, joined, words};
use crate::context::{Context, SUGGESTED_ZONES};
use crate::format::Quantity;
use crate::i18n::{Language, Text, phrase};
use crate::live;
use crate::pages::{NodeName, NodeStatus};
use crate::path::Route;
use crate::wire;

/// One token and who joined with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EnrollTokenView {
    /// The token.
    pub token: TokenLine,
    /// Who joined, the first first.
    pub joined: Vec<JoinedNode>,
}

/// A node that joined, and what its agent found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JoinedNode {
    /// Which.
    pub name: NodeName,
    /// Where it stands.
    pub status: NodeStatus,
    /// When it joined.
    #[serde(serialize_with = "wire::at")]
    pub joined_at: Timestamp,
    /// Its key took over a node that was there before.
    pub has_replaced: bool,
    /// Product names of its GPUs and how many there are of each.
    pub gpus: Vec<(String, i64)>,
    /// Version of the GPU driver, as the node says it.
    pub driver_version: Option<String>,
    /// What is not as it should be.
    pub problems: Vec<JoinProblem>,
}

/// Something that keeps the record of a new node from being whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "problem", rename_all = "snake_case")]
pub enum JoinProblem {
    /// The driver's library is missing or does not answer.
    NoDriver,
    /// The driver lists no GPU.
    NoGpu,
    /// GPUs that fell off the bus.
    Lost {
        /// How many.
        gpus: i64,
    },
    /// GPUs whose calls into the driver hang.
    Stalled {
        /// How many.
        gpus: i64,
    },
    /// The node's clock is off.
    Clock {
        /// Node minus server, in milliseconds.
        offset_ms: i64,
    },
}

impl EnrollTokenView {
    /// A node that joined with a fleet token, and one that took over another and is not well.
    #[must_use]
    pub fn sample() -> Self {
        let token = EnrollView::sample().tokens.swap_remove(0);
        let overview = crate::pages::overview::OverviewView::sample();
        let providers = overview.tenants.into_iter().flat_map(|tenant| tenant.providers);
        let nodes = providers.flat_map(|provider| provider.nodes).take(2);
        let joined = nodes.enumerate().map(|(index, node)| JoinedNode {
            name: node.name,
            status: node.status,
            joined_at: token.created_at,
            has_replaced: index == 1,
            gpus: if index == 0 { vec![("NVIDIA H100 80GB HBM3".to_owned(), 8)] } else { vec![] },
            driver_version: (index == 0).then(|| "570.124.06".to_owned()),
            problems: match index {
                0 => vec![],
                _ => vec![JoinProblem::NoDriver, JoinProblem::Clock { offset_ms: -7_240 }],
            },
        });
        let joined = joined.collect();
        Self { token, joined }
    }

    /// Nobody has come yet.
    #[must_use]
    pub fn waiting_sample() -> Self {
        Self { joined: Vec::new(), ..Self::sample() }
    }
}

/// Renders the page of one token.
///
/// # Errors
/// [`askama::Error`] when a value cannot be formatted.
pub fn render_token(view: &EnrollTokenView, context: &Context) -> Result<String, askama::Error> {
    Ok(crate::pages::inert(&TokenPage { cx: context, view }.render()?))
}

#[derive(Template)]
#[template(path = "enroll_token.html", whitespace = "minimize")]
struct TokenPage<'a> {
    cx: &'a Context,
    view: &'a EnrollTokenView,
}

impl TokenPage<'_> {
    fn title(&self) -> String {
        phrase::enroll_token_title(
            self.cx.language,
            self.view.token.number,
            &self.view.token.tenant,
        )
    }

    fn form(&self) -> String {
        self.cx.here.to(Route::Enroll).href()
    }

    fn state(&self) -> &'static str {
        self.cx.t(words(self.view.token.state))
    }

    /// Where the page hears that something has changed; nowhere while it stands still.
    fn stream(&self) -> Option<String> {
        let is_moving = !self.cx.here.state.paused;
        is_moving.then(|| format!("{}/live.sse", self.cx.here.path()))
    }

    fn joined(&self) -> String {
        joined(&self.view.token, self.cx.language)
    }

    fn standing(&self, node: &JoinedNode) -> String {
        live::standing_text(node.status.standing, self.cx.language)
    }

    fn gpus(&self, node: &JoinedNode) -> String {
        if node.gpus.is_empty() {
            return self.cx.t(Text::EnrollNoGpusYet).to_owned();
        }
        let words: Vec<String> =
            node.gpus.iter().map(|(name, count)| format!("{count} × {name}")).collect();
        words.join(self.cx.t(Text::ListSeparator))
    }

    fn problem(&self, problem: &JoinProblem) -> String {
        problem.words(self.cx.language)
    }
}

impl JoinProblem {
    fn words(self, language: Language) -> String {
        match self {
            Self::NoDriver => Text::EnrollNoDriver.words(language).to_owned(),
            Self::NoGpu => Text::EnrollNoGpu.words(language).to_owned(),
            Self::Lost { gpus } => phrase::enroll_lost(language, gpus),
            Self::Stalled { gpus } => phrase::enroll_stalled(language, gpus),
            Self::Clock { offset_ms } => {
                phrase::enroll_clock(language, Quantity::duration_ms(offset_ms).text(language))
            }
        }
    }
}
