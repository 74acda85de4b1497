//! Who there is: inviting, giving roles, disabling. For operators who signed in.

use axum::extract::{Query, Request, State};
use axum::http::header::ORIGIN;
use axum::http::{StatusCode, request};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use leasewatch_core::time::{DAY_MS, Timestamp};
use leasewatch_web::account::Reach;
use leasewatch_web::context::Context;
use leasewatch_web::form::{Field, FieldFault, Matter};
use leasewatch_web::pages::users::{MadeLink, UserLine, UsersView, render};
use leasewatch_web::path::{Address, Route, UrlState};

use super::account::{Shown, user as own_row};
use super::link;
use crate::http::Http;
use crate::http::asking::Asker;
use crate::http::error::Fault;
use crate::http::form::Fields;
use crate::http::visit::Visit;
use crate::secret::Secret;
use crate::store::audit::{self, Action};
use crate::store::user::{self, Membership, Role, UserRow};
use crate::store::user_link::{self, NewLink, Purpose};
use crate::store::{Scope, StoreError, TenantKey, Tx};

/// How long an invitation and a new password wait.
const LINK_MS: i64 = 7 * DAY_MS;
/// Where everything that went well leads.
const DONE: &str = "/settings/users?done=1";

/// What the page shows beside what the store knows.
#[derive(Default)]
struct Beside {
    made: Option<MadeLink>,
    is_done: bool,
    faults: Vec<FieldFault>,
}

pub(in crate::http) async fn html(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    Query(shown): Query<Shown>,
) -> Response {
    let beside = Beside { is_done: shown.is_done(), ..Beside::default() };
    let answer = async {
        let context = visit.checked(Route::Users)?;
        Ok::<_, Fault>(Html(page(&http, &asker, &context, beside).await?).into_response())
    };
    finish(answer.await, &visit)
}

fn finish(answer: Result<Response, Fault>, visit: &Visit) -> Response {
    answer.unwrap_or_else(|fault| fault.page(&visit.at(Route::Users)))
}

async fn page(
    http: &Http,
    asker: &Asker,
    context: &Context,
    beside: Beside,
) -> Result<String, Fault> {
    let mut tx = http.db.begin(Scope::Auth).await?;
    let users = user::list(&mut tx).await?;
    tx.commit().await?;
    let tenants = asker.tenants(http, Role::Admin).await?;
    let view = UsersView {
        users: users
            .into_iter()
            .map(|row| UserLine {
                reach: link::reach(row.is_operator, &row.memberships),
                created_at: row.created_at,
                is_disabled: row.disabled_at.is_some(),
                is_self: asker.user() == Some(row.key),
                name: row.name,
            })
            .collect(),
        tenants: tenants.into_iter().map(|tenant| tenant.slug.to_string()).collect(),
        made: beside.made,
        is_done: beside.is_done,
        faults: beside.faults,
    };
    Ok(render(&view, context)?)
}

pub(in crate::http) async fn invite(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let answer = async {
        let context = visit.at(Route::Users);
        let own = own_row(&asker)?;
        let (parts, fields) = Fields::read(request, &["reach"]).await?;
        let grants = match Reach::from_value(fields.get("reach")) {
            Some(Reach::Operator) => Some(Vec::new()),
            Some(reach) => grant(&http, &asker, &reach).await?.map(|grant| vec![grant]),
            None => None,
        };
        let Some(grants) = grants else {
            let faults = vec![FieldFault { field: Field::Reach, matter: Matter::Invalid }];
            return wrong(&http, &asker, &context, faults).await;
        };
        let mut tx = http.db.begin(Scope::Auth).await?;
        let wanted = Wanted { purpose: Purpose::Invite, user: None, grants: &grants };
        let made = make_link(&mut tx, &parts, own, wanted, context.now).await?;
        let reach = fields.get("reach");
        noted(&mut tx, (&asker, context.now), (Action::UserInvited, reach), &[]).await?;
        tx.commit().await?;
        let beside = Beside { made: Some(made), ..Beside::default() };
        Ok(Html(page(&http, &asker, &context, beside).await?).into_response())
    };
    finish(answer.await, &visit)
}

/// A role in a tenant that is there.
async fn grant(
    http: &Http,
    asker: &Asker,
    reach: &Reach,
) -> Result<Option<(TenantKey, Role)>, Fault> {
    let tenants = asker.tenants(http, Role::Admin).await?;
    let Reach::Tenant { slug, role } = reach else { return Ok(None) };
    let found = tenants.into_iter().find(|tenant| tenant.slug.as_str() == slug);
    Ok(found.zip(Role::from_name(role.name())).map(|(own, role)| (own.tenant, role)))
}

/// A link that is to be made; without grants an invitation makes an operator.
struct Wanted<'a> {
    purpose: Purpose,
    user: Option<&'a UserRow>,
    grants: &'a [(TenantKey, Role)],
}

async fn make_link(
    tx: &mut Tx,
    parts: &request::Parts,
    own: &UserRow,
    wanted: Wanted<'_>,
    now: Timestamp,
) -> Result<MadeLink, Fault> {
    let secret = Secret::random()?;
    let expires_at = now.plus_ms(LINK_MS);
    let new = NewLink {
        hash: &secret.hash(),
        purpose: wanted.purpose,
        user: wanted.user.map(|user| user.key),
        is_operator: wanted.purpose == Purpose::Invite && wanted.grants.is_empty(),
        grants: wanted.grants,
        created_by: Some(own.key),
        at: now,
        expires_at,
    };
    user_link::create(tx, new).await?;
    let path = Address { route: Route::Link(secret.text()), state: UrlState::default() }.path();
    Ok(MadeLink {
        address: format!("{}{path}", origin(parts)),
        reset: wanted.user.map(|user| user.name.clone()),
        expires_at,
    })
}

/// This server as the browser knows it. The origin of a form that was let through is this server's
/// own; a browser that says nothing of it gets the path alone.
fn origin(parts: &request::Parts) -> &str {
    let said = parts.headers.get(ORIGIN).and_then(|value| value.to_str().ok());
    said.filter(|origin| origin.starts_with("http") && origin.len() < 300).unwrap_or_default()
}

async fn wrong(
    http: &Http,
    asker: &Asker,
    context: &Context,
    faults: Vec<FieldFault>,
) -> Result<Response, Fault> {
    let html = page(http, asker, context, Beside { faults, ..Beside::default() }).await?;
    Ok((StatusCode::UNPROCESSABLE_ENTITY, Html(html)).into_response())
}

/// What is done to a user.
enum Change {
    Disable,
    Enable,
    Reset,
    Operator(bool),
    Role(TenantKey, Option<Role>),
}

pub(in crate::http) async fn change(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let answer = async {
        let context = visit.at(Route::Users);
        let own = own_row(&asker)?;
        let (parts, fields) = Fields::read(request, &["user", "action", "role"]).await?;
        let tenants = asker.tenants(&http, Role::Admin).await?;
        let change = wanted(&fields, &tenants)?;
        let mut tx = http.db.begin(Scope::Auth).await?;
        user::hold(&mut tx).await?;
        let row = user::by_name(&mut tx, fields.get("user")).await?.ok_or(Fault::NotFound)?;
        let takes_operator = matches!(change, Change::Disable | Change::Operator(false));
        if takes_operator && row.is_operator && !user::another_operator(&mut tx, row.key).await? {
            tx.rollback().await?;
            let faults = vec![FieldFault { field: Field::User, matter: Matter::LastOperator }];
            return wrong(&http, &asker, &context, faults).await;
        }
        let action = change.action();
        noted(&mut tx, (&asker, context.now), (action, &row.name), &[("role", role(&fields))])
            .await?;
        let mut made = None;
        match change {
            Change::Disable => user::set_disabled(&mut tx, row.key, Some(context.now)).await?,
            Change::Enable => user::set_disabled(&mut tx, row.key, None).await?,
            Change::Operator(is) => user::set_operator(&mut tx, row.key, is).await?,
            Change::Role(tenant, role) => user::set_role(&mut tx, row.key, tenant, role).await?,
            Change::Reset => {
                let wanted = Wanted { purpose: Purpose::Reset, user: Some(&row), grants: &[] };
                made = Some(make_link(&mut tx, &parts, own, wanted, context.now).await?);
            }
        }
        tx.commit().await?;
        if made.is_none() {
            return Ok(Redirect::to(DONE).into_response());
        }
        let beside = Beside { made, ..Beside::default() };
        Ok(Html(page(&http, &asker, &context, beside).await?).into_response())
    };
    finish(answer.await, &visit)
}

impl Change {
    fn action(&self) -> Action {
        match self {
            Self::Disable => Action::UserDisabled,
            Self::Enable => Action::UserEnabled,
            Self::Reset => Action::ResetLinkMade,
            Self::Operator(_) | Self::Role(..) => Action::RoleChanged,
        }
    }
}

/// The role that is given; empty where none is.
fn role(fields: &Fields) -> String {
    if fields.get("action") == "role" { fields.get("role").to_owned() } else { String::new() }
}

/// Notes what is done to a user, which is no tenant's.
pub(super) async fn noted(
    tx: &mut Tx,
    (asker, at): (&Asker, Timestamp),
    (action, object): (Action, &str),
    detail: &[(&str, String)],
) -> Result<(), StoreError> {
    let who = asker.who();
    audit::write(tx, audit::Entry { at, tenant: None, who: &who, action, object, detail }).await
}

fn wanted(fields: &Fields, tenants: &[Membership]) -> Result<Change, Fault> {
    let role = fields.get("role");
    Ok(match fields.get("action") {
        "disable" => Change::Disable,
        "enable" => Change::Enable,
        "reset" => Change::Reset,
        "role" if role == "operator" => Change::Operator(true),
        "role" if role == "no_operator" => Change::Operator(false),
        "role" => {
            let bad = || Fault::BadRequest("role".to_owned());
            let (slug, role) = role.split_once(':').ok_or_else(bad)?;
            let tenant = tenants.iter().find(|tenant| tenant.slug.as_str() == slug);
            let tenant = tenant.ok_or_else(bad)?.tenant;
            match (role, Role::from_name(role)) {
                ("none", _) => Change::Role(tenant, None),
                (_, Some(role)) => Change::Role(tenant, Some(role)),
                _ => return Err(bad()),
            }
        }
        _ => return Err(Fault::BadRequest("action".to_owned())),
    })
}
