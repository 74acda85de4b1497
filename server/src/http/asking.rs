//! Who is asking, and whether that is enough for what is asked for.
//!
//! [`identify`] finds out once a request, from the cookie of a session or the token of a program;
//! [`check`] compares it with what the route needs, before the handler runs. Which tenant something
//! belongs to is the handler's question, and the database's: what is not within one of
//! [`Asker::scopes`] is not found. Not here: how somebody gets a session (`entrance`, `pages`).

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Redirect, Response};
use leasewatch_core::id::{NodeId, Slug};
use leasewatch_core::time::Timestamp;
use leasewatch_web::account::Account;
use leasewatch_web::i18n::Language;
use leasewatch_web::path;

use super::Http;
use super::cookie::{self, Peer};
use super::error::Fault;
use super::visit::Visit;
use crate::secret::{Secret, TOKEN_PREFIX};
use crate::store::audit::{Way, Who};
use crate::store::node::{self, NodeRow};
use crate::store::token;
use crate::store::user::{self, Membership, Role, UserKey, UserRow};
use crate::store::user_session::{self, SessionKey};
use crate::store::{Scope, StoreError, TenantKey, Tx, tenant};

/// A session that was not used for so long is over.
pub(super) const IDLE_MS: i64 = 7 * 86_400_000;
/// When something was used is noted to the minute.
const SEEN_EVERY_MS: i64 = 60_000;
/// What a route needs of who asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Need {
    /// Nothing: everybody who reaches the port.
    Nothing,
    /// Somebody who sees a tenant.
    Viewer,
    /// Somebody who may change something in a tenant.
    Admin,
    /// Somebody who may change everything.
    Operator,
    /// A user who signed in. A token is none: it cannot make others, nor change a password.
    Person,
    /// An operator who signed in.
    OperatorInPerson,
}

/// How somebody came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    /// There are no users, so nobody is kept out.
    NoUsers,
    Session(SessionKey),
    Token,
}

/// Who is asking. A route that needs somebody has one.
#[derive(Debug, Clone)]
pub(crate) struct Asker(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    entry: Entry,
    /// `None` while there are no users.
    user: Option<UserRow>,
    /// From where; `None` when not known.
    address: Option<String>,
}

impl Asker {
    /// The user; `None` while there are none.
    pub(crate) fn user(&self) -> Option<UserKey> {
        self.0.user.as_ref().map(|user| user.key)
    }

    pub(super) fn row(&self) -> Option<&UserRow> {
        self.0.user.as_ref()
    }

    /// As the audit log names it.
    pub(crate) fn who(&self) -> Who {
        let way = match self.0.entry {
            Entry::NoUsers => Way::NoUsers,
            Entry::Session(_) => Way::Session,
            Entry::Token => Way::Token,
        };
        let user = self.0.user.as_ref().map(|user| (user.key, user.name.clone()));
        Who { user, way, address: self.0.address.clone() }
    }

    /// The session, for a user who signed in.
    pub(super) fn session(&self) -> Option<SessionKey> {
        match self.0.entry {
            Entry::Session(key) => Some(key),
            Entry::NoUsers | Entry::Token => None,
        }
    }

    /// The language that the user chose.
    pub(super) fn language(&self) -> Option<Language> {
        Language::from_tag(self.0.user.as_ref()?.language.as_deref()?)
    }

    /// What the layout of a page says of it.
    pub(super) fn account(&self) -> Account {
        match &self.0.user {
            None => Account::NoUsers,
            Some(user) => Account::User {
                name: user.name.clone(),
                may_change: self.has(Role::Admin),
                is_operator: user.is_operator,
            },
        }
    }

    /// Sees and changes every tenant; so does everybody while there are no users.
    pub(crate) fn is_operator(&self) -> bool {
        self.0.user.as_ref().is_none_or(|user| user.is_operator)
    }

    /// In whose name the database is asked: one scope for everything, or one for each tenant.
    pub(crate) fn scopes(&self) -> Vec<Scope> {
        match &self.0.user {
            Some(user) if !user.is_operator => {
                user.memberships.iter().map(|own| Scope::Tenant(own.tenant)).collect()
            }
            _ => vec![Scope::Operator],
        }
    }

    /// Tenants in which at least this may be done, by public name.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub(crate) async fn tenants(
        &self,
        http: &Http,
        least: Role,
    ) -> Result<Vec<Membership>, StoreError> {
        if let Some(user) = self.0.user.as_ref().filter(|user| !user.is_operator) {
            let own = user.memberships.iter().filter(|own| own.role >= least);
            return Ok(own.cloned().collect());
        }
        let mut tx = http.db.begin(Scope::Operator).await?;
        let all = tenant::list(&mut tx).await?;
        tx.commit().await?;
        let role = Role::Admin;
        Ok(all
            .into_iter()
            .map(|row| Membership { tenant: row.key, slug: row.slug, role })
            .collect())
    }

    /// The tenant of this public name, if at least this may be done there.
    ///
    /// # Errors
    /// [`Fault::NotFound`] when it is not there, or not for this asker.
    pub(crate) async fn tenant(
        &self,
        http: &Http,
        slug: &str,
        least: Role,
    ) -> Result<TenantKey, Fault> {
        let found = self.tenants(http, least).await?;
        let found = found.into_iter().find(|own| own.slug.as_str() == slug);
        found.map(|own| own.tenant).ok_or(Fault::NotFound)
    }

    /// True when at least this may be done in a tenant; for what knows its tenant by name alone.
    pub(crate) fn may(&self, slug: &Slug, least: Role) -> bool {
        let own = |user: &UserRow| {
            user.memberships.iter().any(|own| own.slug == *slug && own.role >= least)
        };
        self.is_operator() || self.0.user.as_ref().is_some_and(own)
    }

    /// A node that may be seen, with the transaction that saw it.
    ///
    /// # Errors
    /// [`Fault::NotFound`] when it is not there, or not for this asker.
    pub(crate) async fn node(&self, http: &Http, id: NodeId) -> Result<(Tx, NodeRow), Fault> {
        for scope in self.scopes() {
            let mut tx = http.db.begin(scope).await?;
            if let Some(row) = node::by_public_id(&mut tx, id).await? {
                return Ok((tx, row));
            }
            tx.commit().await?;
        }
        Err(Fault::NotFound)
    }

    fn has(&self, least: Role) -> bool {
        let any = |user: &UserRow| user.memberships.iter().any(|own| own.role >= least);
        self.is_operator() || self.0.user.as_ref().is_some_and(any)
    }

    fn fits(&self, need: Need) -> Result<(), Fault> {
        let fits = match need {
            Need::Nothing => true,
            Need::Viewer => self.has(Role::Viewer),
            Need::Admin => self.has(Role::Admin),
            Need::Operator => self.is_operator(),
            // Before there are users nobody can be one of them.
            Need::Person | Need::OperatorInPerson if self.0.entry == Entry::NoUsers => {
                return Err(Fault::SignIn);
            }
            Need::Person => self.session().is_some(),
            Need::OperatorInPerson => self.session().is_some() && self.is_operator(),
        };
        if fits { Ok(()) } else { Err(Fault::Forbidden) }
    }

    /// True while whoever began something long may go on with it: the session or token is still
    /// good, and sees what it saw.
    pub(super) async fn still(&self, http: &Http, headers: &HeaderMap, over_tls: bool) -> bool {
        match find(http, headers, over_tls, None).await {
            Ok(Some(now)) => now.scopes() == self.scopes(),
            Ok(None) => false,
            // A database that does not answer shows nothing new either.
            Err(_) => true,
        }
    }
}

impl FromRequestParts<Http> for Asker {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &Http) -> Result<Self, Response> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| Fault::SignIn.problem())
    }
}

/// Puts an [`Asker`] into each request whose sender is known.
pub(super) async fn identify(
    State(http): State<Http>,
    mut request: Request,
    next: Next,
) -> Response {
    let is_public = ["/assets/", "/agents/", "/install.sh", "/healthz", "/readyz"];
    if is_public.iter().any(|path| request.uri().path().starts_with(path)) {
        return next.run(request).await;
    }
    let over_tls = cookie::over_tls(request.extensions());
    let peer = request.extensions().get::<Peer>();
    let address = peer.map(|peer| peer.address.ip().to_canonical().to_string());
    match find(&http, request.headers(), over_tls, address).await {
        Ok(Some(asker)) => {
            request.extensions_mut().insert(asker);
        }
        Ok(None) => {}
        Err(error) => return refuse(&http, request, Fault::from(error)).await,
    }
    next.run(request).await
}

async fn find(
    http: &Http,
    headers: &HeaderMap,
    over_tls: bool,
    address: Option<String>,
) -> Result<Option<Asker>, StoreError> {
    if !http.entrance.has_users(&http.db).await? {
        let (entry, user) = (Entry::NoUsers, None);
        return Ok(Some(Asker(Arc::new(Inner { entry, user, address }))));
    }
    let now = http.clock.now();
    let found = match bearer(headers) {
        Some(given) => by_token(http, given, now).await?,
        None => by_session(http, cookie::session(headers, over_tls), now).await?,
    };
    Ok(found.map(|(entry, user)| Asker(Arc::new(Inner { entry, user: Some(user), address }))))
}

/// What a program says it is; `None` for a browser.
fn bearer(headers: &HeaderMap) -> Option<Option<Secret>> {
    let given = headers.get(AUTHORIZATION)?.to_str().unwrap_or_default();
    let token = given.split_once(' ').filter(|(kind, _)| kind.eq_ignore_ascii_case("bearer"));
    let digits = token.and_then(|(_, token)| token.trim().strip_prefix(TOKEN_PREFIX));
    Some(digits.and_then(Secret::parse))
}

async fn by_token(
    http: &Http,
    secret: Option<Secret>,
    now: Timestamp,
) -> Result<Option<(Entry, UserRow)>, StoreError> {
    let Some(secret) = secret else { return Ok(None) };
    let mut tx = http.db.begin(Scope::Auth).await?;
    let found = token::find(&mut tx, &secret.hash(), now).await?;
    if let Some(token) = &found
        && token.used_at.is_none_or(|used| now.since(used) >= SEEN_EVERY_MS)
    {
        token::touch(&mut tx, token.key, now).await?;
    }
    tx.commit().await?;
    Ok(found.map(|token| (Entry::Token, token.user)))
}

async fn by_session(
    http: &Http,
    secret: Option<Secret>,
    now: Timestamp,
) -> Result<Option<(Entry, UserRow)>, StoreError> {
    let Some(secret) = secret else { return Ok(None) };
    let mut tx = http.db.begin(Scope::Auth).await?;
    let found = user_session::find(&mut tx, &secret.hash(), now, now.plus_ms(-IDLE_MS)).await?;
    if let Some(session) = &found
        && now.since(session.seen_at) >= SEEN_EVERY_MS
    {
        user_session::touch(&mut tx, session.key, now).await?;
    }
    tx.commit().await?;
    Ok(found.map(|session| (Entry::Session(session.key), session.user)))
}

/// Lets a request through to the handler of a route that needs this.
pub(super) async fn check(
    State((http, need)): State<(Http, Need)>,
    request: Request,
    next: Next,
) -> Response {
    let asker = request.extensions().get::<Asker>();
    let fits = match (need, asker) {
        (Need::Nothing, _) => Ok(()),
        (_, None) => Err(Fault::SignIn),
        (need, Some(asker)) => asker.fits(need),
    };
    match fits {
        Ok(()) => next.run(request).await,
        Err(fault) => refuse(&http, request, fault).await,
    }
}

/// The answer for whoever asked: a problem body for programs, the sign-in page for a browser that
/// wants to see something, else a page that says why not.
async fn refuse(http: &Http, request: Request, fault: Fault) -> Response {
    let for_programs = [".json", ".csv", ".sse"];
    let path = request.uri().path();
    let is_program = request.headers().contains_key(AUTHORIZATION)
        || for_programs.iter().any(|ending| path.ends_with(ending));
    if is_program {
        return fault.problem();
    }
    if matches!(fault, Fault::SignIn) && [Method::GET, Method::HEAD].contains(request.method()) {
        let next = request.uri().path_and_query().map_or("/", |next| next.as_str());
        return Redirect::to(&path::sign_in(path::next(next))).into_response();
    }
    let (mut parts, _) = request.into_parts();
    match Visit::from_request_parts(&mut parts, http).await {
        Ok(visit) => fault.page(&visit.context),
        Err(never) => {
            let _: Infallible = never;
            fault.problem()
        }
    }
}

/// True when there is a user.
pub(super) async fn users_exist(db: &crate::store::Db) -> Result<bool, StoreError> {
    let mut tx = db.begin(Scope::Auth).await?;
    let found = user::exist(&mut tx).await?;
    tx.commit().await?;
    Ok(found)
}
