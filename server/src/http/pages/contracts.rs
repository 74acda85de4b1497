//! SLA profiles that leases can name, and own contracts by form.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Redirect, Response};
use leasewatch_core::sla::profile::{Profile, shipped};
use leasewatch_core::time::Timestamp;
use leasewatch_web::context::Context;
use leasewatch_web::pages::contracts::{ContractLine, ContractsView, field_names, render};
use leasewatch_web::path::Route;

use super::lease::written;
use super::lease_form::tenants;
use crate::apply::contract;
use crate::apply::entered::Entered;
use crate::http::Http;
use crate::http::asking::Asker;
use crate::http::error::Fault;
use crate::http::form::Fields;
use crate::http::visit::Visit;
use crate::store::user::Role;
use crate::store::{Scope, profile};

pub(in crate::http) async fn html(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(Route::Contracts)?;
        let view = view(&http, &asker, &context).await?;
        Ok::<_, Fault>(Html(render(&view, &context)?).into_response())
    };
    answer.await.unwrap_or_else(|fault| fault.page(&visit.at(Route::Contracts)))
}

pub(in crate::http) async fn json(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(Route::Contracts)?;
        view(&http, &asker, &context).await
    };
    answer.await.map_or_else(|fault| fault.problem(), |view| Json(view).into_response())
}

/// What there is. The form begins with the latest version of what the address asks for, as
/// `tenant/name`; with nothing where it is not there, or not this asker's.
async fn view(http: &Http, asker: &Asker, context: &Context) -> Result<ContractsView, Fault> {
    let mut contracts = Vec::new();
    let mut entered = BTreeMap::new();
    let asked = context.here.state.find.as_deref().and_then(|text| text.split_once('/'));
    for own in asker.tenants(http, Role::Viewer).await? {
        let mut tx = http.db.begin(Scope::Tenant(own.tenant)).await?;
        let known = profile::of_tenant(&mut tx, own.tenant).await?;
        tx.commit().await?;
        for (profile, written_at) in known.into_iter().rev() {
            let is_asked = asked == Some((own.slug.as_str(), profile.id.as_str()));
            if is_asked && entered.is_empty() && asker.may(&own.slug, Role::Admin) {
                entered = contract::entered_of(&profile).0;
                entered.insert("tenant".to_owned(), own.slug.to_string());
            }
            contracts.push(line(Some(own.slug.to_string()), &profile, Some(written_at)));
        }
    }
    let own = shipped().iter().filter_map(|(_, text)| Profile::parse(text).ok());
    contracts.extend(own.map(|profile| line(None, &profile, None)));
    let tenants = tenants(http, asker).await?;
    Ok(ContractsView { contracts, tenants, entered, wrong: None })
}

fn line(tenant: Option<String>, profile: &Profile, written_at: Option<Timestamp>) -> ContractLine {
    ContractLine {
        tenant,
        id: profile.id.to_string(),
        version: profile.version,
        provider: profile.provider.clone(),
        product: profile.product.clone(),
        is_reviewed: profile.reviewed_by.is_some(),
        written_at,
    }
}

/// Stores a form as the next version.
pub(in crate::http) async fn send(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let answer = async {
        let context = visit.at(Route::Contracts);
        let names: Vec<&str> = field_names().into_iter().chain(["action"]).collect();
        let (_, fields) = Fields::read(request, &names).await?;
        let all = tenants(&http, &asker).await?;
        let first = all.first().map_or("", String::as_str);
        let named = fields.get("tenant");
        let named = if named.is_empty() { first } else { named };
        let tenant = asker.tenant(&http, named, Role::Admin).await?;
        let typed = names
            .iter()
            .map(|name| ((*name).to_owned(), fields.get(name).replace('\r', "").trim().to_owned()));
        let entered = Entered(typed.filter(|(_, text)| !text.is_empty()).collect());
        let mut tx = http.db.begin(Scope::Tenant(tenant)).await?;
        let by = (written(&asker, &context, ""), &asker.who());
        match contract::store(&mut tx, tenant, &entered, by).await? {
            Ok(_) => {
                tx.commit().await?;
                Ok::<_, Fault>(Redirect::to(&context.here.href()).into_response())
            }
            Err(wrong) => {
                tx.rollback().await?;
                let view = ContractsView {
                    entered: entered.0,
                    wrong: Some((wrong.field, wrong.matter)),
                    ..self::view(&http, &asker, &context).await?
                };
                let page = Html(render(&view, &context)?);
                Ok((StatusCode::UNPROCESSABLE_ENTITY, page).into_response())
            }
        }
    };
    answer.await.unwrap_or_else(|fault| fault.page(&visit.at(Route::Contracts)))
}
