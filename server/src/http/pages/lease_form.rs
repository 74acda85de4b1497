//! The form of a lease: a new one, and other terms of one that is there.

use std::collections::BTreeMap;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Redirect, Response};
use leasewatch_core::lease::LeaseTerms;
use leasewatch_core::time::{Timestamp, Zone};
use leasewatch_web::context::Context;
use leasewatch_web::pages::lease_form::{
    FieldFault, LeaseFormView, LeaseMatter, field_names, render,
};
use leasewatch_web::path::{LeasePart, Route};

use super::lease::{Names, at, note, route, written};
use crate::apply::Wrong;
use crate::apply::entered::{Entered, moment, of_terms, terms, terms_over};
use crate::http::Http;
use crate::http::asking::Asker;
use crate::http::error::Fault;
use crate::http::form::Fields;
use crate::http::visit::Visit;
use crate::store::Scope;
use crate::store::lease::{self, NotWritten};
use crate::store::user::Role;

/// What a new lease begins with.
const USUAL: [(&str, &str); 2] = [("currency", "USD"), ("share", "100")];

pub(in crate::http) async fn new_lease(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(Route::LeaseNew)?;
        let usual = USUAL.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        let mut entered: BTreeMap<_, _> = usual.collect();
        entered.insert("zone".to_owned(), context.zone.name().to_owned());
        let view = LeaseFormView {
            of: None,
            tenants: tenants(&http, &asker).await?,
            entered,
            faults: Vec::new(),
        };
        Ok::<_, Fault>(Html(render(&view, &context)?).into_response())
    };
    answer.await.unwrap_or_else(|fault| fault.page(&visit.at(Route::LeaseNew)))
}

/// Public names of tenants in which the asker may write.
pub(in crate::http) async fn tenants(http: &Http, asker: &Asker) -> Result<Vec<String>, Fault> {
    let tenants = asker.tenants(http, Role::Admin).await?;
    Ok(tenants.into_iter().map(|tenant| tenant.slug.to_string()).collect())
}

async fn typed(request: Request) -> Result<Entered, Fault> {
    let names = field_names();
    let (_, fields) = Fields::read(request, &names).await?;
    let text = |name: &&str| ((*name).to_owned(), fields.get(name).to_owned());
    Ok(Entered(names.iter().map(text).collect()))
}

pub(in crate::http) async fn create(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let answer = async {
        let context = visit.at(Route::LeaseNew);
        let entered = typed(request).await?;
        let tenants = tenants(&http, &asker).await?;
        let first = tenants.first().map_or("", String::as_str);
        let tenant = Some(entered.get("tenant")).filter(|tenant| !tenant.is_empty());
        let tenant = tenant.unwrap_or(first).to_owned();
        let key = asker.tenant(&http, &tenant, Role::Admin).await?;
        let faults = match terms(&entered, context.zone) {
            Err(wrong) => faults(&wrong, &entered),
            Ok(terms) => {
                let mut tx = http.db.begin(Scope::Tenant(key)).await?;
                let written = written(&asker, &context, "");
                match lease::create(&mut tx, key, &terms, written).await? {
                    Ok(_) => {
                        let of = (key, terms.name.as_str());
                        note(&mut tx, of, (&asker, context.now), "written down").await?;
                        tx.commit().await?;
                        return Ok(done(&context, &tenant, &terms));
                    }
                    Err(refused) => vec![of_store(&refused)],
                }
            }
        };
        let view = LeaseFormView { of: None, tenants, entered: entered.0, faults };
        again(&view, &context)
    };
    answer.await.unwrap_or_else(|fault: Fault| fault.page(&visit.at(Route::LeaseNew)))
}

fn done(context: &Context, tenant: &str, terms: &LeaseTerms) -> Response {
    let (tenant, lease) = (tenant.to_owned(), terms.name.to_string());
    let part = LeasePart::Page;
    Redirect::to(&context.here.to(Route::Lease { tenant, lease, part }).href()).into_response()
}

fn again(view: &LeaseFormView, context: &Context) -> Result<Response, Fault> {
    Ok((StatusCode::UNPROCESSABLE_ENTITY, Html(render(view, context)?)).into_response())
}

pub(in crate::http) async fn edit(
    State(http): State<Http>,
    names: Names,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(route(&names, LeasePart::Edit))?;
        let at = at(&http, &asker, &names, Role::Admin).await?;
        let shown = of_terms(&at.row.terms, |at| time_text(at, context.zone));
        let view = LeaseFormView {
            of: Some(names.0.clone()),
            tenants: Vec::new(),
            entered: shown.0,
            faults: Vec::new(),
        };
        Ok::<_, Fault>(Html(render(&view, &context)?).into_response())
    };
    answer.await.unwrap_or_else(|fault| fault.page(&visit.at(route(&names, LeasePart::Edit))))
}

pub(in crate::http) async fn revise(
    State(http): State<Http>,
    names: Names,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let answer = async {
        let context = visit.at(route(&names, LeasePart::Edit));
        let entered = typed(request).await?;
        let mut at = at(&http, &asker, &names, Role::Admin).await?;
        let before = &at.row.terms;
        let shown = of_terms(before, |at| time_text(at, context.zone));
        let reason = entered.get("reason");
        let mut faults = match terms_over((before, &shown), &entered, context.zone) {
            Err(wrong) => faults(&wrong, &entered),
            Ok(terms) if terms == *before => return Ok(done(&context, &names.0.0, before)),
            Ok(terms) if reason.chars().count() <= 200 => {
                let written = written(&asker, &context, reason);
                match lease::revise(&mut at.tx, &at.row, &terms, written).await? {
                    Ok(_) => {
                        let of = (at.row.key.tenant, terms.name.as_str());
                        note(&mut at.tx, of, (&asker, context.now), "terms").await?;
                        at.tx.commit().await?;
                        return Ok(done(&context, &names.0.0, &terms));
                    }
                    Err(refused) => vec![of_store(&refused)],
                }
            }
            Ok(_) => Vec::new(),
        };
        if reason.chars().count() > 200 {
            faults.push(FieldFault::new("reason", LeaseMatter::Invalid));
        }
        let of = Some(names.0.clone());
        let view = LeaseFormView { of, tenants: Vec::new(), entered: entered.0, faults };
        again(&view, &context)
    };
    let place = || visit.at(route(&names, LeasePart::Edit));
    answer.await.unwrap_or_else(|fault: Fault| fault.page(&place()))
}

/// What is wrong, at fields that the form has.
fn faults(wrong: &[Wrong], entered: &Entered) -> Vec<FieldFault> {
    let minima = ["power_limit_w", "memory_mib", "sm_clock_mhz", "pcie_generation", "pcie_width"];
    let is_wrong = |field: &&&str| {
        let text = entered.get(field);
        !text.is_empty() && text.parse::<i64>().is_ok_and(|number| number <= 0)
    };
    let one = |wrong: &Wrong| {
        let field = match wrong.field.as_str() {
            "minima" => minima.iter().find(is_wrong).copied().unwrap_or("nvlinks"),
            "prices" if entered.get("prices").is_empty() => "price",
            field => field,
        };
        let is_missing = entered.get(field).is_empty();
        let matter = if is_missing { LeaseMatter::Missing } else { LeaseMatter::Invalid };
        FieldFault::new(field, matter)
    };
    wrong.iter().map(one).collect()
}

/// What the store refuses.
fn of_store(refused: &NotWritten) -> FieldFault {
    match refused {
        NotWritten::NameTaken => FieldFault::new("name", LeaseMatter::Taken),
        NotWritten::OtherProvider => FieldFault::new("provider", LeaseMatter::OtherProvider),
        NotWritten::NoProfile(..) => FieldFault::new("profile", LeaseMatter::NoProfile),
        NotWritten::Overlap(overlap) => FieldFault::new("ends_at", overlap_matter(overlap)),
    }
}

pub(in crate::http) fn overlap_matter(overlap: &crate::store::assignment::Overlap) -> LeaseMatter {
    LeaseMatter::Overlap {
        node: overlap.node_name.clone(),
        gpu: overlap.slot.0,
        other: overlap.other.to_string(),
        period: overlap.period,
    }
}

/// A time as it is typed in a zone, in full where that would lose something.
pub(in crate::http) fn time_text(at: Timestamp, zone: Zone) -> String {
    let local = zone.local(at).map(|local| {
        let (year, month, day) = (local.year, local.month, local.day);
        format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", local.hour, local.minute)
    });
    local.filter(|text| moment(text, zone) == Some(at)).unwrap_or_else(|| at.to_string())
}
