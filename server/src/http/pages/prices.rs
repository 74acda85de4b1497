//! Price tables: what there is, what it offers of a GPU, and taking a new one. Global rows: everybody
//! reads them, operators write them.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Redirect, Response};
use leasewatch_core::money::Money;
use leasewatch_web::context::Context;
use leasewatch_web::csv;
use leasewatch_web::pages::prices::{OfferLine, PricesView, TableLine, TableSent, render};
use leasewatch_web::path::Route;

use super::bills::file;
use super::lease::written;
use crate::apply::prices::{self, Sent};
use crate::apply::spreadsheet;
use crate::http::Http;
use crate::http::asking::Asker;
use crate::http::error::Fault;
use crate::http::form::Fields;
use crate::http::upload::Upload;
use crate::http::visit::Visit;
use crate::store::price::{self, OfferRow, PriceTableKey, PriceTableRow};
use crate::store::{Scope, StoreError, Tx, provider};

/// Offers on a page.
const OFFERS_MAX: u32 = 500;
/// Refused rows that are named at once.
const REFUSED_MAX: usize = 50;

pub(in crate::http) async fn html(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(Route::Prices)?;
        let view = view(&http, &asker, &context).await?;
        Ok::<_, Fault>(Html(render(&view, &context)?).into_response())
    };
    answer.await.unwrap_or_else(|fault| fault.page(&visit.at(Route::Prices)))
}

pub(in crate::http) async fn json(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(Route::Prices)?;
        view(&http, &asker, &context).await
    };
    answer.await.map_or_else(|fault| fault.problem(), |view| Json(view).into_response())
}

pub(in crate::http) async fn table(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(Route::Prices)?;
        view(&http, &asker, &context).await
    };
    match answer.await {
        Ok(view) => file("prices.csv", csv::prices(&view)),
        Err(fault) => fault.page(&visit.at(Route::Prices)),
    }
}

async fn view(http: &Http, asker: &Asker, context: &Context) -> Result<PricesView, Fault> {
    // Global rows look the same in every scope that may look at all.
    let scope = asker.scopes().into_iter().next().ok_or(Fault::NotFound)?;
    let mut tx = http.db.begin(scope).await?;
    let tables = price::list(&mut tx).await?;
    let gpu = context.here.state.find.clone().unwrap_or_default();
    let offers = match gpu.trim() {
        "" => Vec::new(),
        gpu => offers(&mut tx, gpu).await?,
    };
    let providers = provider::list(&mut tx).await?;
    tx.commit().await?;
    Ok(PricesView {
        tables: tables.into_iter().map(table_line).collect(),
        gpu: gpu.trim().to_owned(),
        offers,
        providers: providers.into_iter().map(|row| row.slug.to_string()).collect(),
        may_change: asker.is_operator(),
        outcome: None,
    })
}

/// Offers of a GPU, the cheapest per GPU-hour first within each currency.
pub(in crate::http) async fn offers(tx: &mut Tx, gpu: &str) -> Result<Vec<OfferLine>, StoreError> {
    let known = leasewatch_core::catalogue::gpu::by_key(gpu).map(|model| model.key.clone());
    let key = known.unwrap_or_else(|| gpu.to_owned());
    let mut all = price::offers(tx, &key, OFFERS_MAX).await?;
    if all.is_empty() {
        // People write what it is called, not its key.
        all = price::offers_like(tx, gpu, OFFERS_MAX).await?;
    }
    let mut lines: Vec<OfferLine> = all.into_iter().map(offer_line).collect();
    let place = |line: &OfferLine| {
        let price = line.per_gpu_hour.or(line.spot_per_gpu_hour);
        price.map(|price| (price.currency, price.nanos))
    };
    lines.sort_by_key(place);
    Ok(lines)
}

fn offer_line(row: OfferRow) -> OfferLine {
    let share = |price: Option<Money>| price?.times(1, i64::from(row.gpu_count.max(1))).ok();
    OfferLine {
        per_gpu_hour: share(row.on_demand),
        spot_per_gpu_hour: share(row.spot),
        provider: row.provider,
        gpu_name: row.gpu_name,
        gpu_key: row.gpu_key,
        gpu_count: row.gpu_count,
        instance: row.instance,
        region: row.region,
        on_demand: row.on_demand,
        spot: row.spot,
        imported_at: row.imported_at,
        source: row.file_name,
    }
}

fn table_line(row: PriceTableRow) -> TableLine {
    TableLine {
        number: row.key.number(),
        file_name: row.file_name,
        provider: row.provider,
        schema: row.schema,
        currency: row.currency.to_string(),
        rows: row.rows,
        offers: row.offers,
        duplicates: row.duplicates,
        refused: row.refused,
        imported_at: row.imported_at,
        imported_by: row.imported_by,
    }
}

/// Takes a table.
pub(in crate::http) async fn send(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let answer = async {
        let context = visit.at(Route::Prices);
        let upload = Upload::read(request).await?;
        let outcome = take(&http, (&asker, &context), &upload).await?;
        let is_stored = matches!(outcome, TableSent::Stored { .. });
        let view =
            PricesView { outcome: Some(outcome), ..self::view(&http, &asker, &context).await? };
        let status = if is_stored { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
        Ok::<_, Fault>((status, Html(render(&view, &context)?)).into_response())
    };
    answer.await.unwrap_or_else(|fault| fault.page(&visit.at(Route::Prices)))
}

async fn take(
    http: &Http,
    (asker, context): (&Asker, &Context),
    upload: &Upload,
) -> Result<TableSent, Fault> {
    let sheet = match spreadsheet::look(upload.bytes("file")) {
        Ok(sheet) => sheet,
        Err(why) => return Ok(TableSent::NoTable(why.to_string())),
    };
    let sent = Sent {
        provider: &upload.text("provider"),
        file_name: upload.file_name.as_deref().unwrap_or_default(),
        text: &sheet.text,
        currency: &upload.text("currency"),
        columns: &upload.text("columns"),
    };
    let mut tx = http.db.begin(Scope::Ingest).await?;
    let by = (written(asker, context, ""), &asker.who());
    match prices::store(&mut tx, sent, by).await? {
        Ok((_, table)) => {
            tx.commit().await?;
            let refused = table.refused.iter().take(REFUSED_MAX);
            Ok(TableSent::Stored {
                offers: i64::try_from(table.offers.len()).unwrap_or(i64::MAX),
                refused: refused.map(|row| (row.line, row.fault.to_string())).collect(),
            })
        }
        Err(why) => {
            tx.rollback().await?;
            Ok(TableSent::NoTable(why.to_string()))
        }
    }
}

/// Lets a table count no longer.
pub(in crate::http) async fn withdraw(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let answer = async {
        let context = visit.at(Route::Prices);
        let (_, fields) = Fields::read(request, &["number", "action"]).await?;
        let number = fields.get("number").parse().map_err(|_| Fault::NotFound)?;
        let mut tx = http.db.begin(Scope::Ingest).await?;
        let by = (written(&asker, &context, ""), &asker.who());
        if !prices::withdraw(&mut tx, PriceTableKey::new(number), by).await? {
            return Err(Fault::NotFound);
        }
        tx.commit().await?;
        Ok::<_, Fault>(Redirect::to(&context.here.href()).into_response())
    };
    answer.await.unwrap_or_else(|fault| fault.page(&visit.at(Route::Prices)))
}

/// What offers of other providers cost beside a lease's own price, the cheapest few; nothing where
/// the lease has no price per GPU-hour.
pub(in crate::http) async fn beside(
    tx: &mut Tx,
    gpu: &str,
    own: Option<Money>,
) -> Result<(Vec<OfferLine>, i64), StoreError> {
    const SHOWN: usize = 5;
    let Some(own) = own else { return Ok((Vec::new(), 0)) };
    let mut all = offers(tx, gpu).await?;
    all.retain(|line| line.per_gpu_hour.is_some_and(|price| price.currency == own.currency));
    // A table that was imported again says the latest; what it said before is still a row.
    let mut seen: BTreeMap<_, ()> = BTreeMap::new();
    all.retain(|line| {
        let name = (line.provider.clone(), line.instance.clone(), line.region.clone());
        seen.insert(name, ()).is_none()
    });
    let is_less = |line: &&OfferLine| line.per_gpu_hour.is_some_and(|p| p.nanos < own.nanos);
    let cheaper = i64::try_from(all.iter().filter(is_less).count()).unwrap_or(i64::MAX);
    all.truncate(SHOWN);
    Ok((all, cheaper))
}
