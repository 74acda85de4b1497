//! The audit log: everything for operators, for admins what is of their tenants.

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{Uri, header};
use axum::response::{Html, IntoResponse as _, Response};
use futures_util::stream;
use leasewatch_core::time::Timestamp;
use leasewatch_web::context::Context;
use leasewatch_web::csv;
use leasewatch_web::pages::audit::{AuditLine, AuditView, render};
use leasewatch_web::path::{Route, local_midnight, pairs};
use serde::Deserialize;

use crate::http::Http;
use crate::http::asking::Asker;
use crate::http::error::Fault;
use crate::http::visit::Visit;
use crate::store::Scope;
use crate::store::audit::{self, Action, EntryRow, Wanted};
use crate::store::user::Role;

/// Entries of a page, and of a piece of the CSV.
const PAGE: u32 = 200;
const PIECE: u32 = 1_000;

/// The query, beside what every page has.
#[derive(Debug, Deserialize)]
pub(in crate::http) struct Older {
    before: Option<i64>,
}

pub(in crate::http) async fn html(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    older: Result<Query<Older>, axum::extract::rejection::QueryRejection>,
    uri: Uri,
) -> Response {
    let answer = async {
        let context = visit.checked(Route::Audit)?;
        let wanted = wanted(&context, uri.query(), older)?;
        Ok::<_, Fault>(Html(render(&view(&http, &asker, wanted).await?, &context)?).into_response())
    };
    answer.await.unwrap_or_else(|fault| fault.page(&visit.at(Route::Audit)))
}

pub(in crate::http) async fn json(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    older: Result<Query<Older>, axum::extract::rejection::QueryRejection>,
    uri: Uri,
) -> Response {
    let answer = async {
        let context = visit.checked(Route::Audit)?;
        let wanted = wanted(&context, uri.query(), older)?;
        Ok::<_, Fault>(Json(view(&http, &asker, wanted).await?).into_response())
    };
    answer.await.unwrap_or_else(|fault| fault.problem())
}

/// All entries that fit, piece by piece.
pub(in crate::http) async fn download(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    older: Result<Query<Older>, axum::extract::rejection::QueryRejection>,
    uri: Uri,
) -> Response {
    let wanted =
        visit.checked(Route::Audit).and_then(|context| wanted(&context, uri.query(), older));
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(fault) => return fault.page(&visit.context),
    };
    let mut head = String::new();
    csv::audit_header(&mut head);
    let state = (http, asker, Some(wanted), Some(head));
    let body = stream::try_unfold(state, |(http, asker, wanted, head)| async move {
        if let Some(head) = head {
            return Ok::<_, Fault>(Some((Bytes::from(head), (http, asker, wanted, None))));
        }
        let Some(wanted) = wanted else { return Ok(None) };
        let rows = entries(&http, &asker, wanted, PIECE).await?;
        let next = older_than(&rows, PIECE).map(|before| Wanted { before: Some(before), ..wanted });
        let mut piece = String::new();
        rows.into_iter().for_each(|row| csv::audit(&mut piece, &line(row)));
        Ok(Some((Bytes::from(piece), (http, asker, next, None))))
    });
    let headers = [
        (header::CONTENT_TYPE, csv::CONTENT_TYPE),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"audit.csv\""),
    ];
    (headers, Body::from_stream(body)).into_response()
}

/// Which entries a query asks for. Days are local, `to` is the first that is left out.
fn wanted(
    context: &Context,
    query: Option<&str>,
    older: Result<Query<Older>, axum::extract::rejection::QueryRejection>,
) -> Result<Wanted, Fault> {
    let bad = |name: &str| Fault::BadRequest(name.to_owned());
    let Query(older) = older.map_err(|_| bad("before"))?;
    let given = pairs(query.unwrap_or_default());
    let day = |name: &str| -> Result<Option<Timestamp>, Fault> {
        let value = given.iter().rev().find(|(known, value)| known == name && !value.is_empty());
        let Some((_, value)) = value else { return Ok(None) };
        let day: String = value.chars().take(10).collect();
        local_midnight(&day, context.zone).map(Some).ok_or_else(|| bad(name))
    };
    let action = context.here.state.action.as_deref();
    let action = action.map(|name| Action::from_name(name).ok_or_else(|| bad("action")));
    Ok(Wanted {
        action: action.transpose()?,
        from: day("from")?,
        to: day("to")?,
        before: older.before,
    })
}

async fn view(http: &Http, asker: &Asker, wanted: Wanted) -> Result<AuditView, Fault> {
    let rows = entries(http, asker, wanted, PAGE).await?;
    Ok(AuditView {
        older: older_than(&rows, PAGE),
        entries: rows.into_iter().map(line).collect(),
        action: wanted.action.map(|action| action.name().to_owned()),
    })
}

/// The number below which there may be more.
fn older_than(rows: &[EntryRow], limit: u32) -> Option<i64> {
    let is_full = u32::try_from(rows.len()).is_ok_and(|count| count >= limit);
    rows.last().filter(|_| is_full).map(|row| row.number)
}

/// The newest entries that fit, of every tenant that the asker may change.
async fn entries(
    http: &Http,
    asker: &Asker,
    wanted: Wanted,
    limit: u32,
) -> Result<Vec<EntryRow>, Fault> {
    let scopes: Vec<_> = if asker.is_operator() {
        vec![Scope::Operator]
    } else {
        let own = asker.tenants(http, Role::Admin).await?;
        own.into_iter().map(|own| Scope::Tenant(own.tenant)).collect()
    };
    let mut rows = Vec::new();
    for scope in scopes {
        let mut tx = http.db.begin(scope).await?;
        rows.extend(audit::read(&mut tx, wanted, limit).await?);
        tx.commit().await?;
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.number));
    rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(rows)
}

fn line(row: EntryRow) -> AuditLine {
    AuditLine {
        number: row.number,
        at: row.at,
        tenant: row.tenant.map(|slug| slug.to_string()),
        user: row.user,
        way: row.way.name(),
        action: row.action,
        object: row.object,
        detail: row.detail,
        address: row.address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_has_a_name_for_people() {
        for action in Action::ALL {
            assert!(leasewatch_web::pages::audit::is_named(action.name()), "{action:?}");
        }
    }
}
