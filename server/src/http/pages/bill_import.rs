//! A bill from a browser: looked at, mapped, stored.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Redirect, Response};
use leasewatch_core::id::{Slug, clean_text};
use leasewatch_web::context::Context;
use leasewatch_web::pages::bill::RefusedOfBill;
use leasewatch_web::pages::bill_import::{BillImportView, LookedAt, render};
use leasewatch_web::path::{self, BillPart, Route, pattern};

use super::lease::written;
use super::lease_form::tenants;
use crate::apply::bills::{self, NotStored};
use crate::apply::entered::Entered;
use crate::apply::spreadsheet::{self, Spreadsheet};
use crate::http::Http;
use crate::http::asking::Asker;
use crate::http::error::Fault;
use crate::http::upload::Upload;
use crate::http::visit::Visit;
use crate::store::user::Role;
use crate::store::{Scope, TenantKey, Tx, bill, provider};

/// Bytes of a file that goes to the page and back; a longer one is for the command line.
const LOOKED_AT_MAX: usize = 512 * 1_024;

const ROUTE: Route = Route::Bill(BillPart::Import);

pub(in crate::http) async fn html(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(ROUTE)?;
        let view = first(&http, &asker).await?;
        Ok::<_, Fault>(Html(render(&view, &context)?).into_response())
    };
    answer.await.unwrap_or_else(|fault| fault.page(&visit.at(ROUTE)))
}

async fn first(http: &Http, asker: &Asker) -> Result<BillImportView, Fault> {
    let tenants = tenants(http, asker).await?;
    let mut providers = Vec::new();
    if let Some(tenant) = tenants.first() {
        let key = asker.tenant(http, tenant, Role::Admin).await?;
        let mut tx = http.db.begin(Scope::Tenant(key)).await?;
        let rows = provider::list(&mut tx).await?;
        providers = rows.into_iter().map(|row| row.slug.to_string()).collect();
        tx.commit().await?;
    }
    Ok(BillImportView {
        tenants,
        providers,
        entered: std::collections::BTreeMap::new(),
        looked_at: None,
        wrong: Vec::new(),
        no_table: None,
        refused: Vec::new(),
    })
}

pub(in crate::http) async fn send(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let answer = async {
        let context = visit.at(ROUTE);
        let upload = Upload::read(request).await?;
        let mut view = first(&http, &asker).await?;
        let first = view.tenants.first().cloned().unwrap_or_default();
        let named = upload.text("tenant");
        let tenant = if named.is_empty() { first } else { named };
        let key = asker.tenant(&http, &tenant, Role::Admin).await?;
        view.entered = entered(&upload).0;
        let stored = take(&http, (&asker, &context), (key, &upload), &mut view).await?;
        if let Some(number) = stored {
            let href = path::bill(&context.here, pattern::BILL, &tenant, number);
            return Ok(Redirect::to(&href).into_response());
        }
        let is_wrong =
            view.no_table.is_some() || !view.wrong.is_empty() || !view.refused.is_empty();
        let status = if is_wrong { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
        Ok::<_, Fault>((status, Html(render(&view, &context)?)).into_response())
    };
    answer.await.unwrap_or_else(|fault| fault.page(&visit.at(ROUTE)))
}

fn entered(upload: &Upload) -> Entered {
    let names = bills::COLUMNS.iter().map(|(name, ..)| *name).chain(bills::SETTINGS);
    let names = names.chain(["tenant", "provider", "partial"]);
    let pairs = names.map(|name| (name.to_owned(), upload.text(name)));
    Entered(pairs.filter(|(_, text)| !text.is_empty()).collect())
}

/// The number of the bill that was stored; `None` when the page is to be shown again.
async fn take(
    http: &Http,
    (asker, context): (&Asker, &Context),
    (tenant, upload): (TenantKey, &Upload),
    view: &mut BillImportView,
) -> Result<Option<i32>, Fault> {
    let is_new = upload.file_name.is_some();
    let bytes = upload.bytes(if is_new { "file" } else { "text" });
    let sheet = match spreadsheet::look(bytes) {
        Ok(sheet) => sheet,
        Err(why) => {
            view.no_table = Some(why.to_string());
            return Ok(None);
        }
    };
    let file_name = upload.file_name.clone().unwrap_or_else(|| upload.text("name"));
    let mut tx = http.db.begin(Scope::Tenant(tenant)).await?;
    let is_storing = upload.text("action") == "store";
    if !is_storing {
        prefill(&mut tx, tenant, (&sheet, is_new), view).await?;
    } else {
        let sent = bills::Sent {
            provider: &upload.text("provider"),
            file_name: &clean_text(&file_name, 120),
            text: &sheet.text,
            entered: &entered(upload),
            partial: upload.text("partial") == "yes",
        };
        let by = (written(asker, context, ""), &asker.who());
        match bills::store(&mut tx, tenant, sent, by).await? {
            Ok(key) => {
                tx.commit().await?;
                return Ok(Some(key.number()));
            }
            Err(why) => refuse(why, view),
        }
    }
    tx.rollback().await?;
    if sheet.text.len() > LOOKED_AT_MAX {
        view.no_table = Some(format!("more than {LOOKED_AT_MAX} bytes: use the command line"));
        return Ok(None);
    }
    let Spreadsheet { text, header, rows } = sheet;
    view.looked_at = Some(LookedAt { file_name, text, header, rows });
    Ok(None)
}

/// What the last bill of the provider says of its columns, else what their names do.
async fn prefill(
    tx: &mut Tx,
    tenant: TenantKey,
    (sheet, is_new): (&Spreadsheet, bool),
    view: &mut BillImportView,
) -> Result<(), Fault> {
    let mut usual = bills::suggested(&sheet.header);
    let named = view.entered.get("provider").and_then(|slug| Slug::new(slug).ok());
    if let Some(slug) = named
        && let Some(provider) = provider::by_slug(tx, &slug).await?
        && let Some(kept) = bill::mapping(tx, (tenant, provider.key)).await?
    {
        usual.0.extend(bills::from_kept(&kept, &sheet.header).0);
    }
    for (field, text) in usual.0 {
        // What was chosen for another file says nothing of this one.
        if is_new || !view.entered.contains_key(&field) {
            view.entered.insert(field, text);
        }
    }
    Ok(())
}

fn refuse(why: NotStored, view: &mut BillImportView) {
    match why {
        NotStored::Fields(wrong) => {
            view.wrong = wrong.into_iter().map(|wrong| wrong.field).collect();
        }
        NotStored::File(fault) => view.no_table = Some(fault.to_string()),
        NotStored::Lines(lines) => {
            let refused = lines.into_iter().map(|row| RefusedOfBill {
                line: row.line,
                fault: row.fault,
                column: row.column,
            });
            view.refused = refused.collect();
        }
    }
}
