//! Leases, billing sessions, assignments, labels and what people tell from files into the database.
//!
//! A run belongs to one tenant and is all or nothing: everything that is wrong is named by file,
//! line and field, and then nothing is stored. Applied again, the same files change nothing. What no
//! file mentions stays as it is.
//!
//! [`Tables`] and [`kinds`] are the list of what files can hold: another kind is one field and one
//! line there, and a module beside `lease`. Not here: the command line (`command`), and tables of
//! other programs (`table`).

mod assignment;
pub mod bill_command;
pub mod bills;
pub mod command;
pub mod contract;
mod document;
pub mod entered;
mod export;
mod lease;
mod node_labels;
pub mod prices;
pub(crate) mod schedule;
mod session;
pub mod spreadsheet;
pub mod table;
pub(crate) mod told;

use std::fmt;

use leasewatch_core::id::{NodeId, Slug};
use leasewatch_core::lease::LeaseTerms;
use leasewatch_core::lease::written::{
    AssignmentEntry, NodeLabelsEntry, NoticeEntry, ProviderRecordEntry, ScheduleEntry,
    SessionEntry, TenantStopEntry,
};
use leasewatch_core::time::Timestamp;
use serde::Deserialize;
use toml::Spanned;

use crate::store::audit::{self, Action, Who};
use crate::store::lease::{self as leases, LeaseRow, Written};
use crate::store::node::{self, NodeRow};
use crate::store::{StoreError, TenantKey, Tx, assignment as assignments};

pub use document::{Document, Refusal};
pub use export::export;

/// Changes that an entry of the audit log names.
const DETAILS_MAX: usize = 40;

/// What a file can hold.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    #[serde(default)]
    lease: Vec<Spanned<LeaseTerms>>,
    #[serde(default)]
    session: Vec<Spanned<SessionEntry>>,
    #[serde(default)]
    schedule: Vec<Spanned<ScheduleEntry>>,
    #[serde(default)]
    assignment: Vec<Spanned<AssignmentEntry>>,
    #[serde(default)]
    node_labels: Vec<Spanned<NodeLabelsEntry>>,
    #[serde(default)]
    notice: Vec<Spanned<NoticeEntry>>,
    #[serde(default)]
    provider_record: Vec<Spanned<ProviderRecordEntry>>,
    #[serde(default)]
    tenant_stop: Vec<Spanned<TenantStopEntry>>,
}

/// Applies each kind, those first that others name.
async fn kinds(run: &mut Run<'_>, documents: &[Document]) -> Result<Vec<Refusal>, StoreError> {
    let mut refused = Vec::new();
    each(run, (documents, &mut refused), |t| &t.lease, lease::apply).await?;
    each(run, (documents, &mut refused), |t| &t.session, session::apply).await?;
    each(run, (documents, &mut refused), |t| &t.schedule, schedule::apply).await?;
    each(run, (documents, &mut refused), |t| &t.assignment, assignment::apply).await?;
    each(run, (documents, &mut refused), |t| &t.node_labels, node_labels::apply).await?;
    each(run, (documents, &mut refused), |t| &t.notice, told::notice).await?;
    each(run, (documents, &mut refused), |t| &t.provider_record, told::record).await?;
    each(run, (documents, &mut refused), |t| &t.tenant_stop, told::stop).await?;
    Ok(refused)
}

async fn each<T>(
    run: &mut Run<'_>,
    (documents, refused): (&[Document], &mut Vec<Refusal>),
    list: fn(&Tables) -> &[Spanned<T>],
    apply: impl AsyncFn(&mut Run<'_>, &T) -> Result<(), Fault>,
) -> Result<(), StoreError> {
    for document in documents {
        for entry in list(&document.tables) {
            match apply(run, entry.get_ref()).await {
                Ok(()) => {}
                Err(Fault::Wrong(wrong)) => {
                    refused.extend(wrong.into_iter().map(|w| document.refusal(&entry.span(), w)));
                }
                Err(Fault::Store(error)) => return Err(error),
            }
        }
    }
    Ok(())
}

/// A run in one transaction of a tenant.
pub struct Run<'a> {
    tx: &'a mut Tx,
    tenant: TenantKey,
    written: Written<'a>,
    changes: Vec<Change>,
}

/// What a run did, or would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What kind of change.
    pub verb: Verb,
    /// Of what, in words.
    pub what: String,
}

/// Kinds of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// It was not there.
    Add,
    /// It was there, and different.
    Change,
    /// It was there, and counts no longer.
    Withdraw,
    /// It is there as the file has it.
    Keep,
    /// Nothing was done; something is to be known.
    Warn,
}

impl Verb {
    /// Whether something is another than it was.
    #[must_use]
    pub fn is_change(self) -> bool {
        !matches!(self, Self::Keep | Self::Warn)
    }
}

/// Leaves an entry of a run that changed something, in its transaction: one for all of it, since a
/// file is one act.
async fn note(
    tx: &mut Tx,
    tenant: TenantKey,
    (at, who): (Timestamp, &Who),
    changes: &[Change],
) -> Result<(), StoreError> {
    let changed = changes.iter().filter(|change| change.verb.is_change());
    let changed: Vec<String> = changed.map(ToString::to_string).collect();
    if changed.is_empty() {
        return Ok(());
    }
    let object = format!("{} changes from files or a table", changed.len());
    let names: Vec<String> = (1..=DETAILS_MAX).map(|number| number.to_string()).collect();
    let detail: Vec<(&str, String)> = names.iter().map(String::as_str).zip(changed).collect();
    let entry = audit::Entry {
        at,
        tenant: Some(tenant),
        who,
        action: Action::LeaseChanged,
        object: &object,
        detail: &detail,
    };
    audit::write(tx, entry).await
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.verb {
            Verb::Add => "add",
            Verb::Change => "change",
            Verb::Withdraw => "withdraw",
            Verb::Keep => "keep",
            Verb::Warn => "warning",
        };
        write!(f, "{verb:<8} {}", self.what)
    }
}

/// A field with what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// The field's name; empty when it is the entry as a whole.
    pub field: String,
    /// What is wrong, as a clause.
    pub matter: String,
}

impl Wrong {
    fn new(field: impl Into<String>, matter: impl Into<String>) -> Self {
        Self { field: field.into(), matter: matter.into() }
    }

    fn of_field(field: &str, error: &impl fmt::Display) -> Self {
        Self::new(field, error.to_string())
    }

    /// An error of the store that begins with its field: `name: another lease has this name`.
    fn of(error: &impl fmt::Display) -> Self {
        let text = error.to_string();
        match text.split_once(": ") {
            Some((field, matter)) => Self::new(field, matter),
            None => Self::new("", text),
        }
    }
}

/// Why an entry is not applied.
pub(crate) enum Fault {
    Wrong(Vec<Wrong>),
    Store(StoreError),
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Wrong> for Fault {
    fn from(wrong: Wrong) -> Self {
        Self::Wrong(vec![wrong])
    }
}

impl<'a> Run<'a> {
    /// A run of a tenant, in a transaction of that tenant.
    pub fn new(tx: &'a mut Tx, tenant: TenantKey, written: Written<'a>) -> Self {
        Self { tx, tenant, written, changes: Vec::new() }
    }

    /// Applies everything. When anything is refused, the transaction is to be rolled back.
    ///
    /// # Errors
    /// [`StoreError`] of the database; the inner error names everything that is refused.
    pub async fn apply(
        mut self,
        documents: &[Document],
    ) -> Result<Result<Vec<Change>, Vec<Refusal>>, StoreError> {
        let refused = kinds(&mut self, documents).await?;
        if refused.is_empty() {
            self.warn_of_surplus(documents).await?;
        }
        Ok(if refused.is_empty() { Ok(self.changes) } else { Err(refused) })
    }

    fn did(&mut self, verb: Verb, what: impl Into<String>) {
        self.changes.push(Change { verb, what: what.into() });
    }

    /// Says of each lease that files name whether more slots are assigned than it has GPUs. That is
    /// no mistake of the files alone: a GPU may have been replaced.
    async fn warn_of_surplus(&mut self, documents: &[Document]) -> Result<(), StoreError> {
        let mut names = std::collections::BTreeSet::new();
        for tables in documents.iter().map(|document| &document.tables) {
            names.extend(tables.lease.iter().map(|lease| lease.get_ref().name.clone()));
            names.extend(tables.assignment.iter().map(|of| of.get_ref().lease.clone()));
        }
        for name in names {
            let Some(row) = leases::by_name(self.tx, self.tenant, &name).await? else { continue };
            let rows = assignments::of_lease(self.tx, row.key).await?;
            if let Some((most, at)) = assignments::surplus(&row.terms, &rows) {
                let contracted = row.terms.gpu_count;
                self.did(
                    Verb::Warn,
                    format!("lease {name}: {most} GPUs are assigned from {at}, {contracted} are contracted"),
                );
            }
        }
        Ok(())
    }

    async fn lease(&mut self, name: &Slug) -> Result<LeaseRow, Fault> {
        let found = leases::by_name(self.tx, self.tenant, name).await?;
        let none = || Wrong::new("lease", format!("there is no lease {name}"));
        Ok(found.ok_or_else(none)?)
    }

    /// A node by its id, or by a name that no other node of the tenant has.
    async fn node(&mut self, text: &str) -> Result<NodeRow, Fault> {
        if let Ok(id) = text.parse::<NodeId>()
            && let Some(row) = node::by_public_id(self.tx, id).await?
        {
            return Ok(row);
        }
        let mut named = node::list(self.tx).await?;
        named.retain(|row| row.name == text);
        let matter = match (named.pop(), named.len()) {
            (Some(row), 0) => return Ok(row),
            (Some(_), more) => format!("{} nodes have the name {text:?}; use the id", more + 1),
            (None, _) => format!("there is no node {text:?}"),
        };
        Err(Wrong::new("node", matter).into())
    }
}
