//! How nodes join: join strings are made here, listed, and taken back.

mod token;

use axum::extract::{Request, State};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use leasewatch_core::id::Slug;
use leasewatch_core::time::{DAY_MS, Timestamp};
use leasewatch_web::context::Context;
use leasewatch_web::pages::enroll::{
    EnrollFault, EnrollView, Entered, InstallerFacts, MadeString, TokenLine, TokenState, VALID,
    render,
};
use leasewatch_web::path::{Route, pattern};

use crate::enrollment::{
    CEILING_MAX, IssueError, Issued, Order, TokenKey, TokenKind, taken_back as taken_back_by,
};
use crate::http::Http;
use crate::http::asking::Asker;
use crate::http::error::Fault;
use crate::http::form::Fields;
use crate::http::install;
use crate::http::visit::Visit;
use crate::store::Scope;
use crate::store::enrollment::{self, TokenRow};
use crate::store::user::Role;

pub(in crate::http) use token::{events, token};

/// Milliseconds of each of [`VALID`].
const VALID_MS: [i64; VALID.len()] =
    [15 * 60_000, 3_600_000, DAY_MS, 7 * DAY_MS, 30 * DAY_MS, 90 * DAY_MS];

pub(in crate::http) async fn html(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(Route::Enroll)?;
        page(&http, &asker, &context, Beside::default()).await
    };
    finish(answer.await, &visit, Route::Enroll)
}

/// What the page shows beside what the store knows.
#[derive(Default)]
struct Beside {
    entered: Entered,
    fault: Option<EnrollFault>,
    made: Option<MadeString>,
}

fn finish(answer: Result<Response, Fault>, visit: &Visit, route: Route) -> Response {
    answer.unwrap_or_else(|fault| fault.page(&visit.at(route)))
}

async fn page(
    http: &Http,
    asker: &Asker,
    context: &Context,
    beside: Beside,
) -> Result<Response, Fault> {
    let tenants = asker.tenants(http, Role::Admin).await?;
    let view = EnrollView {
        tenants: tenants.into_iter().map(|tenant| tenant.slug.to_string()).collect(),
        entered: beside.entered,
        fault: beside.fault,
        made: beside.made,
        installer: installer(http).await,
        tokens: lines(http, asker, context.now).await?,
    };
    Ok(Html(render(&view, context)?).into_response())
}

async fn installer(http: &Http) -> Option<InstallerFacts> {
    let found = install::current(http).await?;
    Some(InstallerFacts { url: http.installers.url()?, sha256: found.digest.to_string() })
}

/// Tokens that the asker may take back, the newest first.
pub(in crate::http) async fn lines(
    http: &Http,
    asker: &Asker,
    now: Timestamp,
) -> Result<Vec<TokenLine>, Fault> {
    let mut tokens = Vec::new();
    for scope in asker.scopes() {
        let mut tx = http.db.begin(scope).await?;
        tokens.extend(enrollment::tokens(&mut tx).await?);
        tx.commit().await?;
    }
    let own = tokens.into_iter().filter(|token| asker.may(&token.tenant, Role::Admin));
    Ok(own.map(|token| line(&token, asker, now)).collect())
}

fn line(token: &TokenRow, asker: &Asker, now: Timestamp) -> TokenLine {
    let node_ceiling = match token.kind {
        TokenKind::Single => 1,
        TokenKind::Fleet(ceiling) => i64::from(ceiling),
    };
    let joins = i64::from(token.joins);
    let state = if token.revoked_at.is_some() {
        TokenState::Revoked
    } else if joins >= node_ceiling {
        TokenState::Used
    } else if token.expires_at <= now {
        TokenState::Expired
    } else {
        TokenState::Good
    };
    TokenLine {
        number: token.key.number(),
        tenant: token.tenant.to_string(),
        provider: token.provider.to_string(),
        lease: token.lease.as_ref().map(Slug::to_string),
        node_ceiling,
        joins,
        created_by: token.created_by.clone(),
        created_at: token.created_at,
        expires_at: token.expires_at,
        state,
        may_revoke: state == TokenState::Good && asker.may(&token.tenant, Role::Admin),
    }
}

pub(in crate::http) async fn make(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let answer = async {
        let context = visit.at(Route::Enroll);
        let entered = entered(request).await?;
        let mut beside = Beside::default();
        match issued(&http, &asker, &entered).await? {
            Ok(made) => beside.made = Some(made),
            Err(fault) => beside.fault = Some(fault),
        }
        beside.entered = entered;
        page(&http, &asker, &context, beside).await
    };
    finish(answer.await, &visit, Route::Enroll)
}

/// What the form says.
pub(in crate::http) async fn entered(request: Request) -> Result<Entered, Fault> {
    let (_, fields) =
        Fields::read(request, &["tenant", "provider", "lease", "nodes", "valid"]).await?;
    Ok(Entered {
        tenant: fields.get("tenant").to_owned(),
        provider: fields.get("provider").to_owned(),
        lease: fields.get("lease").to_owned(),
        nodes: fields.get("nodes").to_owned(),
        valid: fields.get("valid").to_owned(),
    })
}

/// Makes what the form asks for; the inner fault is the form's.
pub(in crate::http) async fn issued(
    http: &Http,
    asker: &Asker,
    entered: &Entered,
) -> Result<Result<MadeString, EnrollFault>, Fault> {
    let tenant = Slug::new(&entered.tenant).map_err(|_| Fault::NotFound)?;
    // Not there and not yours are one answer.
    asker.tenant(http, tenant.as_str(), Role::Admin).await?;
    let wanted = match wanted(entered) {
        Ok(wanted) => wanted,
        Err(fault) => return Ok(Err(fault)),
    };
    match issue(http, asker, &tenant, &wanted).await {
        Ok(issued) => Ok(Ok(shown(&issued, &tenant, wanted.kind))),
        Err(IssueError::NoLease { .. }) => Ok(Err(EnrollFault::Lease)),
        Err(IssueError::OtherProvider { .. }) => Ok(Err(EnrollFault::LeaseProvider)),
        Err(error) => Err(error.into()),
    }
}

/// What the form asks for.
struct Wanted {
    provider: Option<Slug>,
    lease: Option<Slug>,
    kind: TokenKind,
    valid_ms: i64,
}

fn wanted(entered: &Entered) -> Result<Wanted, EnrollFault> {
    // A text is nothing, or a name.
    let named = |text: &str| (!text.is_empty()).then(|| Slug::new(text)).transpose();
    let lease = named(&entered.lease).map_err(|_| EnrollFault::Lease)?;
    let provider = named(&entered.provider).map_err(|_| EnrollFault::Provider)?;
    if provider.is_none() && lease.is_none() {
        return Err(EnrollFault::Provider);
    }
    let kind = match entered.nodes.parse() {
        Ok(1_u32) => TokenKind::Single,
        Ok(nodes) if (2..=CEILING_MAX).contains(&nodes) => TokenKind::Fleet(nodes),
        _ => return Err(EnrollFault::Nodes),
    };
    let place = VALID.iter().position(|time| *time == entered.valid);
    let valid_ms = place.map(|place| VALID_MS[place]).ok_or(EnrollFault::Valid)?;
    Ok(Wanted { provider, lease, kind, valid_ms })
}

async fn issue(
    http: &Http,
    asker: &Asker,
    tenant: &Slug,
    wanted: &Wanted,
) -> Result<Issued, IssueError> {
    let created_by = asker.row().map_or("a page", |user| user.name.as_str());
    let (provider, lease) = (wanted.provider.as_ref(), wanted.lease.as_ref());
    let (kind, valid_ms, who) = (wanted.kind, wanted.valid_ms, asker.who());
    let order = Order { tenant, provider, lease, kind, valid_ms, created_by, who: Some(&who) };
    http.issuer.issue(order).await
}

fn shown(issued: &Issued, tenant: &Slug, kind: TokenKind) -> MadeString {
    MadeString {
        text: issued.join.to_secret_text(),
        tenant: tenant.to_string(),
        number: issued.key.number(),
        node_ceiling: match kind {
            TokenKind::Single => 1,
            TokenKind::Fleet(ceiling) => ceiling.into(),
        },
        expires_at: issued.expires_at,
    }
}

pub(in crate::http) async fn revoke(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let answer = taken_back(&http, &asker, request).await;
    let answer = answer.map(|()| Redirect::to(pattern::ENROLL).into_response());
    finish(answer, &visit, Route::Enroll)
}

/// Takes the token back that the form names.
pub(in crate::http) async fn taken_back(
    http: &Http,
    asker: &Asker,
    request: Request,
) -> Result<(), Fault> {
    let (_, fields) = Fields::read(request, &["tenant", "token"]).await?;
    let number = fields.get("token").parse().map_err(|_| Fault::NotFound)?;
    let tenant = asker.tenant(http, fields.get("tenant"), Role::Admin).await?;
    let mut tx = http.db.begin(Scope::Ingest).await?;
    let key = TokenKey::new(tenant, number);
    let now = http.clock.now();
    if !enrollment::revoke_token(&mut tx, key, now).await? {
        return Err(Fault::NotFound);
    }
    taken_back_by(&mut tx, (tenant, number), &asker.who(), now).await?;
    tx.commit().await?;
    Ok(())
}
