//! Who looks at a page, and what people may do.

use leasewatch_core::id::Slug;
use serde::Serialize;

use crate::i18n::{Language, Text, phrase};

/// Who looks at a page.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Account {
    /// Somebody who did not sign in: a page without ways to others.
    #[default]
    Nobody,
    /// Everybody, because there are no users yet.
    NoUsers,
    /// A user.
    User {
        /// The name that was typed.
        name: String,
        /// May change something in a tenant.
        may_change: bool,
        /// May change everything, users too.
        is_operator: bool,
    },
}

impl Account {
    /// True when there is something to see.
    pub(crate) fn may_see(&self) -> bool {
        *self != Self::Nobody
    }

    /// True when there is something to change.
    pub(crate) fn may_change(&self) -> bool {
        matches!(self, Self::NoUsers | Self::User { may_change: true, .. })
    }

    /// True while there are no users.
    pub(crate) fn lacks_users(&self) -> bool {
        *self == Self::NoUsers
    }

    /// True for a user who changes users.
    pub(crate) fn is_operator(&self) -> bool {
        matches!(self, Self::User { is_operator: true, .. })
    }

    /// The user's name.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::User { name, .. } => Some(name),
            Self::Nobody | Self::NoUsers => None,
        }
    }
}

/// What somebody may do within a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// See.
    Viewer,
    /// See and change.
    Admin,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 2] = [Self::Viewer, Self::Admin];

    /// Its name in forms.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Admin => "admin",
        }
    }

    /// What it is called.
    pub(crate) fn words(self) -> Text {
        match self {
            Self::Viewer => Text::AccessViewer,
            Self::Admin => Text::AccessAdmin,
        }
    }
}

/// How far somebody, a link or a token reaches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// Every tenant, and the server itself.
    Operator,
    /// One tenant.
    Tenant {
        /// Its public name.
        slug: String,
        /// What may be done there.
        role: Role,
    },
}

impl Reach {
    /// Its value in forms: `operator`, or `default:viewer`.
    #[must_use]
    pub fn value(&self) -> String {
        match self {
            Self::Operator => "operator".to_owned(),
            Self::Tenant { slug, role } => format!("{slug}:{}", role.name()),
        }
    }

    /// The reach of a form's value.
    #[must_use]
    pub fn from_value(text: &str) -> Option<Self> {
        if text == "operator" {
            return Some(Self::Operator);
        }
        let (slug, role) = text.split_once(':')?;
        let slug = Slug::new(slug).ok()?.to_string();
        let role = Role::ALL.into_iter().find(|known| known.name() == role)?;
        Some(Self::Tenant { slug, role })
    }

    /// What it is called.
    pub(crate) fn words(&self, language: Language) -> String {
        match self {
            Self::Operator => Text::AccessOperator.words(language).to_owned(),
            Self::Tenant { slug, role } => {
                phrase::access_in_tenant(language, role.words().words(language), slug)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reach_is_read_as_it_was_written_and_nothing_else_is_one() {
        let tenant = |role| Reach::Tenant { slug: "default".to_owned(), role };
        for reach in [Reach::Operator, tenant(Role::Viewer), tenant(Role::Admin)] {
            assert_eq!(Reach::from_value(&reach.value()), Some(reach));
        }
        for wrong in ["", "Operator", "default", "default:operator", "De Fault:admin", ":viewer"] {
            assert_eq!(Reach::from_value(wrong), None, "{wrong}");
        }
    }
}
