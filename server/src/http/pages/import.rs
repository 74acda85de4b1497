//! The form that uploads an old log, or a recording.
//!
//! What was sent is checked, and the file put into the queue. Not here: reading the log, which
//! takes longer than a request may.

mod received;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Redirect, Response};
use leasewatch_core::id::{Slug, clean_text};
use leasewatch_core::time::Zone;
use leasewatch_web::context::Context;
use leasewatch_web::pages::import::{
    Entered, Field, FieldFault, ImportLine, ImportView, Matter, render,
};
use leasewatch_web::path::Route;
use serde::Deserialize;

use super::import_run;
use crate::demo;
use crate::http::Http;
use crate::http::asking::Asker;
use crate::http::error::Fault;
use crate::http::visit::Visit;
use crate::intake::{LogKind, Order, UPLOADS_KEPT, Upload, UploadKind, cadence_ms};
use crate::store::Scope;
use crate::store::audit::{self, Action};
use crate::store::user::Role;
use received::{Received, receive};

/// Tenant and provider of whoever names none.
const DEFAULT: &str = "default";
/// Values of the field `kind`.
const AUTO: &str = "auto";
const SMI: &str = "nvidia-smi";
const JSONL: &str = "jsonl";
const RECORDING: &str = "recording";
/// Characters of a node's name.
const NAME_CHARACTERS_MAX: usize = 120;

pub(in crate::http) async fn html(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    again: Result<Query<Again>, QueryRejection>,
) -> Response {
    let answer = async {
        let context = visit.checked(Route::Import)?;
        let tenants = tenants(&http, &asker).await?;
        let again = again.ok().and_then(|Query(again)| again.again);
        let before = again.and_then(|id| http.intake.find(&id));
        let before = before.filter(|(upload, _)| may_see(&asker, upload));
        let entered = match before {
            Some((upload, _)) => entered(&upload.order),
            None => Entered {
                kind: AUTO.to_owned(),
                tenant: tenants.first().cloned().unwrap_or_default(),
                provider: DEFAULT.to_owned(),
                timezone: context.zone.name().to_owned(),
                ..Entered::default()
            },
        };
        form(&http, &asker, &context, (tenants, entered, Vec::new()))
    };
    match answer.await {
        Ok(page) => Html(page).into_response(),
        Err(fault) => fault.page(&visit.at(Route::Import)),
    }
}

/// The query of the form.
#[derive(Debug, Deserialize)]
pub(in crate::http) struct Again {
    /// An import whose fields it begins with.
    again: Option<String>,
}

pub(in crate::http) async fn send(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    match take(&http, &visit, &asker, request).await {
        Ok(response) => response,
        Err(fault) => fault.page(&visit.at(Route::Import)),
    }
}

async fn take(
    http: &Http,
    visit: &Visit,
    asker: &Asker,
    request: Request,
) -> Result<Response, Fault> {
    let context = visit.checked(Route::Import)?;
    let tenants = tenants(http, asker).await?;
    let Received { entered, file, mut faults } = receive(&http.intake, request).await?;
    let order = order(&entered, &tenants, &mut faults);
    if file.is_none() && !faults.iter().any(|fault| fault.field == Field::File) {
        faults.insert(0, FieldFault { field: Field::File, matter: Matter::Missing });
    }
    if let (Some(order), Some((file, name)), true) = (order, file, faults.is_empty()) {
        let order = Order { file_name: name, ..order };
        let tenant = asker.tenant(http, order.tenant.as_str(), Role::Admin).await?;
        let mut tx = http.db.begin(Scope::Ingest).await?;
        let entry = audit::Entry {
            at: context.now,
            tenant: Some(tenant),
            who: &asker.who(),
            action: Action::Imported,
            object: &order.file_name,
            detail: &[("node", order.node.clone()), ("provider", order.provider.to_string())],
        };
        audit::write(&mut tx, entry).await?;
        match http.intake.submit(file, order, context.now) {
            Ok(id) => {
                tx.commit().await?;
                let href = context.here.to(Route::ImportRun(id)).href();
                return Ok(Redirect::to(&href).into_response());
            }
            Err(_) => faults.push(FieldFault { field: Field::File, matter: Matter::Full }),
        }
    }
    let has = |matter| faults.iter().any(|fault| fault.matter == matter);
    let status = match (has(Matter::TooLarge), has(Matter::Full)) {
        (true, _) => StatusCode::PAYLOAD_TOO_LARGE,
        (_, true) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    };
    let page = form(http, asker, &context, (tenants, entered, faults))?;
    Ok((status, Html(page)).into_response())
}

fn form(
    http: &Http,
    asker: &Asker,
    context: &Context,
    (tenants, entered, faults): (Vec<String>, Entered, Vec<FieldFault>),
) -> Result<String, Fault> {
    let latest = http.intake.latest().into_iter().filter(|(upload, _)| may_see(asker, upload));
    let latest = latest.map(|(upload, before)| ImportLine {
        state: import_run::state(&upload, before),
        id: upload.id,
        file: upload.order.file_name,
        node_name: upload.order.node,
        at: upload.at,
    });
    let mib_max = http.intake.bytes_max() / (1_024 * 1_024);
    let view = ImportView {
        entered,
        faults,
        tenants: if tenants.len() > 1 { tenants } else { Vec::new() },
        file_mib_max: i64::try_from(mib_max).unwrap_or(i64::MAX),
        latest: latest.collect(),
        latest_max: i64::try_from(UPLOADS_KEPT).unwrap_or(i64::MAX),
    };
    Ok(render(&view, context)?)
}

/// Slugs of the tenants that somebody can import a log into.
async fn tenants(http: &Http, asker: &Asker) -> Result<Vec<String>, Fault> {
    let tenants = asker.tenants(http, Role::Admin).await?;
    let slugs = tenants.into_iter().map(|tenant| tenant.slug.to_string());
    // No log belongs to the simulated fleet.
    Ok(slugs.filter(|slug| !demo::TENANTS.contains(&slug.as_str())).collect())
}

/// True for imports into a tenant that somebody may change.
pub(super) fn may_see(asker: &Asker, upload: &Upload) -> bool {
    asker.may(&upload.order.tenant, Role::Admin)
}

/// What was typed to ask for this.
fn entered(order: &Order) -> Entered {
    let kind = match order.kind {
        None => AUTO,
        Some(UploadKind::Log(LogKind::Smi)) => SMI,
        Some(UploadKind::Log(LogKind::Jsonl)) => JSONL,
        Some(UploadKind::Recording) => RECORDING,
    };
    // Whole seconds without a point, as they are typed.
    let cadence = order.cadence_ms.map(|ms| format!("{}.{:03}", ms / 1_000, ms % 1_000));
    let cadence = cadence.map(|text| text.trim_end_matches('0').trim_end_matches('.').to_owned());
    Entered {
        kind: kind.to_owned(),
        node: order.node.clone(),
        tenant: order.tenant.to_string(),
        provider: order.provider.to_string(),
        timezone: order.zone.name().to_owned(),
        columns: order.columns.clone().unwrap_or_default(),
        cadence: cadence.unwrap_or_default(),
        strict: order.strict,
    }
}

/// What is asked, without the file's name; `None` when a field is wrong, which is then in `faults`.
fn order(entered: &Entered, tenants: &[String], faults: &mut Vec<FieldFault>) -> Option<Order> {
    let or = |text: &str, default: &str| {
        let text = text.trim();
        if text.is_empty() { default.to_owned() } else { text.to_owned() }
    };
    let mut fault = |field, matter| faults.push(FieldFault { field, matter });
    let node = clean_text(entered.node.trim(), NAME_CHARACTERS_MAX).trim().to_owned();
    if node.is_empty() {
        let is_missing = entered.node.trim().is_empty();
        fault(Field::Node, if is_missing { Matter::Missing } else { Matter::Invalid });
    }
    let mut valid = |field, invalid: bool| {
        if invalid {
            fault(field, Matter::Invalid);
        }
    };
    let zone = Zone::parse(&or(&entered.timezone, "UTC")).ok();
    valid(Field::Timezone, zone.is_none());
    let provider = Slug::new(&or(&entered.provider, DEFAULT)).ok();
    valid(Field::Provider, provider.is_none());
    let first = tenants.first().map_or(DEFAULT, String::as_str);
    let tenant = or(&entered.tenant, first);
    let tenant = Slug::new(&tenant).ok().filter(|_| tenants.contains(&tenant));
    valid(Field::Tenant, tenant.is_none());
    let kind = match entered.kind.as_str() {
        "" | AUTO => Some(None),
        SMI => Some(Some(UploadKind::Log(LogKind::Smi))),
        JSONL => Some(Some(UploadKind::Log(LogKind::Jsonl))),
        RECORDING => Some(Some(UploadKind::Recording)),
        _ => None,
    };
    valid(Field::Kind, kind.is_none());
    let cadence = entered.cadence.trim();
    let cadence_ms = cadence_ms(cadence);
    valid(Field::Cadence, cadence_ms.is_none() && !cadence.is_empty());
    let columns = Some(entered.columns.trim().to_owned()).filter(|columns| !columns.is_empty());
    Some(Order {
        file_name: String::new(),
        kind: kind?,
        node,
        tenant: tenant?,
        provider: provider?,
        zone: zone?,
        columns,
        cadence_ms,
        strict: entered.strict,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(change: impl FnOnce(&mut Entered)) -> Vec<(Field, Matter)> {
        let mut entered = Entered { node: "old node".to_owned(), ..Entered::default() };
        change(&mut entered);
        let mut faults = Vec::new();
        let tenants = ["default".to_owned(), "research".to_owned()];
        let order = order(&entered, &tenants, &mut faults);
        assert!(order.is_some() || !faults.is_empty());
        faults.into_iter().map(|fault| (fault.field, fault.matter)).collect()
    }

    #[test]
    fn what_was_asked_can_be_asked_again() {
        let text = |text: &str| text.to_owned();
        let typed = Entered {
            kind: text("jsonl"),
            node: text("old node"),
            tenant: text("default"),
            provider: text("lambda"),
            timezone: text("Asia/Shanghai"),
            columns: text("timestamp,utilization.gpu"),
            cadence: text("2.5"),
            strict: true,
        };
        for cadence in ["2.5", "10", "0.001", ""] {
            let typed = Entered { cadence: text(cadence), ..typed.clone() };
            let order = order(&typed, &[text("default")], &mut Vec::new()).unwrap();
            assert_eq!(entered(&order), typed);
        }
    }

    #[test]
    fn a_form_with_a_name_alone_is_enough_and_each_mistake_is_of_its_field() {
        assert_eq!(faults(|_| ()), []);
        use Field::{Cadence, Kind, Node, Provider, Tenant, Timezone};
        use Matter::{Invalid, Missing};
        let text = |text: &str| text.to_owned();
        assert_eq!(faults(|e| e.node = text("  ")), [(Node, Missing)]);
        assert_eq!(faults(|e| e.node = text("\u{202e}\u{200b}")), [(Node, Invalid)]);
        assert_eq!(faults(|e| e.timezone = text("Mars/Base")), [(Timezone, Invalid)]);
        assert_eq!(faults(|e| e.provider = text("Lambda Labs")), [(Provider, Invalid)]);
        assert_eq!(faults(|e| e.tenant = text("demo")), [(Tenant, Invalid)]);
        assert_eq!(faults(|e| e.tenant = text("research")), []);
        assert_eq!(faults(|e| e.kind = text("dmon")), [(Kind, Invalid)]);
        assert_eq!(faults(|e| e.cadence = text("0")), [(Cadence, Invalid)]);
        assert_eq!(faults(|e| e.cadence = text(" 2.5 ")), []);
    }
}
