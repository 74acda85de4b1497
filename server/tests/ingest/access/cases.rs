//! Every route, a line each: what it needs of who asks, which rows its path, query or form names,
//! and what a change leaves in the audit log. A route without a line fails
//! `matrix::every_route_has_its_case`; CONTRIBUTING says how to add one.

use leasewatch_server::http::Need::{
    self, Admin, Nothing, Operator, OperatorInPerson, Person, Viewer,
};

use Ids::{Chosen, Nobodys, OfTenant, OfUser};
use Trace::{Silent, Wrote};

/// A route with what is expected of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) method: &'static str,
    pub(super) pattern: &'static str,
    pub(super) need: Need,
    pub(super) ids: Ids,
    pub(super) trace: Trace,
}

/// Which rows a request names. The text is the query of a `GET` and the form of a `POST` with which
/// the request succeeds; `{names}` in it and in the pattern are filled in by [`super::matrix`].
#[derive(Debug, Clone, Copy)]
pub(super) enum Ids {
    /// None: what is shown is what the asker sees anyway.
    Nobodys(&'static str),
    /// Rows of a tenant: nothing is here (404) for who has no role there.
    OfTenant(&'static str),
    /// Rows of a tenant, as a value of a field or to begin with: one that is another tenant's counts
    /// as one that is not there, whatever the answer is.
    Chosen(&'static str),
    /// Rows of one user: nothing is here (404) for everybody else, operators too.
    OfUser(&'static str),
}

/// What a change that succeeded leaves in the audit log.
#[derive(Debug, Clone, Copy)]
pub(super) enum Trace {
    /// An entry with this action.
    Wrote(&'static str),
    /// Nothing, and why.
    Silent(&'static str),
}

const fn get(pattern: &'static str, need: Need, ids: Ids) -> Case {
    Case { method: "GET", pattern, need, ids, trace: Silent("it changes nothing") }
}

/// What is taken out is noted, though nothing changes.
const fn traced(pattern: &'static str, need: Need, ids: Ids, action: &'static str) -> Case {
    Case { method: "GET", pattern, need, ids, trace: Wrote(action) }
}

const fn post(pattern: &'static str, need: Need, ids: Ids, trace: Trace) -> Case {
    Case { method: "POST", pattern, need, ids, trace }
}

const UPLOAD: &str = "--lw\r\nContent-Disposition: form-data; name=\"node\"\r\n\r\nold\r\n\
    --lw\r\nContent-Disposition: form-data; name=\"tenant\"\r\n\r\n{tenant}\r\n\
    --lw\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.csv\"\r\n\r\nx\r\n--lw--\r\n";
const LEASES: &str = "--lw\r\nContent-Disposition: form-data; name=\"tenant\"\r\n\r\n{tenant}\r\n\
    --lw\r\nContent-Disposition: form-data; name=\"kind\"\r\n\r\nleases\r\n\
    --lw\r\nContent-Disposition: form-data; name=\"timezone\"\r\n\r\nUTC\r\n\
    --lw\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.csv\"\r\n\r\n\
    name,provider,gpu,count,start,currency\nmade-in-test,default,H100,8,2026-08-01,USD\n\r\n--lw--\r\n";
const BILL: &str = "--lw\r\nContent-Disposition: form-data; name=\"tenant\"\r\n\r\n{tenant}\r\n\
    --lw\r\nContent-Disposition: form-data; name=\"provider\"\r\n\r\ndefault\r\n\
    --lw\r\nContent-Disposition: form-data; name=\"action\"\r\n\r\nstore\r\n\
    --lw\r\nContent-Disposition: form-data; name=\"starts\"\r\n\r\nfrom\r\n\
    --lw\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nid\r\n\
    --lw\r\nContent-Disposition: form-data; name=\"amount\"\r\n\r\namount\r\n\
    --lw\r\nContent-Disposition: form-data; name=\"file\"; filename=\"b.csv\"\r\n\r\n\
    from,id,amount\n2026-08-01,x,1.00\n\r\n--lw--\r\n";
const PRICES: &str = "--lw\r\nContent-Disposition: form-data; name=\"currency\"\r\n\r\nUSD\r\n\
    --lw\r\nContent-Disposition: form-data; name=\"columns\"\r\n\r\ngpu=g,count=n,on_demand=p\r\n\
    --lw\r\nContent-Disposition: form-data; name=\"file\"; filename=\"p.csv\"\r\n\r\n\
    g,n,p\nH100,8,20\n\r\n--lw--\r\n";
const CONTRACT: &str = "tenant={tenant}&contract=made-in-test&provider=Acme&product=x&url=x&read_on=2026-11-30&deadline=not_stated&objective=a&unit=node&target=99.5&denominator=contracted&predicates=unusable&partial_slice=exact&window=billing";
const SESSIONS: &str = r#"{"sessions":[{"id":"told","starts_at":"2026-07-01T00:00:00Z","ends_at":"2026-07-02T00:00:00Z"}]}"#;
const NEW_LEASE: &str = "tenant={tenant}&name=made-in-test&provider=default&gpu_model=H100&gpu_count=8&starts_at=2026-08-01&currency=USD";
const TERMS: &str =
    "name={lease}&provider=default&gpu_model=H200&gpu_count=8&starts_at=2026-08-01&currency=USD";
const HOURS: &str = "from=2026-01-01&to=2026-01-02&node={node}";
const JOIN: &str = "tenant={tenant}&provider=default&nodes=1&valid=15m";
const TOKEN: &str = "tenant={tenant}&token={token}";
const PASSWORDS: &str = "username={me}&current=correct+horse+battery&password=another+horse+battery&again=another+horse+battery";

// A line each, so that the list reads as the table that it is.
#[rustfmt::skip]
pub(super) const CASES: &[Case] = &[
    get("/", Viewer, Nobodys("")),
    get("/overview.json", Viewer, Nobodys("")),
    get("/nodes/{node}", Viewer, OfTenant("")),
    get("/nodes/{node}/node.json", Viewer, OfTenant("")),
    get("/nodes/{node}/gpus/{slot}", Viewer, OfTenant("")),
    get("/nodes/{node}/gpus/{slot}/gpu.json", Viewer, OfTenant("")),
    get("/nodes/{node}/gpus/{slot}/readings.csv", Viewer, OfTenant("")),
    post("/nodes/{node}/revoke", Admin, OfTenant(""), Wrote("node_revoked")),
    traced("/hours.csv", Viewer, OfTenant(HOURS), "exported"),
    get("/live.sse", Viewer, Nobodys("")),
    get("/import", Admin, Chosen("again={import}")),
    post("/import", Admin, Chosen(UPLOAD), Wrote("imported")),
    get("/imports/{import}", Admin, OfTenant("")),
    get("/imports/{import}/import.json", Admin, OfTenant("")),
    get("/sign-in", Nothing, Nobodys("")),
    post("/sign-in", Nothing, Nobodys("name={me}&password=correct+horse+battery"), Wrote("signed_in")),
    post("/sign-out", Nothing, Nobodys(""), Wrote("signed_out")),
    get("/link/{secret}", Nothing, Nobodys("")),
    post("/link/{secret}", Nothing, Nobodys(""), Wrote("link_used")),
    get("/account", Person, Nobodys("")),
    post("/account/password", Person, Nobodys(PASSWORDS), Wrote("password_changed")),
    post("/account/language", Person, Nobodys("language=en"), Silent("it lets nobody do anything")),
    post("/account/session", Person, OfUser("session={session}"), Wrote("session_ended")),
    post("/account/token", Person, Nobodys("what=x&reach=operator&days=30"), Wrote("token_made")),
    post("/account/token/revoke", Person, OfUser("token={api_token}"), Wrote("token_revoked")),
    get("/settings/users", OperatorInPerson, Nobodys("")),
    post("/settings/users", OperatorInPerson, Nobodys("user={me}&action=role&role=foreign-tenant:viewer"), Wrote("role_changed")),
    post("/settings/users/invite", OperatorInPerson, Nobodys("reach=foreign-tenant:viewer"), Wrote("user_invited")),
    get("/settings/tenants", Admin, Nobodys("")),
    get("/settings/tenants.json", Admin, Nobodys("")),
    post("/settings/tenants", Operator, Nobodys("slug=new-tenant&name=New"), Wrote("tenant_made")),
    post("/settings/tenants/rename", Admin, OfTenant("tenant={tenant}&name=renamed"), Wrote("tenant_renamed")),
    post("/settings/tenants/remove", Operator, Nobodys("tenant=new-tenant&confirm=new-tenant"), Wrote("tenant_removed")),
    traced("/settings/tenants/{tenant}/export.zip", Admin, OfTenant(""), "tenant_exported"),
    get("/settings/audit", Admin, Nobodys("")),
    get("/settings/audit.json", Admin, Nobodys("")),
    get("/settings/audit.csv", Admin, Nobodys("")),
    get("/costs", Viewer, Nobodys("")),
    get("/costs.json", Viewer, Nobodys("")),
    get("/costs.csv", Viewer, Nobodys("")),
    get("/leases", Viewer, Nobodys("")),
    get("/leases.json", Viewer, Nobodys("")),
    get("/leases.csv", Viewer, Nobodys("")),
    get("/leases/new", Admin, Nobodys("")),
    post("/leases/new", Admin, OfTenant(NEW_LEASE), Wrote("lease_changed")),
    get("/leases/import", Admin, Nobodys("")),
    post("/leases/import", Admin, OfTenant(LEASES), Wrote("lease_changed")),
    get("/leases/{tenant}/{lease}", Viewer, OfTenant("")),
    get("/leases/{tenant}/{lease}/lease.json", Viewer, OfTenant("")),
    traced("/leases/{tenant}/{lease}/report.pdf", Viewer, OfTenant(""), "exported"),
    traced("/leases/{tenant}/{lease}/report.html", Viewer, OfTenant(""), "exported"),
    get("/leases/{tenant}/{lease}/edit", Admin, OfTenant("")),
    post("/leases/{tenant}/{lease}/edit", Admin, OfTenant(TERMS), Wrote("lease_changed")),
    get("/leases/{tenant}/{lease}/assign", Admin, OfTenant("")),
    post("/leases/{tenant}/{lease}/assign", Admin, OfTenant("starts_at=&ends_at=&gpu={node}:0"), Wrote("lease_changed")),
    post("/leases/{tenant}/{lease}/assignment", Admin, OfTenant("number={assignment}&action=withdraw"), Wrote("lease_changed")),
    post("/leases/{tenant}/{lease}/session", Admin, OfTenant("number={billed}&action=withdraw"), Wrote("lease_changed")),
    post("/leases/{tenant}/{lease}/claim", Admin, OfTenant("verdict={verdict}"), Wrote("claim_changed")),
    get("/claims", Viewer, Nobodys("")),
    get("/claims.json", Viewer, Nobodys("")),
    get("/claims.csv", Viewer, Nobodys("")),
    get("/claims/{claim}", Viewer, OfTenant("")),
    get("/claims/{claim}/claim.json", Viewer, OfTenant("")),
    get("/claims/{claim}/claim.txt", Viewer, OfTenant("")),
    post("/claims/{claim}/step", Admin, OfTenant("step=notify&at=&words=ticket+1"), Wrote("claim_changed")),
    post("/leases/{tenant}/{lease}/sessions.json", Admin, OfTenant(SESSIONS), Wrote("lease_changed")),
    post("/leases/{tenant}/{lease}/schedule", Admin, OfTenant("action=set&rule=mon+09:00-10:00&rule_from=2026-09-01"), Wrote("lease_changed")),
    get("/bills", Viewer, Nobodys("")),
    get("/bills.json", Viewer, Nobodys("")),
    get("/bills.csv", Viewer, Nobodys("")),
    get("/bills/import", Admin, Nobodys("")),
    post("/bills/import", Admin, OfTenant(BILL), Wrote("bill_added")),
    get("/bills/{tenant}/{bill}", Viewer, OfTenant("")),
    get("/bills/{tenant}/{bill}/bill.json", Viewer, OfTenant("")),
    get("/bills/{tenant}/{bill}/bill.csv", Viewer, OfTenant("")),
    post("/bills/{tenant}/{bill}/withdraw", Admin, OfTenant(""), Wrote("bill_added")),
    get("/contracts", Viewer, Nobodys("")),
    get("/contracts.json", Viewer, Nobodys("")),
    post("/contracts", Admin, OfTenant(CONTRACT), Wrote("profile_changed")),
    get("/prices", Viewer, Nobodys("")),
    get("/prices.json", Viewer, Nobodys("")),
    get("/prices.csv", Viewer, Nobodys("")),
    post("/prices", Operator, Nobodys(PRICES), Wrote("prices_changed")),
    post("/prices/withdraw", Operator, Nobodys("number=1&action=withdraw"), Wrote("prices_changed")),
    get("/leases/{tenant}/{lease}/told", Viewer, OfTenant("")),
    get("/leases/{tenant}/{lease}/told.json", Viewer, OfTenant("")),
    post("/leases/{tenant}/{lease}/told", Admin, OfTenant("number={notice}&action=withdraw_notice"), Wrote("notice_changed")),
    get("/nodes/{node}/labels", Admin, OfTenant("")),
    post("/nodes/{node}/labels", Admin, OfTenant("labels=team%3Dx"), Wrote("lease_changed")),
    get("/enroll", Admin, Nobodys("")),
    post("/enroll", Admin, OfTenant(JOIN), Wrote("join_token_made")),
    get("/enroll/{tenant}/{token}", Admin, OfTenant("")),
    get("/enroll/{tenant}/{token}/live.sse", Admin, OfTenant("")),
    post("/enroll/revoke", Admin, OfTenant(TOKEN), Wrote("join_token_revoked")),
    get("/install.sh", Nothing, Nobodys("")),
    get("/agents/{digest}", Nothing, Nobodys("")),
    get("/join-tokens.json", Admin, Nobodys("")),
    post("/join-tokens.json", Admin, OfTenant(JOIN), Wrote("join_token_made")),
    post("/join-tokens/revoke.json", Admin, OfTenant(TOKEN), Wrote("join_token_revoked")),
    get("/assets/{file}", Nothing, Nobodys("")),
    get("/healthz", Nothing, Nobodys("")),
    get("/readyz", Nothing, Nobodys("")),
];
