//! Fields that people fill in to say who they are, with what is wrong beside each.

use std::fmt::Display;

use serde::Serialize;

use crate::context::Context;
use crate::i18n::Text;
use crate::markup::{Markup, Writer};

/// A field of a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Field {
    /// What is typed to sign in.
    Name,
    /// A password: the one that is checked, or the new one.
    Password,
    /// The new one once more.
    Again,
    /// The one so far.
    Current,
    /// What a token is for.
    What,
    /// How far something reaches.
    Reach,
    /// For how many days.
    Days,
    /// A user of the list.
    User,
    /// The public name of a tenant.
    Slug,
    /// The same once more, so that nothing is removed by mistake.
    Confirm,
}

impl Field {
    /// Its name in the form, and its id on the page.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Password => "password",
            Self::Again => "again",
            Self::Current => "current",
            Self::What => "what",
            Self::Reach => "reach",
            Self::Days => "days",
            Self::User => "user",
            Self::Slug => "slug",
            Self::Confirm => "confirm",
        }
    }

    fn label(self) -> Text {
        match self {
            Self::Name | Self::User => Text::AccessName,
            Self::Password => Text::AccessPassword,
            Self::Again => Text::AccessAgain,
            Self::Current => Text::AccessCurrent,
            Self::What => Text::AccessTokenWhat,
            Self::Reach => Text::AccessReach,
            Self::Days => Text::AccessDays,
            Self::Slug | Self::Confirm => Text::TenantsSlug,
        }
    }
}

/// What can be wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Matter {
    /// It has to be filled in.
    Missing,
    /// It does not hold what it is for.
    Invalid,
    /// Somebody has it already.
    Taken,
    /// A password with too few characters.
    Short,
    /// A password with too many bytes.
    Long,
    /// Not the same as the one above.
    Different,
    /// Not the password so far.
    NotCurrent,
    /// Nobody would be left who can change users.
    LastOperator,
}

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FieldFault {
    /// Which one.
    pub field: Field,
    /// What.
    pub matter: Matter,
}

impl FieldFault {
    fn words(self) -> Text {
        match (self.matter, self.field) {
            (Matter::Missing, _) => Text::ImportMissing,
            (Matter::Invalid, Field::Name) => Text::AccessNameHint,
            (Matter::Invalid, Field::Slug) => Text::TenantsSlugHint,
            (Matter::Different, Field::Confirm) => Text::TenantsConfirmWrong,
            (Matter::Taken, Field::Slug) => Text::TenantsTaken,
            (Matter::Invalid, _) => Text::ImportInvalidTenant,
            (Matter::Taken, _) => Text::AccessTaken,
            (Matter::Short, _) => Text::AccessShort,
            (Matter::Long, _) => Text::AccessLong,
            (Matter::Different, _) => Text::AccessDifferent,
            (Matter::NotCurrent, _) => Text::AccessNotCurrent,
            (Matter::LastOperator, _) => Text::AccessLastOperator,
        }
    }
}

/// A line to type into.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a> {
    pub(crate) field: Field,
    pub(crate) value: &'a str,
    /// What a browser may fill in, by the names of HTML; passwords are hidden by it.
    pub(crate) autocomplete: &'a str,
    pub(crate) hint: Option<Text>,
    /// Another name than the field's own.
    pub(crate) label: Option<Text>,
}

impl Input<'_> {
    /// The field with its label, hint and fault.
    pub(crate) fn markup(self, faults: &[FieldFault], cx: &Context) -> Markup {
        let name = self.field.name();
        let is_secret = self.autocomplete.ends_with("password");
        let kind = if is_secret { "password" } else { "text" };
        let fault = faults.iter().find(|fault| fault.field == self.field);
        let about = format!("about-{name}");
        let mut attributes: Vec<(&str, &dyn Display)> = vec![
            ("id", &name),
            ("name", &name),
            ("type", &kind),
            ("value", &self.value),
            ("required", &"required"),
            ("autocomplete", &self.autocomplete),
            ("spellcheck", &"false"),
            ("maxlength", &"1024"),
        ];
        if fault.is_some() {
            attributes.push(("aria-invalid", &"true"));
        }
        if fault.is_some() || self.hint.is_some() {
            attributes.push(("aria-describedby", &about));
        }
        let mut out = Writer::default();
        out.open("div", &[("class", &"field")]);
        let label = self.label.unwrap_or_else(|| self.field.label());
        out.element("label", &[("for", &name)], cx.t(label));
        out.open("input", &attributes);
        if fault.is_some() || self.hint.is_some() {
            out.open("p", &[("class", &"note"), ("id", &about)]);
            if let Some(fault) = fault {
                out.element("strong", &[], cx.t(fault.words()));
                out.text(" ");
            }
            // A name that is none is told the same in red.
            if let Some(hint) = self.hint.filter(|hint| fault.map(|f| f.words()) != Some(*hint)) {
                out.text(cx.t(hint));
            }
            out.close("p");
        }
        out.close("div");
        out.finish()
    }
}

/// What is wrong, at the top of the page; nothing when nothing is.
pub(crate) fn summary(faults: &[FieldFault], cx: &Context) -> Markup {
    let mut out = Writer::default();
    if !faults.is_empty() {
        out.open("section", &[("class", &"faults"), ("id", &"faults"), ("role", &"alert")]);
        out.element("h2", &[], cx.t(Text::ImportFaults));
        out.open("ul", &[]);
        for fault in faults {
            out.open("li", &[]);
            if fault.field == Field::User {
                out.text(cx.t(fault.field.label()));
            } else {
                let href = format!("#{}", fault.field.name());
                out.element("a", &[("href", &href)], cx.t(fault.field.label()));
            }
            out.text(" ");
            out.text(cx.t(fault.words()));
            out.close("li");
        }
        out.close("ul");
        out.close("section");
    }
    out.finish()
}
