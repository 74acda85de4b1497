//! A user's own page, and what can be changed on it.

use axum::extract::{Query, Request, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use leasewatch_core::id::clean_text;
use leasewatch_core::time::{DAY_MS, Timestamp};
use leasewatch_web::account::Reach;
use leasewatch_web::context::Context;
use leasewatch_web::form::{Field, FieldFault, Matter};
use leasewatch_web::i18n::Language;
use leasewatch_web::pages::account::{AccountView, SessionLine, TOKEN_DAYS, TokenLine, render};
use leasewatch_web::path::{Route, pattern};
use serde::Deserialize;

use super::users::noted;
use super::{link, sign_in};
use crate::http::Http;
use crate::http::asking::{Asker, IDLE_MS};
use crate::http::entrance::{begin_session, peer_address};
use crate::http::error::Fault;
use crate::http::form::Fields;
use crate::http::visit::Visit;
use crate::secret::{Secret, TOKEN_PREFIX};
use crate::store::audit::Action;
use crate::store::token::{self, NewToken, TokenKey};
use crate::store::user::{self, Membership, Role, UserRow};
use crate::store::user_session::{self, SessionKey};
use crate::store::{Scope, StoreError};

/// Characters of what a token is for.
const WHAT_CHARACTERS_MAX: usize = 80;
/// Where everything that went well leads.
const DONE: &str = "/account?done=1";

/// The query of the page.
#[derive(Debug, Deserialize)]
pub(in crate::http) struct Shown {
    /// Something was done.
    done: Option<String>,
}

impl Shown {
    pub(super) fn is_done(&self) -> bool {
        self.done.is_some()
    }
}

/// What the page shows beside what the store knows.
#[derive(Default)]
struct Beside {
    made_token: Option<String>,
    is_done: bool,
    faults: Vec<FieldFault>,
    what: String,
}

/// The user of a request that only a user can make.
pub(super) fn user(asker: &Asker) -> Result<&UserRow, Fault> {
    asker.row().ok_or(Fault::SignIn)
}

pub(in crate::http) async fn html(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    Query(shown): Query<Shown>,
) -> Response {
    let beside = Beside { is_done: shown.is_done(), ..Beside::default() };
    let answer = async {
        let context = visit.checked(Route::Account)?;
        Ok::<_, Fault>(Html(page(&http, &asker, &context, beside).await?).into_response())
    };
    finish(answer.await, &visit)
}

fn finish(answer: Result<Response, Fault>, visit: &Visit) -> Response {
    answer.unwrap_or_else(|fault| fault.page(&visit.at(Route::Account)))
}

async fn page(
    http: &Http,
    asker: &Asker,
    context: &Context,
    beside: Beside,
) -> Result<String, Fault> {
    let own = user(asker)?;
    let now = context.now;
    let mut tx = http.db.begin(Scope::Auth).await?;
    // Read again: what was just changed is shown changed.
    let row = user::by_key(&mut tx, own.key).await?.ok_or(Fault::SignIn)?;
    let sessions = user_session::of_user(&mut tx, own.key, now, now.plus_ms(-IDLE_MS)).await?;
    let tokens = token::list(&mut tx, Some(own.key), now).await?;
    tx.commit().await?;
    let view = AccountView {
        reach: link::reach(row.is_operator, &row.memberships),
        has_password: row.has_password,
        language: row.language.as_deref().and_then(Language::from_tag),
        sessions: sessions
            .into_iter()
            .map(|row| SessionLine {
                id: row.key.0,
                created_at: row.created_at,
                seen_at: row.seen_at,
                address: row.address,
                browser: row.browser,
                is_this: asker.session() == Some(row.key),
            })
            .collect(),
        tokens: tokens
            .into_iter()
            .map(|row| TokenLine {
                id: row.key.0,
                reach: link::reach(row.is_operator, &row.grants),
                what: row.name,
                expires_at: row.expires_at,
                used_at: row.used_at,
            })
            .collect(),
        token_reach: token_reach(http, asker).await?.into_iter().map(|(reach, _)| reach).collect(),
        name: row.name,
        made_token: beside.made_token,
        is_done: beside.is_done,
        faults: beside.faults,
        what: beside.what,
    };
    Ok(render(&view, context)?)
}

/// What a token of this user can reach, with what is stored for it; `None` stands for everything.
async fn token_reach(
    http: &Http,
    asker: &Asker,
) -> Result<Vec<(Reach, Option<Membership>)>, StoreError> {
    let own = asker.tenants(http, Role::Viewer).await?;
    let each = own.into_iter().flat_map(|own| {
        let roles = Role::ALL.into_iter().filter(move |role| *role <= own.role);
        roles.map(move |role| Membership { role, ..own.clone() })
    });
    let tenants = each.filter_map(|grant| {
        let reach = link::reach(false, std::slice::from_ref(&grant)).pop()?;
        Some((reach, Some(grant)))
    });
    let operator = asker.is_operator().then_some((Reach::Operator, None));
    Ok(tenants.chain(operator).collect())
}

/// The page with what is wrong.
async fn wrong(
    http: &Http,
    asker: &Asker,
    context: &Context,
    beside: Beside,
) -> Result<Response, Fault> {
    let html = page(http, asker, context, beside).await?;
    Ok((StatusCode::UNPROCESSABLE_ENTITY, Html(html)).into_response())
}

pub(in crate::http) async fn password(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let answer = async {
        let context = visit.at(Route::Account);
        let own = user(&asker)?;
        let known = ["username", "current", "password", "again"];
        let (parts, fields) = Fields::read(request, &known).await?;
        let mut faults = link::password_faults(&fields);
        if faults.is_empty() && own.has_password {
            let address = peer_address(&parts);
            let is_right = http.entrance.admit(&own.name, address, context.now)
                && sign_in::verify(&http, &own.name, fields.get("current")).await?.is_some();
            if is_right {
                http.entrance.forgive(&own.name, address);
            } else {
                faults.push(FieldFault { field: Field::Current, matter: Matter::NotCurrent });
            }
        }
        if !faults.is_empty() {
            return wrong(&http, &asker, &context, Beside { faults, ..Beside::default() }).await;
        }
        let hash = http.entrance.passwords.hash(fields.get("password").to_owned()).await?;
        let mut tx = http.db.begin(Scope::Auth).await?;
        user::set_password(&mut tx, own.key, &hash).await?;
        user_session::close_all(&mut tx, own.key).await?;
        let cookie = begin_session(&http, &mut tx, &parts, own.key).await?;
        noted(&mut tx, (&asker, context.now), (Action::PasswordChanged, &own.name), &[]).await?;
        tx.commit().await?;
        Ok((cookie, Redirect::to(DONE)).into_response())
    };
    finish(answer.await, &visit)
}

pub(in crate::http) async fn language(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let answer = async {
        let own = user(&asker)?;
        let (_, fields) = Fields::read(request, &["language"]).await?;
        let chosen = fields.get("language");
        let known = Language::ALL.into_iter().find(|language| language.tag() == chosen);
        if known.is_none() && !chosen.is_empty() {
            return Err(Fault::BadRequest("language".to_owned()));
        }
        let mut tx = http.db.begin(Scope::Auth).await?;
        user::set_language(&mut tx, own.key, known.map(Language::tag)).await?;
        tx.commit().await?;
        Ok(Redirect::to(DONE).into_response())
    };
    finish(answer.await, &visit)
}

pub(in crate::http) async fn session(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let answer = async {
        let own = user(&asker)?;
        let (_, fields) = Fields::read(request, &["session"]).await?;
        let key = SessionKey(fields.get("session").parse().map_err(|_| Fault::NotFound)?);
        let mut tx = http.db.begin(Scope::Auth).await?;
        if !user_session::close(&mut tx, own.key, key).await? {
            return Err(Fault::NotFound);
        }
        let now = visit.context.now;
        noted(&mut tx, (&asker, now), (Action::SessionEnded, &own.name), &[]).await?;
        tx.commit().await?;
        // Whoever ends the session that asks is out.
        let next = if asker.session() == Some(key) { pattern::SIGN_IN } else { DONE };
        Ok(Redirect::to(next).into_response())
    };
    finish(answer.await, &visit)
}

pub(in crate::http) async fn make_token(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let answer = async {
        let context = visit.at(Route::Account);
        let own = user(&asker)?;
        let (_, fields) = Fields::read(request, &["what", "reach", "days"]).await?;
        let what = clean_text(fields.get("what").trim(), WHAT_CHARACTERS_MAX);
        let wanted = Reach::from_value(fields.get("reach"));
        let reach = token_reach(&http, &asker).await?;
        let reach = reach.into_iter().find(|(reach, _)| Some(reach) == wanted.as_ref());
        let days = fields.get("days").parse().ok().filter(|days| TOKEN_DAYS.contains(days));
        let mut faults = Vec::new();
        let mut fault = |is_wrong, field, matter| {
            if is_wrong {
                faults.push(FieldFault { field, matter });
            }
        };
        fault(what.trim().is_empty(), Field::What, Matter::Missing);
        fault(reach.is_none(), Field::Reach, Matter::Invalid);
        fault(days.is_none(), Field::Days, Matter::Invalid);
        let (Some((_, grant)), Some(days), true) = (reach, days, faults.is_empty()) else {
            let beside = Beside { faults, what, ..Beside::default() };
            return wrong(&http, &asker, &context, beside).await;
        };
        let secret = Secret::random()?;
        let grants: Vec<_> = grant.iter().map(|grant| (grant.tenant, grant.role)).collect();
        let expires_at = end(context.now, days);
        let mut tx = http.db.begin(Scope::Auth).await?;
        let new = NewToken {
            hash: &secret.hash(),
            user: own.key,
            name: what.trim(),
            is_operator: grant.is_none(),
            grants: &grants,
            at: context.now,
            expires_at,
        };
        let key = token::create(&mut tx, new).await?;
        let detail = [
            ("number", key.0.to_string()),
            ("reach", fields.get("reach").to_owned()),
            ("expires_at", expires_at.to_string()),
        ];
        noted(&mut tx, (&asker, context.now), (Action::TokenMade, what.trim()), &detail).await?;
        tx.commit().await?;
        let made_token = Some(format!("{TOKEN_PREFIX}{}", secret.text()));
        let beside = Beside { made_token, ..Beside::default() };
        Ok(Html(page(&http, &asker, &context, beside).await?).into_response())
    };
    finish(answer.await, &visit)
}

fn end(now: Timestamp, days: u16) -> Timestamp {
    now.plus_ms(i64::from(days) * DAY_MS)
}

pub(in crate::http) async fn revoke_token(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let answer = async {
        let own = user(&asker)?;
        let (_, fields) = Fields::read(request, &["token"]).await?;
        let key = TokenKey(fields.get("token").parse().map_err(|_| Fault::NotFound)?);
        let mut tx = http.db.begin(Scope::Auth).await?;
        let now = visit.context.now;
        if !token::revoke(&mut tx, key, Some(own.key), now).await? {
            return Err(Fault::NotFound);
        }
        let number = key.0.to_string();
        noted(&mut tx, (&asker, now), (Action::TokenRevoked, &number), &[]).await?;
        tx.commit().await?;
        Ok(Redirect::to(DONE).into_response())
    };
    finish(answer.await, &visit)
}
