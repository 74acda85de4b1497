//! Assigning GPUs to a lease.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Redirect, Response};
use leasewatch_core::id::{NodeId, SlotNo};
use leasewatch_core::time::{Period, Timestamp};
use leasewatch_web::context::Context;
use leasewatch_web::pages::NodeName;
use leasewatch_web::pages::lease_assign::{FreeGpu, FreeNode, LeaseAssignView, render};
use leasewatch_web::pages::lease_form::{FieldFault, LeaseMatter};
use leasewatch_web::path::LeasePart;

use super::lease::{At, Names, at, note, route, written};
use super::lease_form::{overlap_matter, time_text};
use super::leases::gpus;
use crate::apply::entered::moment;
use crate::http::Http;
use crate::http::asking::Asker;
use crate::http::error::Fault;
use crate::http::form::Fields;
use crate::http::visit::Visit;
use crate::store::assignment::NewAssignment;
use crate::store::lease::{LeaseRow, Written, period};
use crate::store::user::Role;
use crate::store::{Tx, assignment, gpu, lease, node, slot};

/// GPUs that are assigned at once.
const CHOSEN_MAX: usize = 256;

/// What was sent and is shown again.
#[derive(Default)]
struct Sent {
    entered: (String, String),
    chosen: Vec<String>,
    faults: Vec<FieldFault>,
}

pub(in crate::http) async fn html(
    State(http): State<Http>,
    names: Names,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(route(&names, LeasePart::Assign))?;
        let mut at = at(&http, &asker, &names, Role::Admin).await?;
        let start = time_text(at.row.terms.starts_at, context.zone);
        let sent = Sent { entered: (start, String::new()), ..Sent::default() };
        let view = view(&mut at, sent, context.now).await?;
        Ok::<_, Fault>(Html(render(&view, &context)?).into_response())
    };
    answer.await.unwrap_or_else(|fault| fault.page(&visit.at(route(&names, LeasePart::Assign))))
}

pub(in crate::http) async fn send(
    State(http): State<Http>,
    names: Names,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let answer = async {
        let context = visit.at(route(&names, LeasePart::Assign));
        let known = ["starts_at", "ends_at"];
        let (_, fields) = Fields::read_lists(request, &known, &["gpu"]).await?;
        let mut here = at(&http, &asker, &names, Role::Admin).await?;
        let entered = (fields.get("starts_at").to_owned(), fields.get("ends_at").to_owned());
        let chosen: Vec<String> = fields.all("gpu").take(CHOSEN_MAX).map(str::to_owned).collect();
        let written = written(&asker, &context, "");
        let faults = put(&mut here, (&entered, &chosen), (&context, written)).await?;
        if faults.is_empty() {
            let of = (here.row.key.tenant, here.row.terms.name.clone());
            let what = format!("{} GPUs assigned", chosen.len());
            note(&mut here.tx, (of.0, of.1.as_str()), (&asker, context.now), &what).await?;
            here.tx.commit().await?;
            let page = context.here.to(route(&names, LeasePart::Page)).href();
            return Ok(Redirect::to(&page).into_response());
        }
        // What was written before the refusal is taken back.
        here.tx.rollback().await?;
        let mut here = at(&http, &asker, &names, Role::Admin).await?;
        let view = view(&mut here, Sent { entered, chosen, faults }, context.now).await?;
        let page = Html(render(&view, &context)?);
        Ok::<_, Fault>((StatusCode::UNPROCESSABLE_ENTITY, page).into_response())
    };
    answer.await.unwrap_or_else(|fault| fault.page(&visit.at(route(&names, LeasePart::Assign))))
}

async fn put(
    at: &mut At,
    ((from, to), chosen): (&(String, String), &[String]),
    (context, written): (&Context, Written<'_>),
) -> Result<Vec<FieldFault>, Fault> {
    let mut faults = Vec::new();
    let start = match from.trim() {
        "" => Some(at.row.terms.starts_at),
        text => moment(text, context.zone),
    };
    if start.is_none() {
        faults.push(FieldFault::new("starts_at", LeaseMatter::Invalid));
    }
    let ends_at = moment(to, context.zone);
    let is_open = to.trim().is_empty();
    if !is_open && ends_at.is_none_or(|end| start.is_some_and(|start| end <= start)) {
        faults.push(FieldFault::new("ends_at", LeaseMatter::Invalid));
    }
    if chosen.is_empty() {
        faults.push(FieldFault::new("gpus", LeaseMatter::Invalid));
    }
    let Some(starts_at) = start.filter(|_| faults.is_empty()) else { return Ok(faults) };
    for value in chosen {
        let bad = || Fault::BadRequest("gpu".to_owned());
        let (id, number) = value.split_once(':').ok_or_else(bad)?;
        let id: NodeId = id.parse().map_err(|_| bad())?;
        let number: u16 = number.parse().map_err(|_| bad())?;
        let slot = SlotNo(i16::try_from(number).map_err(|_| bad()).map(|_| number)?);
        let node = node::by_public_id(&mut at.tx, id).await?.ok_or(Fault::NotFound)?;
        let new = NewAssignment { node: node.key, slot, starts_at, ends_at };
        let put = assignment::put(&mut at.tx, at.row.key, new, written).await?;
        if let Err(overlap) = put {
            faults.push(FieldFault::new("gpus", overlap_matter(&overlap)));
            break;
        }
    }
    Ok(faults)
}

async fn view(at: &mut At, sent: Sent, now: Timestamp) -> Result<LeaseAssignView, Fault> {
    let own = assignment::of_lease(&mut at.tx, at.row.key).await?;
    let assigned = gpus(own.iter(), &at.row.terms, now);
    let contracted = i64::from(at.row.terms.gpu_count);
    Ok(LeaseAssignView {
        tenant: at.row.tenant.to_string(),
        lease: at.row.terms.name.to_string(),
        gpus_unassigned: (contracted - assigned).max(0),
        gpus_contracted: contracted,
        nodes: free(&mut at.tx, &at.row).await?,
        entered: sent.entered,
        chosen: sent.chosen,
        faults: sent.faults,
    })
}

/// Nodes with GPUs that nothing covers in the lease's term, those of its provider first, and of them
/// those of its model.
async fn free(tx: &mut Tx, row: &LeaseRow) -> Result<Vec<FreeNode>, Fault> {
    let term = period(&row.terms);
    let others = lease::list(tx).await?;
    let covered: Vec<_> = assignment::list(tx)
        .await?
        .into_iter()
        .filter(|of| {
            let other = others.iter().find(|other| other.key == of.lease);
            let theirs = other.map_or(of.period(), |other| period(&other.terms));
            !of.period().intersect(theirs).intersect(term).is_empty()
        })
        .collect();
    let wanted = plain(&row.terms.gpu_model);
    let mut nodes = Vec::new();
    for node in node::list(tx).await? {
        let enrolled = Period::new(node.enrolled_at, node.retired_at.unwrap_or(Timestamp::MAX));
        if enrolled.intersect(term).is_empty() {
            continue;
        }
        let known = gpu::of_node(tx, node.key).await?;
        let fits = node.provider == row.terms.provider;
        let mut gpus = Vec::new();
        for slot in slot::of_node(tx, node.key).await? {
            let is_covered =
                covered.iter().any(|of| of.node == node.key && of.assignment.slot == slot.slot);
            if is_covered {
                continue;
            }
            let model = known.iter().find(|gpu| gpu.slot == slot.slot);
            let model = model.and_then(|gpu| gpu.name.clone());
            let is_model = model.as_deref().is_some_and(|name| plain(name).contains(&wanted));
            gpus.push(FreeGpu { number: slot.slot.0, model, fits: fits && is_model });
        }
        if !gpus.is_empty() {
            let (id, name) = (node.id.to_string(), node.name);
            let name = NodeName { id, name, origin: node.origin };
            nodes.push(FreeNode { name, provider: node.provider.to_string(), fits, gpus });
        }
    }
    nodes.sort_by_key(|node| (!node.gpus.iter().any(|gpu| gpu.fits), !node.fits));
    Ok(nodes)
}

/// A model's name without blanks and signs, so that `H100-SXM` is found in `NVIDIA H100 SXM5`.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase()
}
