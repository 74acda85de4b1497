//! The pages of a server on a database of its own, asked as browsers and programs ask.

use std::net::SocketAddr;

use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use axum::response::Response;
use futures_util::FutureExt as _;
use http_body_util::BodyExt as _;
use leasewatch_core::id::Slug;
use leasewatch_core::join::JoinAddress;
use leasewatch_core::time::{DAY_MS, Timestamp, Zone};
use leasewatch_server::clock::Clock;
use leasewatch_server::http::{self, Entrance, Http, Peer};
use leasewatch_server::installer::Installers;
use leasewatch_server::intake::{Intake, Order, Queue};
use leasewatch_server::live::Live;
use leasewatch_server::password::Passwords;
use leasewatch_server::secret::Secret;
use leasewatch_server::store::token::{self, NewToken};
use leasewatch_server::store::user::{self, NewUser, Role};
use leasewatch_server::store::user_link::{self, NewLink, Purpose};
use leasewatch_server::store::user_session::{self, NewSession};
use leasewatch_server::store::{Db, Scope, TenantKey, tenant};
use leasewatch_server::tenancy::Removals;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tower::ServiceExt as _;

use crate::rig::NOW;
use crate::support::{self, TestDb};

pub(crate) const ORIGIN: &str = "http://127.0.0.1:7443";
pub(crate) const PASSWORD: &str = "correct horse battery";

/// Who asks, and how.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) cookie: Option<String>,
    pub(crate) bearer: Option<String>,
    /// Where the browser says that a form is from.
    pub(crate) origin: Option<String>,
    pub(crate) address: SocketAddr,
    pub(crate) over_tls: bool,
    /// Who it is, where it is somebody.
    pub(crate) name: String,
}

impl Default for Ask {
    fn default() -> Self {
        Self {
            cookie: None,
            bearer: None,
            origin: Some(ORIGIN.to_owned()),
            address: "127.0.0.1:50000".parse().unwrap(),
            over_tls: false,
            name: String::new(),
        }
    }
}

impl Ask {
    pub(crate) fn with_cookie(&self, set: &str) -> Self {
        let pair = set.split(';').next().unwrap();
        Self { cookie: Some(pair.to_owned()), ..self.clone() }
    }
}

pub(crate) struct Site {
    pub(crate) database: TestDb,
    pub(crate) http: Http,
    pub(crate) clock: Clock,
    router: axum::Router,
    queue: std::sync::Mutex<Queue>,
    folder: tempfile::TempDir,
}

fn installers(folder: &std::path::Path) -> Installers {
    let address = JoinAddress::new("https://watch.example.org").unwrap();
    Installers::new(folder.to_owned(), vec![address])
}

impl Site {
    pub(crate) async fn new() -> Self {
        let database = support::database().await;
        let folder = tempfile::tempdir().unwrap();
        let clock = Clock::manual(NOW);
        let (intake, queue) = Intake::open(folder.path().join("uploads"), 1_000_000).unwrap();
        let http = Http {
            db: database.db.clone(),
            live: Live::new(),
            clock: clock.clone(),
            address: ORIGIN.to_owned(),
            intake,
            entrance: Entrance::default(),
            issuer: crate::rig::issuer(&database.db, &clock),
            installers: installers(&folder.path().join("agents")),
            removals: Removals::default(),
        };
        let router = http::router(http.clone());
        let site = Self { database, http, clock, router, queue: queue.into(), folder };
        let mut tx = site.db().begin(Scope::Ingest).await.unwrap();
        tenant::ensure(&mut tx, &slug("demo"), "Demo").await.unwrap();
        tx.commit().await.unwrap();
        site
    }

    /// Forgets the files that wait to be imported, so that there is room for others.
    pub(super) fn drain(&self) {
        while let Some(Some(_)) = self.queue.lock().unwrap().next().now_or_never() {}
    }

    /// The folder of the agents; there is none until a test makes it.
    pub(crate) fn agent_dir(&self) -> std::path::PathBuf {
        self.folder.path().join("agents")
    }

    pub(crate) fn db(&self) -> &Db {
        &self.database.db
    }

    pub(crate) async fn send(&self, ask: &Ask, method: Method, path: &str, form: &str) -> Response {
        let mut request =
            Request::builder().method(&method).uri(path).header("host", "127.0.0.1:7443");
        if let Some(cookie) = &ask.cookie {
            request = request.header(header::COOKIE, cookie);
        }
        if let Some(bearer) = &ask.bearer {
            request = request.header(header::AUTHORIZATION, format!("Bearer {bearer}"));
        }
        if method == Method::POST {
            let kind = match form.starts_with("--lw") {
                true => "multipart/form-data; boundary=lw",
                false => "application/x-www-form-urlencoded",
            };
            request = request.header(header::CONTENT_TYPE, kind);
        }
        if let Some(origin) = ask.origin.as_ref().filter(|_| method != Method::GET) {
            request = request.header(header::ORIGIN, origin);
        }
        let mut request = request.body(Body::from(form.to_owned())).unwrap();
        request.extensions_mut().insert(Peer { address: ask.address, over_tls: ask.over_tls });
        self.router.clone().oneshot(request).await.unwrap()
    }

    /// The head of an answer; its body may go on for ever. A form holds nothing that is asked for.
    pub(crate) async fn status(
        &self,
        ask: &Ask,
        method: Method,
        path: &str,
    ) -> (StatusCode, HeaderMap) {
        let answer = self.send(ask, method, path, "unknown=1").await;
        (answer.status(), answer.headers().clone())
    }

    pub(crate) async fn get(&self, ask: &Ask, path: &str) -> (u16, String) {
        let answer = self.send(ask, Method::GET, path, "").await;
        (answer.status().as_u16(), text(answer).await)
    }

    pub(crate) async fn post(&self, ask: &Ask, path: &str, form: &str) -> (u16, HeaderMap, String) {
        let answer = self.send(ask, Method::POST, path, form).await;
        let (status, head) = (answer.status().as_u16(), answer.headers().clone());
        (status, head, text(answer).await)
    }

    /// Sends a table of leases or billing sessions as a browser does.
    pub(crate) async fn table(
        &self,
        ask: &Ask,
        kind: &str,
        partial: &str,
        text: &str,
    ) -> (u16, String) {
        let field = |name: &str, value: &str| {
            format!("--x\r\ncontent-disposition: form-data; name={name}\r\n\r\n{value}\r\n")
        };
        let file = "--x\r\ncontent-disposition: form-data; name=file; filename=\"a.csv\"\r\n\r\n";
        let body = [
            field("kind", kind),
            field("timezone", "UTC"),
            field("partial", partial),
            format!("{file}{text}\r\n--x--\r\n"),
        ];
        let mut request = Request::post("/leases/import?lang=en")
            .header("host", "127.0.0.1:7443")
            .header(header::CONTENT_TYPE, "multipart/form-data; boundary=x")
            .header(header::COOKIE, ask.cookie.as_deref().unwrap_or_default())
            .header(header::ORIGIN, ORIGIN)
            .body(Body::from(body.concat()))
            .unwrap();
        request.extensions_mut().insert(Peer { address: ask.address, over_tls: ask.over_tls });
        let answer = self.router.clone().oneshot(request).await.unwrap();
        (answer.status().as_u16(), self::text(answer).await)
    }

    /// Signs in by the form; the browser afterwards, or the refusal.
    pub(crate) async fn sign_in(
        &self,
        ask: &Ask,
        name: &str,
        password: &str,
    ) -> Result<Ask, (u16, String)> {
        let form = format!("name={name}&password={}&next=", password.replace(' ', "+"));
        let (status, head, body) = self.post(ask, "/sign-in", &form).await;
        match head.get(header::SET_COOKIE) {
            Some(set) => {
                Ok(Ask { name: name.to_owned(), ..ask.with_cookie(set.to_str().unwrap()) })
            }
            None => Err((status, body)),
        }
    }

    async fn make(&self, name: &str, roles: &[(&str, Role)], is_operator: bool) -> Ask {
        let hash = self.hash().await;
        let mut tx = self.db().begin(Scope::Auth).await.unwrap();
        let new = NewUser { name, password_hash: Some(&hash), is_operator, at: self.clock.now() };
        let key = user::create(&mut tx, new).await.unwrap().unwrap();
        for (slug, role) in self.grants(roles).await {
            user::set_role(&mut tx, key, slug, Some(role)).await.unwrap();
        }
        let secret = Secret::random().unwrap();
        let new = NewSession {
            hash: &secret.hash(),
            user: key,
            at: self.clock.now(),
            expires_at: self.clock.now().plus_ms(30 * DAY_MS),
            address: None,
            browser: None,
        };
        user_session::open(&mut tx, new).await.unwrap();
        tx.commit().await.unwrap();
        let cookie = Some(format!("leasewatch_session={}", secret.text()));
        Ask { cookie, name: name.to_owned(), ..Ask::default() }
    }

    /// The hash of [`PASSWORD`].
    pub(crate) async fn hash(&self) -> String {
        Passwords::default().hash(PASSWORD.to_owned()).await.unwrap()
    }

    /// A user with these roles, signed in.
    pub(crate) async fn user(&self, name: &str, roles: &[(&str, Role)]) -> Ask {
        self.make(name, roles, false).await
    }

    /// An operator, signed in.
    pub(crate) async fn operator(&self, name: &str) -> Ask {
        self.make(name, &[], true).await
    }

    async fn grants(&self, roles: &[(&str, Role)]) -> Vec<(TenantKey, Role)> {
        let mut tx = self.db().begin(Scope::Operator).await.unwrap();
        let mut grants = Vec::new();
        for (name, role) in roles {
            let row = tenant::by_slug(&mut tx, &slug(name)).await.unwrap().unwrap();
            grants.push((row.key, *role));
        }
        grants
    }

    /// A token of a user.
    pub(crate) async fn token(&self, of: &Ask, roles: &[(&str, Role)], is_operator: bool) -> Ask {
        let secret = Secret::random().unwrap();
        let grants = self.grants(roles).await;
        let mut tx = self.db().begin(Scope::Auth).await.unwrap();
        let owner = user::by_name(&mut tx, &of.name).await.unwrap().unwrap();
        let new = NewToken {
            hash: &secret.hash(),
            user: owner.key,
            name: "a test",
            is_operator,
            grants: &grants,
            at: self.clock.now(),
            expires_at: self.clock.now().plus_ms(DAY_MS),
        };
        token::create(&mut tx, new).await.unwrap();
        tx.commit().await.unwrap();
        let bearer = Some(format!("lw_{}", secret.text()));
        Ask { bearer, origin: None, name: of.name.clone(), ..Ask::default() }
    }

    pub(crate) async fn operator_token(&self, name: &str) -> Ask {
        self.token(&Ask { name: name.to_owned(), ..Ask::default() }, &[], true).await
    }

    /// The path of a link that is good until `expires_at`.
    pub(crate) async fn link(
        &self,
        purpose: Purpose,
        of: Option<&str>,
        expires_at: Timestamp,
    ) -> String {
        let secret = Secret::random().unwrap();
        let grants = self.grants(&[("default", Role::Viewer)]).await;
        let mut tx = self.db().begin(Scope::Auth).await.unwrap();
        let mut key = None;
        if let Some(name) = of {
            key = Some(user::by_name(&mut tx, name).await.unwrap().unwrap().key);
        }
        let new = NewLink {
            hash: &secret.hash(),
            purpose,
            user: key,
            is_operator: purpose == Purpose::Setup,
            grants: if purpose == Purpose::Invite { &grants } else { &[] },
            created_by: None,
            at: self.clock.now(),
            expires_at,
        };
        user_link::create(&mut tx, new).await.unwrap();
        tx.commit().await.unwrap();
        format!("/link/{}", secret.text())
    }

    /// A node without a record.
    pub(crate) async fn node(&self, tenant: &str, id: &str, name: &str) {
        let at = NOW.0;
        self.administer(&format!(
            "insert into node (tenant_id, public_id, provider_id, name, origin, enrolled_at, first_seen_at)
            select tenant_id, '\\x{id}', 1, '{name}', 'measured', {at}, {at} from tenant where slug = '{tenant}'"
        ))
        .await;
    }

    /// An import that waits, of a log for a node of this tenant.
    pub(crate) async fn upload(&self, tenant: &str) -> String {
        let intake = &self.http.intake;
        let file = intake.hold().unwrap();
        std::fs::write(file.path(), "x").unwrap();
        let order = Order {
            file_name: "upload.csv".to_owned(),
            kind: None,
            node: "uploaded-node".to_owned(),
            tenant: slug(tenant),
            provider: slug("default"),
            zone: Zone::UTC,
            columns: None,
            cadence_ms: None,
            strict: false,
        };
        intake.submit(file, order, NOW).unwrap()
    }

    /// One number, asked as the superuser.
    pub(crate) async fn count(&self, query: &str) -> i64 {
        let mut admin = PgConnection::connect(&self.database.admin_url).await.unwrap();
        let count = sqlx::query_scalar(AssertSqlSafe(query.to_owned()));
        count.fetch_one(&mut admin).await.unwrap()
    }

    /// Statements of the superuser.
    pub(crate) async fn administer(&self, statements: &str) {
        let mut admin = PgConnection::connect(&self.database.admin_url).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(statements.to_owned())).execute(&mut admin).await.unwrap();
    }
}

pub(crate) async fn text(answer: Response) -> String {
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8_lossy(&body).into_owned()
}

fn slug(text: &str) -> Slug {
    Slug::new(text).unwrap()
}
