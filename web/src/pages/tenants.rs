//! Tenants: which there are, making and naming them, taking everything of one out, and removing one.

use askama::Template;
use serde::Serialize;

use crate::context::{Context, SUGGESTED_ZONES};
use crate::form::{self, Field, FieldFault, Input, Matter};
use crate::i18n::{Language, Text, phrase};
use crate::markup::Markup;
use crate::path::{Route, pattern};

/// Everything that the page shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TenantsView {
    /// Those that the visitor may change, by public name.
    pub tenants: Vec<TenantLine>,
    /// The visitor makes and removes tenants.
    pub may_make: bool,
    /// Removals that run, and the last that ended.
    pub removals: Vec<Removal>,
    /// Something was done.
    pub is_done: bool,
    /// What was typed for a new one.
    pub slug: String,
    /// See `slug`.
    pub name: String,
    /// What is wrong with what was sent.
    pub faults: Vec<FieldFault>,
}

/// A tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TenantLine {
    /// The public name.
    pub slug: String,
    /// What people see.
    pub name: String,
    /// How many nodes it has.
    pub nodes: i64,
    /// How many users have a role there.
    pub users: i64,
}

/// A tenant that is being removed, or was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Removal {
    /// Its public name.
    pub slug: String,
    /// How far it is.
    pub state: RemovalState,
}

/// How far a removal is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RemovalState {
    /// So many tables of so many are empty.
    Running {
        /// Empty.
        done: i64,
        /// In all.
        total: i64,
    },
    /// It is gone, with so many rows.
    Removed {
        /// Rows.
        rows: i64,
    },
    /// Nodes are connected, so nothing was removed.
    Connected,
    /// The database refused, so nothing was removed.
    Failed,
}

impl TenantsView {
    /// Two tenants, a removal that runs, and a mistake.
    #[must_use]
    pub fn sample() -> Self {
        let tenant = |slug: &str, name: &str, nodes, users| TenantLine {
            slug: slug.to_owned(),
            name: name.to_owned(),
            nodes,
            users,
        };
        let state = RemovalState::Running { done: 7, total: 29 };
        Self {
            tenants: vec![
                tenant("default", "Default", 0, 1),
                tenant("research", "研究组 Research", 12, 4),
            ],
            may_make: true,
            removals: vec![Removal { slug: "old-team".to_owned(), state }],
            is_done: false,
            slug: "Team A".to_owned(),
            name: "Team A".to_owned(),
            faults: vec![FieldFault { field: Field::Slug, matter: Matter::Invalid }],
        }
    }
}

/// Renders the page.
///
/// # Errors
/// [`askama::Error`] when a value cannot be formatted.
pub fn render(view: &TenantsView, context: &Context) -> Result<String, askama::Error> {
    Ok(super::inert(&Page { cx: context, view }.render()?))
}

#[derive(Template)]
#[template(path = "tenants.html", whitespace = "minimize")]
struct Page<'a> {
    cx: &'a Context,
    view: &'a TenantsView,
}

impl Page<'_> {
    fn title(&self) -> &'static str {
        self.cx.t(Text::TenantsTitle)
    }

    fn action(&self, what: &str) -> &'static str {
        match what {
            "rename" => pattern::TENANT_RENAME,
            "remove" => pattern::TENANT_REMOVE,
            _ => pattern::TENANTS,
        }
    }

    fn export(&self, tenant: &TenantLine) -> String {
        pattern::TENANT_EXPORT.replace("{tenant}", &tenant.slug)
    }

    fn faults(&self) -> Markup {
        form::summary(&self.view.faults, self.cx)
    }

    fn input(&self, field: Field) -> Markup {
        let (value, hint) = match field {
            Field::Slug => (self.view.slug.as_str(), Some(Text::TenantsSlugHint)),
            _ => (self.view.name.as_str(), None),
        };
        let label = (field == Field::Name).then_some(Text::TenantsName);
        Input { field, value, autocomplete: "off", hint, label }.markup(&self.view.faults, self.cx)
    }

    fn removal(&self, removal: &Removal) -> String {
        let (language, slug) = (self.cx.language, removal.slug.as_str());
        match removal.state {
            RemovalState::Running { done, total } => {
                phrase::tenants_removing(language, done, slug, total)
            }
            RemovalState::Removed { rows } => phrase::tenants_removed(language, rows, slug),
            RemovalState::Connected => phrase::tenants_connected(language, slug),
            RemovalState::Failed => phrase::tenants_failed(language, slug),
        }
    }

    fn counts(&self, tenant: &TenantLine) -> String {
        phrase::tenants_counts(self.cx.language, tenant.nodes, tenant.users)
    }

    fn name_of(&self, tenant: &TenantLine) -> String {
        phrase::tenants_name_of(self.cx.language, &tenant.slug)
    }

    fn confirm(&self, tenant: &TenantLine) -> String {
        phrase::tenants_confirm(self.cx.language, &tenant.slug)
    }
}
