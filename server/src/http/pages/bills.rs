//! Bills that count: a list, and one with what differs.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{Html, IntoResponse, Redirect, Response};
use leasewatch_core::cost::bill::BillLine;
use leasewatch_core::money::Money;
use leasewatch_web::csv;
use leasewatch_web::pages::bill::{
    self as one_page, BillSum, BillView, DifferenceLine, LeaseTime, LineOfBill, RefusedOfBill,
};
use leasewatch_web::pages::bills::{self as list_page, BillLink, BillsView};
use leasewatch_web::path::{BillPart, Route};

use super::lease::written;
use crate::apply::bills::{self, Compared};
use crate::http::Http;
use crate::http::asking::Asker;
use crate::http::error::Fault;
use crate::http::visit::Visit;
use crate::store::bill::{self, BillKey, BillRow};
use crate::store::user::Role;
use crate::store::{Scope, Tx};

/// Tenant and number, as the address has them.
pub(in crate::http) type Names = Path<(String, i32)>;

fn list_route() -> Route {
    Route::Bill(BillPart::List)
}

fn one_route(Path((tenant, number)): &Names) -> Route {
    Route::Bill(BillPart::One { tenant: tenant.clone(), number: *number })
}

pub(in crate::http) async fn html(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(list_route())?;
        let view = list(&http, &asker).await?;
        Ok::<_, Fault>(Html(list_page::render(&view, &context)?).into_response())
    };
    answer.await.unwrap_or_else(|fault| fault.page(&visit.at(list_route())))
}

pub(in crate::http) async fn json(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        visit.checked(list_route())?;
        list(&http, &asker).await
    };
    answer.await.map_or_else(|fault| fault.problem(), |view| Json(view).into_response())
}

pub(in crate::http) async fn table(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        visit.checked(list_route())?;
        list(&http, &asker).await
    };
    match answer.await {
        Ok(view) => file("bills.csv", csv::bills(&view)),
        Err(fault) => fault.page(&visit.at(list_route())),
    }
}

/// A CSV file as an answer.
pub(in crate::http) fn file(name: &str, text: String) -> Response {
    let disposition = format!("attachment; filename=\"{name}\"");
    let headers =
        [(CONTENT_TYPE, csv::CONTENT_TYPE.to_owned()), (CONTENT_DISPOSITION, disposition)];
    (headers, text).into_response()
}

async fn list(http: &Http, asker: &Asker) -> Result<BillsView, Fault> {
    let mut bills = Vec::new();
    for scope in asker.scopes() {
        let mut tx = http.db.begin(scope).await?;
        bills.extend(bill::list(&mut tx).await?.into_iter().map(link));
        tx.commit().await?;
    }
    bills.sort_by_key(|bill| std::cmp::Reverse(bill.number));
    Ok(BillsView {
        bills,
        shows_tenant: asker.tenants(http, Role::Viewer).await?.len() > 1,
        may_change: !asker.tenants(http, Role::Admin).await?.is_empty(),
    })
}

fn link(row: BillRow) -> BillLink {
    BillLink {
        tenant: row.tenant.to_string(),
        number: row.key.number(),
        provider: row.provider.to_string(),
        file_name: row.file_name,
        period: row.period,
        lines: row.lines,
        refused: row.refused,
        with_tax: row.with_tax,
        imported_at: row.imported_at,
        imported_by: row.imported_by,
    }
}

async fn at(
    http: &Http,
    asker: &Asker,
    Path((tenant, number)): &Names,
    least: Role,
) -> Result<(Tx, BillRow), Fault> {
    let key = asker.tenant(http, tenant, least).await?;
    let mut tx = http.db.begin(Scope::Tenant(key)).await?;
    let row = bill::by_key(&mut tx, BillKey::new(key, *number)).await?;
    Ok((tx, row.ok_or(Fault::NotFound)?))
}

async fn one(http: &Http, asker: &Asker, names: &Names) -> Result<BillView, Fault> {
    let (mut tx, row) = at(http, asker, names, Role::Viewer).await?;
    let refused = bill::refused(&mut tx, row.key).await?;
    let compared = bills::compared(&mut tx, &row).await?;
    let compared = compared.map_err(|_| Fault::BadRequest("amount".to_owned()))?;
    tx.commit().await?;
    let may_change = asker.may(&row.tenant, Role::Admin);
    let refused = refused.into_iter().map(|row| RefusedOfBill {
        line: u64::try_from(row.line).unwrap_or_default(),
        fault: row.fault,
        column: row.column,
    });
    Ok(view(row, compared, refused.collect(), may_change))
}

fn view(
    row: BillRow,
    compared: Compared,
    refused: Vec<RefusedOfBill>,
    may_change: bool,
) -> BillView {
    let Compared { lines, comparison, leases, origin } = compared;
    let mut sums: Vec<BillSum> = Vec::new();
    let all = comparison.billed.iter().chain(comparison.expected.iter());
    for currency in all.map(|amount| amount.currency) {
        if sums.iter().any(|sum| sum.billed.currency == currency) {
            continue;
        }
        let of = |amounts: &leasewatch_core::cost::Amounts| {
            amounts.of(currency).unwrap_or(Money::zero(currency))
        };
        let own = comparison.differences.iter().filter(|d| d.amount.currency == currency);
        let nanos = own.map(|d| d.amount.nanos).fold(0_i128, i128::saturating_add);
        sums.push(BillSum {
            billed: of(&comparison.billed),
            expected: of(&comparison.expected),
            dead: of(&comparison.dead),
            difference: Money { nanos, currency },
        });
    }
    let differences = comparison.differences.into_iter().map(|of| DifferenceLine {
        line: of.line,
        lease: of.lease.map(|lease| lease.to_string()),
        kind: of.kind,
        period: of.period,
        amount: of.amount,
    });
    let leases = leases.into_iter().map(|sums| LeaseTime {
        lease: sums.name.to_string(),
        billed: sums.billed,
        assigned_ms: sums.assigned_ms,
        up_ms: sums.up_ms,
        down_ms: sums.down_ms,
        unknown_ms: sums.unknown_ms,
        excluded_ms: sums.excluded_ms,
    });
    BillView {
        sums,
        differences: differences.collect(),
        leases: leases.collect(),
        lines: lines.into_iter().map(line).collect(),
        refused,
        origin,
        may_change,
        tenant: row.tenant.to_string(),
        number: row.key.number(),
        provider: row.provider.to_string(),
        file_name: row.file_name,
        with_tax: row.with_tax,
        imported_at: row.imported_at,
        imported_by: row.imported_by,
        period: row.period,
    }
}

fn line(of: BillLine) -> LineOfBill {
    let number = |nanos| Money { nanos, currency: of.amount.currency }.amount_text();
    LineOfBill {
        line: of.line,
        quantity: of.quantity.map(|quantity| (number(quantity.nanos), quantity.unit.name())),
        key: of.key,
        period: of.period,
        rate: of.rate,
        amount: of.amount,
    }
}

pub(in crate::http) async fn one_html(
    State(http): State<Http>,
    names: Names,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(one_route(&names))?;
        let view = one(&http, &asker, &names).await?;
        Ok::<_, Fault>(Html(one_page::render(&view, &context)?).into_response())
    };
    answer.await.unwrap_or_else(|fault| fault.page(&visit.at(one_route(&names))))
}

pub(in crate::http) async fn one_json(
    State(http): State<Http>,
    names: Names,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        visit.checked(one_route(&names))?;
        one(&http, &asker, &names).await
    };
    answer.await.map_or_else(|fault| fault.problem(), |view| Json(view).into_response())
}

pub(in crate::http) async fn one_table(
    State(http): State<Http>,
    names: Names,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        visit.checked(one_route(&names))?;
        one(&http, &asker, &names).await
    };
    match answer.await {
        Ok(view) => file(&format!("bill-{}.csv", view.number), csv::bill(&view)),
        Err(fault) => fault.page(&visit.at(one_route(&names))),
    }
}

/// Withdraws a bill.
pub(in crate::http) async fn withdraw(
    State(http): State<Http>,
    names: Names,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.at(list_route());
        let (mut tx, row) = at(&http, &asker, &names, Role::Admin).await?;
        let by = (written(&asker, &context, ""), &asker.who());
        bills::withdraw(&mut tx, row.key, by).await?;
        tx.commit().await?;
        Ok::<_, Fault>(Redirect::to(&context.here.href()).into_response())
    };
    answer.await.unwrap_or_else(|fault| fault.page(&visit.at(one_route(&names))))
}
