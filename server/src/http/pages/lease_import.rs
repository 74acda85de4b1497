//! Tables of leases, billing sessions, stops and records, from a browser.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use leasewatch_core::time::Zone;
use leasewatch_web::context::Context;
use leasewatch_web::pages::lease_import::{EnteredTable, LeaseImportView, TableOutcome, render};
use leasewatch_web::path::Route;

use super::lease::written;
use super::lease_form::tenants;
use crate::apply::table::{self, Keep, Mapping, TableKind};
use crate::http::Http;
use crate::http::asking::Asker;
use crate::http::error::Fault;
use crate::http::upload::Upload;
use crate::http::visit::Visit;
use crate::store::user::Role;

/// Refused rows on the page.
const REFUSED_MAX: usize = 200;

pub(in crate::http) async fn html(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(Route::LeasesImport)?;
        let timezone = context.zone.name().to_owned();
        let entered = EnteredTable { timezone, ..EnteredTable::default() };
        let view =
            LeaseImportView { tenants: tenants(&http, &asker).await?, entered, outcome: None };
        Ok::<_, Fault>(Html(render(&view, &context)?).into_response())
    };
    answer.await.unwrap_or_else(|fault| fault.page(&visit.at(Route::LeasesImport)))
}

pub(in crate::http) async fn send(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let answer = async {
        let context = visit.at(Route::LeasesImport);
        let (entered, bytes) = receive(request).await?;
        let tenants = tenants(&http, &asker).await?;
        let outcome = take(&http, &asker, (&entered, &tenants, &bytes), &context).await?;
        let is_good = matches!(&outcome, TableOutcome::Read { is_stored: true, .. });
        let view = LeaseImportView { tenants, entered, outcome: Some(outcome) };
        let status = if is_good { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
        Ok::<_, Fault>((status, Html(render(&view, &context)?)).into_response())
    };
    answer.await.unwrap_or_else(|fault| fault.page(&visit.at(Route::LeasesImport)))
}

async fn take(
    http: &Http,
    asker: &Asker,
    (entered, tenants, bytes): (&EnteredTable, &[String], &[u8]),
    context: &Context,
) -> Result<TableOutcome, Fault> {
    let first = tenants.first().map_or("", String::as_str);
    let tenant = if entered.tenant.is_empty() { first } else { &entered.tenant };
    let tenant = asker.tenant(http, tenant, Role::Admin).await?;
    let kind = match entered.kind.as_str() {
        "sessions" => TableKind::Sessions,
        "stops" => TableKind::Stops,
        "records" => TableKind::Records,
        _ => TableKind::Leases,
    };
    let zone = Zone::parse(entered.timezone.trim());
    let zone = zone.map_err(|_| Fault::BadRequest("timezone".to_owned()))?;
    let said: Vec<String> = entered.columns.split(',').map(str::to_owned).collect();
    let rows = match Mapping::parse(kind, &said, zone) {
        Err(why) => return Ok(TableOutcome::NoTable(why)),
        Ok(mapping) => match table::read(bytes, &mapping) {
            Err(why) => return Ok(TableOutcome::NoTable(why.to_string())),
            Ok(rows) => rows,
        },
    };
    let written = written(asker, context, "");
    let keep = Keep::of(entered.partial);
    let outcome = table::store(&http.db, tenant, rows, (written, keep, &asker.who())).await?;
    let refused = outcome.refused.iter().take(REFUSED_MAX);
    Ok(TableOutcome::Read {
        rows: i64::try_from(outcome.changes.len()).unwrap_or(i64::MAX),
        is_stored: outcome.is_stored,
        refused: refused.map(|row| (row.line, row.said())).collect(),
    })
}

/// The fields and the bytes of the file.
async fn receive(request: Request) -> Result<(EnteredTable, Vec<u8>), Fault> {
    let upload = Upload::read(request).await?;
    let entered = EnteredTable {
        tenant: upload.text("tenant"),
        kind: upload.text("kind"),
        columns: upload.text("columns"),
        timezone: upload.text("timezone"),
        partial: upload.text("partial") == "yes",
    };
    Ok((entered, upload.bytes("file").to_vec()))
}
