//! From a verdict to the draft of a claim, with everything that its text will say.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Redirect, Response};
use leasewatch_core::lease::LeaseTerms;
use leasewatch_core::sla::claim_facts::ClaimFacts;
use leasewatch_core::sla::profile::Profile;
use leasewatch_core::time::{Period, Timestamp};
use leasewatch_web::pages::lease::render;
use leasewatch_web::path::{LeasePart, Route};

use super::claim::note;
use super::lease::{At, Names, at, finish, route, written};
use super::lease_judgement::verdicts;
use super::lease_view::{Sent, view};
use crate::http::Http;
use crate::http::asking::Asker;
use crate::http::deadlines::{deadline, profile_of};
use crate::http::error::Fault;
use crate::http::form::Fields;
use crate::http::visit::Visit;
use crate::store::claim::{self, ClaimDraft};
use crate::store::node::NodeRow;
use crate::store::user::Role;
use crate::store::verdict::Judged;
use crate::store::{assignment, node, profile};

/// Drafts a claim from the verdict with this hash, if it is the last word on its window.
pub(in crate::http) async fn draft(
    State(http): State<Http>,
    names: Names,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let answer = async {
        let context = visit.at(route(&names, LeasePart::Page));
        let (_, fields) = Fields::read(request, &["verdict"]).await?;
        let mut here = at(&http, &asker, &names, Role::Admin).await?;
        let draft = read(&mut here, fields.get("verdict"), context.now).await?;
        let (key, by) = (here.row.key, written(&asker, &context, ""));
        match claim::draft(&mut here.tx, key, &draft, by).await? {
            Ok(number) => {
                let entry = (number, "draft");
                note(&mut here.tx, key.tenant, (&asker, context.now), entry).await?;
                here.tx.commit().await?;
                let claim = context.here.to(Route::Claim(number)).href();
                Ok(Redirect::to(&claim).into_response())
            }
            Err(taken) => {
                let sent = Sent { taken_by: Some(taken.by), ..Sent::default() };
                let view = view(&http, &asker, here, (&context, sent)).await?;
                let page = Html(render(&view, &context)?);
                Ok((StatusCode::UNPROCESSABLE_ENTITY, page).into_response())
            }
        }
    };
    finish(answer.await, &visit, &names)
}

/// Everything that the claim rests on, as it is now.
async fn read(here: &mut At, hash: &str, now: Timestamp) -> Result<ClaimDraft, Fault> {
    let At { tx, row, .. } = here;
    let all = verdicts(tx, row.key, now).await?;
    let found = all.into_iter().find(|verdict| verdict.hash.to_string() == hash);
    let verdict = found.filter(|found| found.judged.is_owed()).ok_or(Fault::NotFound)?;
    let profiles = profile::all(tx, row.key.tenant).await?;
    let profile = profile_of(&profiles, &verdict.judged).ok_or(Fault::NotFound)?;
    let judged = &verdict.judged;
    let (asked, form) = judged.credit.ok_or(Fault::NotFound)?;
    let nodes = node::list(tx).await?;
    let assigned = assignment::of_lease(tx, row.key).await?;
    let own: Vec<&NodeRow> =
        nodes.iter().filter(|node| assigned.iter().any(|of| of.node == node.key)).collect();
    let facts = facts(judged, profile, (&row.terms, &own), form.name()).ok_or(Fault::NotFound)?;
    let interval = |(from, to): (i64, i64)| Period::new(Timestamp(from), Timestamp(to));
    Ok(ClaimDraft {
        objective: judged.of.objective.clone(),
        unit: judged.of.unit.clone(),
        window: judged.of.window,
        verdict: verdict.hash,
        profile: (judged.by.id.clone(), judged.by.version, judged.by.hash),
        intervals: judged.details.outages.iter().map(|o| interval(o.counted)).collect(),
        asked,
        deadline: deadline(profile, &row.terms, (judged, None)),
        facts: Some(facts),
    })
}

/// What verdict, profile and terms say; `None` when the nodes that it is about are gone, since then
/// nothing says where their data came from.
fn facts(
    judged: &Judged,
    profile: &Profile,
    (terms, own): (&LeaseTerms, &[&NodeRow]),
    form: &str,
) -> Option<ClaimFacts> {
    let (node, gpu) = match judged.of.unit.split_once('/') {
        Some((id, slot)) => (Some(id), slot.parse().ok()),
        None if judged.of.unit == "lease" => (None, None),
        None => (Some(judged.of.unit.as_str()), None),
    };
    let of_unit = |row: &&&NodeRow| node.is_none_or(|id| row.id.to_string() == id);
    let rows = || own.iter().filter(of_unit);
    Some(ClaimFacts {
        provider: profile.provider.clone(),
        product: terms.product.clone(),
        instance: terms.instance.clone(),
        machine: terms.machine.clone(),
        order: terms.order.clone(),
        region: terms.region.clone(),
        gpu_model: terms.gpu_model.clone(),
        gpu_count: terms.gpu_count,
        node: node.and_then(|_| rows().next()).map(|row| row.name.clone()),
        gpu,
        zone: terms.zone.name().to_owned(),
        origin: rows().map(|row| row.origin).max()?.name().to_owned(),
        target_ppm: judged.target.map(|target| target.ppm()),
        is_over: judged.is_over,
        whole_ms: judged.figures.whole_ms,
        proven_ms: judged.figures.proven_ms,
        unknown_ms: judged.figures.unknown_ms,
        outages: judged.details.outages.clone(),
        credit: judged.details.credit.clone(),
        form: form.to_owned(),
        source: (profile.source.url.clone(), profile.source.read_on.clone()),
        is_reviewed: profile.reviewed_by.is_some(),
        demands: profile.evidence_required.clone(),
    })
}
