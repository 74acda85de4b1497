//! Addresses that work once: what each asks for, and what it then does.
//!
//! Looking at one uses nothing up; a form has to be sent. A link is looked for again in the
//! transaction that uses it, so it works once however often it is sent at a time.

use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, request};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use leasewatch_web::account::{Reach, Role as RoleWords};
use leasewatch_web::context::Context;
use leasewatch_web::form::{Field, FieldFault, Matter};
use leasewatch_web::pages::link::{LinkPurpose, LinkView, render};
use leasewatch_web::path::{Route, pattern};

use crate::http::Http;
use crate::http::entrance::{begin_session, peer_address};
use crate::http::error::Fault;
use crate::http::form::Fields;
use crate::http::visit::Visit;
use crate::password::{BYTES_MAX, CHARACTERS_MIN};
use crate::secret::Secret;
use crate::store::audit::{self, Action, Way, Who};
use crate::store::user::{self, Membership, NewUser, Role, UserKey};
use crate::store::user_link::{self, LinkRow, Purpose};
use crate::store::{Scope, Tx, user_session};

pub(in crate::http) async fn html(
    State(http): State<Http>,
    visit: Visit,
    Path(secret): Path<String>,
) -> Response {
    let answer = async {
        let (_, link) = find(&http, &secret, &visit).await?;
        page(&LinkView::first(purpose(&link)?), &visit.at(Route::Link(secret.clone())))
    };
    match answer.await {
        Ok(html) => Html(html).into_response(),
        Err(fault) => fault.page(&visit.context),
    }
}

pub(in crate::http) async fn send(
    State(http): State<Http>,
    visit: Visit,
    Path(secret): Path<String>,
    request: Request,
) -> Response {
    match take(&http, &visit, &secret, request).await {
        Ok(answer) => answer,
        Err(fault) => fault.page(&visit.context),
    }
}

/// The link that can be used now, and what it is stored by.
async fn find(http: &Http, secret: &str, visit: &Visit) -> Result<([u8; 32], LinkRow), Fault> {
    let hash = Secret::parse(secret).ok_or(Fault::LinkOver)?.hash();
    let mut tx = http.db.begin(Scope::Auth).await?;
    let link = user_link::find(&mut tx, &hash, visit.context.now).await?;
    tx.commit().await?;
    Ok((hash, link.ok_or(Fault::LinkOver)?))
}

fn purpose(link: &LinkRow) -> Result<LinkPurpose, Fault> {
    let name = || link.user.as_ref().map(|user| user.name.clone()).ok_or(Fault::LinkOver);
    Ok(match link.purpose {
        Purpose::Setup => LinkPurpose::Setup,
        Purpose::Invite => LinkPurpose::Invite { reach: reach(link.is_operator, &link.grants) },
        Purpose::Reset => LinkPurpose::Reset { name: name()? },
        Purpose::SignIn => LinkPurpose::SignIn { name: name()? },
    })
}

/// How far somebody reaches, as pages say it.
pub(super) fn reach(is_operator: bool, memberships: &[Membership]) -> Vec<Reach> {
    let tenant = |own: &Membership| Reach::Tenant {
        slug: own.slug.to_string(),
        role: match own.role {
            Role::Viewer => RoleWords::Viewer,
            Role::Admin => RoleWords::Admin,
        },
    };
    let operator = is_operator.then_some(Reach::Operator);
    operator.into_iter().chain(memberships.iter().map(tenant)).collect()
}

fn page(view: &LinkView, context: &Context) -> Result<String, Fault> {
    Ok(render(view, context)?)
}

/// What is wrong with a new password.
pub(super) fn password_faults(fields: &Fields) -> Vec<FieldFault> {
    let (password, again) = (fields.get("password"), fields.get("again"));
    let fault = |field, matter| vec![FieldFault { field, matter }];
    if password.is_empty() {
        fault(Field::Password, Matter::Missing)
    } else if password.len() > BYTES_MAX {
        fault(Field::Password, Matter::Long)
    } else if password.chars().count() < CHARACTERS_MIN {
        fault(Field::Password, Matter::Short)
    } else if password != again {
        fault(Field::Again, Matter::Different)
    } else {
        Vec::new()
    }
}

async fn take(
    http: &Http,
    visit: &Visit,
    secret: &str,
    request: Request,
) -> Result<Response, Fault> {
    let (hash, link) = find(http, secret, visit).await?;
    let known: &[&str] = match link.purpose {
        Purpose::Setup | Purpose::Invite => &["name", "password", "again"],
        Purpose::Reset => &["password", "again"],
        Purpose::SignIn => &[],
    };
    let (parts, fields) = Fields::read(request, known).await?;
    let name = fields.get("name").trim().to_ascii_lowercase();
    let mut faults = Vec::new();
    if known.contains(&"name") && !user::is_name(&name) {
        let matter = if name.is_empty() { Matter::Missing } else { Matter::Invalid };
        faults.push(FieldFault { field: Field::Name, matter });
    }
    if known.contains(&"password") {
        faults.extend(password_faults(&fields));
    }
    if faults.is_empty() {
        let password = match link.purpose {
            Purpose::SignIn => None,
            _ => Some(http.entrance.passwords.hash(fields.get("password").to_owned()).await?),
        };
        let chosen = Chosen { name: &name, password: password.as_deref() };
        match use_link(http, &parts, &hash, chosen).await? {
            Used::Entered(answer) => return Ok(answer),
            Used::Taken => {
                faults.push(FieldFault { field: Field::Name, matter: Matter::Taken });
            }
        }
    }
    let view = LinkView { name, faults, ..LinkView::first(purpose(&link)?) };
    let html = page(&view, &visit.at(Route::Link(secret.to_owned())))?;
    Ok((StatusCode::UNPROCESSABLE_ENTITY, Html(html)).into_response())
}

/// What was filled in.
#[derive(Clone, Copy)]
struct Chosen<'a> {
    name: &'a str,
    /// PHC string; `None` where none is asked for.
    password: Option<&'a str>,
}

enum Used {
    /// The browser is signed in.
    Entered(Response),
    /// Somebody has that name; the link still works.
    Taken,
}

async fn use_link(
    http: &Http,
    parts: &request::Parts,
    hash: &[u8; 32],
    chosen: Chosen<'_>,
) -> Result<Used, Fault> {
    let now = http.clock.now();
    let mut tx = http.db.begin(Scope::Auth).await?;
    user::hold(&mut tx).await?;
    let link = user_link::find(&mut tx, hash, now).await?.ok_or(Fault::LinkOver)?;
    if !user_link::use_up(&mut tx, &link, now).await? {
        return Err(Fault::LinkOver);
    }
    let user = match &link.user {
        Some(known) => known.key,
        None => match make(&mut tx, &link, chosen, now).await? {
            Some(made) => made,
            None => {
                tx.rollback().await?;
                return Ok(Used::Taken);
            }
        },
    };
    if let (Purpose::Reset, Some(password)) = (link.purpose, chosen.password) {
        user::set_password(&mut tx, user, password).await?;
        user_session::close_all(&mut tx, user).await?;
    }
    let cookie = begin_session(http, &mut tx, parts, user).await?;
    let name = link.user.as_ref().map_or(chosen.name, |known| known.name.as_str());
    let address = peer_address(parts).map(|address| address.to_string());
    let who = Who { user: Some((user, name.to_owned())), way: Way::Session, address };
    let purpose = [("purpose", link.purpose.name().to_owned())];
    let entry = |action, detail| audit::Entry {
        at: now,
        tenant: None,
        who: &who,
        action,
        object: name,
        detail,
    };
    if link.user.is_none() {
        audit::write(&mut tx, entry(Action::UserMade, &[])).await?;
    }
    audit::write(&mut tx, entry(Action::LinkUsed, &purpose)).await?;
    tx.commit().await?;
    tracing::info!(purpose = ?link.purpose, "a link was used");
    Ok(Used::Entered((cookie, Redirect::to(pattern::OVERVIEW)).into_response()))
}

/// The user that a link makes; `None` when the name is taken.
async fn make(
    tx: &mut Tx,
    link: &LinkRow,
    chosen: Chosen<'_>,
    at: leasewatch_core::time::Timestamp,
) -> Result<Option<UserKey>, Fault> {
    let new = NewUser {
        name: chosen.name,
        password_hash: chosen.password,
        is_operator: link.is_operator,
        at,
    };
    let Some(key) = user::create(tx, new).await? else { return Ok(None) };
    for grant in &link.grants {
        user::set_role(tx, key, grant.tenant, Some(grant.role)).await?;
    }
    Ok(Some(key))
}
