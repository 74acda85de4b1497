//! Who is let in with a token, and who not.

use axum::body::Body;
use axum::response::Response;
use http_body_util::BodyExt as _;
use leasewatch_core::evidence::identity::{
    Admission, Enrollment, Revocation, RevocationReason, Rotation, SignedStatement,
};
use leasewatch_core::evidence::statement::{self, StatementKind};
use leasewatch_core::join::{JoinString, JoinToken};
use leasewatch_core::lease::Assignment;
use leasewatch_core::segment::Origin;
use leasewatch_core::time::DAY_MS;
use leasewatch_proto::convert::Claim;
use leasewatch_server::enrollment::{FLEET_MS, IssueError, Issued, Order, SINGLE_MS, TokenKind};
use leasewatch_server::http::{self, Entrance, Http};
use leasewatch_server::intake::Intake;
use leasewatch_server::jobs::assign_joined;
use leasewatch_server::live::LiveFrame;
use leasewatch_server::store::audit::Action;
use leasewatch_server::store::enrollment::{self, RATE_JOINS};
use leasewatch_server::store::{Scope, TenantKey, assignment, audit, identity_statement, node_key};
use leasewatch_server::tenancy::Removals;
use tonic::{Code, Status};
use tower::ServiceExt as _;

use crate::agent::{Agent, gpu, slug};
use crate::judge::{assign, jobs, rent};
use crate::rig::{NOW, Rig, issuer};

/// A server that lets nobody in without a token.
async fn closed() -> Rig {
    Rig::with(|options| options.open_enrollment = false).await
}

async fn issue(rig: &Rig, tenant: &str, kind: TokenKind) -> Issued {
    let valid_ms = if kind == TokenKind::Single { SINGLE_MS } else { FLEET_MS };
    let (tenant, provider) = (slug(tenant), slug("acme"));
    let created_by = "a test";
    let order = Order {
        tenant: &tenant,
        provider: Some(&provider),
        lease: None,
        kind,
        valid_ms,
        created_by,
        who: None,
    };
    issuer(&rig.database.db, &rig.clock).issue(order).await.unwrap()
}

fn with(token: &JoinToken) -> Claim {
    Claim { token: Some(token.clone()), ..Claim::default() }
}

async fn refused(rig: &Rig, agent: &Agent, claim: Claim) -> Status {
    rig.greet_with(agent, claim).await.err().unwrap()
}

/// What whoever is not let in hears, whatever the reason.
async fn assert_turned_away(rig: &Rig, agent: &Agent, claim: Claim) {
    let status = refused(rig, agent, claim).await;
    assert_eq!((status.code(), status.message()), (Code::Unauthenticated, "not authenticated"));
}

#[tokio::test]
async fn a_token_lets_one_node_in_and_names_its_tenant_and_provider() {
    let rig = closed().await;
    let agent = Agent::new(1, NOW);
    assert_turned_away(&rig, &agent, Claim::default()).await;
    assert_turned_away(&rig, &agent, with(&JoinToken([7; 24]))).await;
    assert_eq!(rig.count("select count(*) from node").await, 0);

    let issued = issue(&rig, "rival", TokenKind::Single).await;
    let client = rig.greet_with(&agent, with(&issued.join.token)).await.unwrap();
    // The hello asked for another one.
    assert_eq!((client.welcome.tenant.as_str(), agent.tenant.as_str()), ("rival", "default"));
    let node = rig.node(agent.id()).await.unwrap();
    assert_eq!((node.tenant, node.provider), (slug("rival"), slug("acme")));

    assert_turned_away(&rig, &Agent::new(2, NOW), with(&issued.join.token)).await;
    // The welcome may have been lost: a key that is known needs no token, and a used one is no harm.
    for claim in [Claim::default(), with(&issued.join.token), with(&JoinToken([7; 24]))] {
        assert_eq!(rig.greet_with(&agent, claim).await.unwrap().welcome.tenant, "rival");
    }
    let mut tx = rig.database.db.begin(Scope::Operator).await.unwrap();
    let joins = enrollment::joins(&mut tx, issued.key).await.unwrap();
    let tokens = enrollment::tokens(&mut tx).await.unwrap();
    assert_eq!(joins.iter().map(|join| join.node).collect::<Vec<_>>(), [agent.id()]);
    assert_eq!((tokens.len(), tokens[0].joins), (1, 1));
}

#[tokio::test]
async fn a_token_that_is_expired_or_revoked_lets_nobody_in() {
    let rig = closed().await;
    let agent = Agent::new(3, NOW);
    let expired = issue(&rig, "default", TokenKind::Single).await;
    rig.clock.advance_ms(SINGLE_MS);
    assert_turned_away(&rig, &agent, with(&expired.join.token)).await;
    let revoked = issue(&rig, "default", TokenKind::Fleet(9)).await;
    let mut tx = rig.database.db.begin(Scope::Ingest).await.unwrap();
    assert!(enrollment::revoke_token(&mut tx, revoked.key, rig.clock.now()).await.unwrap());
    assert!(!enrollment::revoke_token(&mut tx, revoked.key, rig.clock.now()).await.unwrap());
    tx.commit().await.unwrap();
    assert_turned_away(&rig, &agent, with(&revoked.join.token)).await;
    assert_eq!(rig.count("select count(*) from node").await, 0);
    // In time it would have been good.
    let late = issue(&rig, "default", TokenKind::Single).await;
    rig.clock.advance_ms(SINGLE_MS - 1);
    assert!(rig.greet_with(&agent, with(&late.join.token)).await.is_ok());
}

#[tokio::test]
async fn a_fleet_token_has_a_ceiling_and_a_pace() {
    let rig = closed().await;
    let ceiling = u32::try_from(RATE_JOINS).unwrap() + 1;
    let fleet = issue(&rig, "default", TokenKind::Fleet(ceiling)).await;
    for seed in 1..ceiling {
        let agent = Agent::new(u8::try_from(seed).unwrap(), NOW);
        rig.greet_with(&agent, with(&fleet.join.token)).await.unwrap();
    }
    let (last, one_more) = (Agent::new(100, NOW), Agent::new(101, NOW));
    let status = refused(&rig, &last, with(&fleet.join.token)).await;
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.metadata().contains_key("grpc-retry-pushback-ms"));
    rig.clock.advance_ms(60_001);
    assert!(rig.greet_with(&last, with(&fleet.join.token)).await.is_ok());
    rig.clock.advance_ms(60_001);
    assert_turned_away(&rig, &one_more, with(&fleet.join.token)).await;
    assert_eq!(rig.count("select count(*) from node").await, i64::from(ceiling));
}

/// A node's record goes on under another key.
#[tokio::test]
async fn a_new_key_takes_over_a_node_of_the_token_s_tenant_and_no_other() {
    let rig = closed().await;
    let mut old = Agent::new(4, NOW);
    let first = issue(&rig, "default", TokenKind::Single).await;
    let mut client = rig.join_with(&old, with(&first.join.token)).await.unwrap();
    assert_eq!(client.ack(rig.seal(&mut old)).await, (1, false));

    let mut new = Agent::new(5, old.at);
    let taking = |token: &JoinToken| Claim { replaces: Some(old.id()), ..with(token) };
    let foreign = issue(&rig, "rival", TokenKind::Single).await;
    assert_turned_away(&rig, &new, taking(&foreign.join.token)).await;
    let simulated = Agent { origin: Origin::Simulated, ..new.clone() };
    let second = issue(&rig, "default", TokenKind::Single).await;
    assert_turned_away(&rig, &simulated, taking(&second.join.token)).await;
    // Neither used the token up.
    new.node = Some(old.id());
    new.lose_state(new.chain);
    let mut taken = rig.join_with(&new, taking(&second.join.token)).await.unwrap();
    assert_eq!(taken.welcome.node, old.id().to_string());
    assert_eq!(taken.ack(rig.seal(&mut new)).await, (1, false));
    assert_eq!(rig.heads(old.id()).await.len(), 2);
    assert_eq!(rig.count("select count(*) from node").await, 1);
    // The old key is of no more use, and what it says is not taken.
    assert_turned_away(&rig, &old, Claim::default()).await;
    let mut tx = rig.database.db.begin(Scope::Operator).await.unwrap();
    let joins = enrollment::joins(&mut tx, second.key).await.unwrap();
    assert!(joins[0].has_replaced && joins[0].node == old.id());
}

#[tokio::test]
async fn a_revoked_node_comes_back_with_a_new_key_and_its_old_one_stays_out() {
    let rig = closed().await;
    leasewatch_server::grpc::spawn_revocations(rig.state.clone());
    let old = Agent::new(6, NOW);
    let first = issue(&rig, "default", TokenKind::Single).await;
    let mut client = rig.join_with(&old, with(&first.join.token)).await.unwrap();
    revoke(&rig, &old).await;
    assert_eq!(client.end().await.code(), Code::Unauthenticated);
    let second = issue(&rig, "default", TokenKind::Single).await;
    assert_turned_away(&rig, &old, with(&second.join.token)).await;
    assert!(rig.live.node(old.id()).unwrap().revoked);
    let mut new = Agent::new(7, NOW);
    new.node = Some(old.id());
    new.lose_state(new.chain);
    let claim = Claim { replaces: Some(old.id()), ..with(&second.join.token) };
    let mut client = rig.join_with(&new, claim).await.unwrap();
    assert!(!rig.live.node(old.id()).unwrap().revoked);
    assert_eq!(client.ack(rig.seal(&mut new)).await, (1, false));
}

/// Signed with the key that the server proves in its challenge, and each once.
#[tokio::test]
async fn what_is_done_about_a_key_is_signed_where_it_is_done() {
    let rig = Rig::new().await;
    let signed = async |agent: &Agent| {
        let mut tx = rig.database.db.begin(Scope::Ingest).await.unwrap();
        let key = rig.node(agent.id()).await.unwrap().key;
        let rows = identity_statement::of_node(&mut tx, key).await.unwrap();
        let server = rig.state.identity.public_key();
        let public = statement::public_key(&server).unwrap();
        for row in &rows {
            let SignedStatement { statement, signature } = &row.signed;
            assert_eq!((row.signer, row.at), (server, NOW));
            statement::verify(row.kind, statement, signature, &public).unwrap();
        }
        rows.into_iter().map(|row| (row.kind, row.signed.statement)).collect::<Vec<_>>()
    };
    let open = Agent::new(31, NOW);
    for _ in 0..2 {
        rig.greet(&open).await.unwrap();
    }
    let found = signed(&open).await;
    assert_eq!(found.len(), 1, "{found:?}");
    let enrollment = Enrollment::from_statement(&found[0].1).unwrap();
    assert_eq!((enrollment.node(), enrollment.admission), (open.id(), Admission::Open));

    let old = Agent::new(32, NOW);
    let first = issue(&rig, "rival", TokenKind::Single).await;
    rig.greet_with(&old, with(&first.join.token)).await.unwrap();
    let found = signed(&old).await;
    let enrollment = Enrollment::from_statement(&found[0].1).unwrap();
    let number = i64::from(first.key.number());
    assert_eq!(enrollment.admission, Admission::Token(number));
    // What the server knows, not what the hello says.
    assert_eq!((enrollment.tenant, enrollment.provider), (slug("rival"), slug("acme")));

    let mut new = Agent::new(33, NOW);
    let second = issue(&rig, "rival", TokenKind::Single).await;
    let claim = Claim { replaces: Some(old.id()), ..with(&second.join.token) };
    rig.greet_with(&new, claim).await.unwrap();
    new.node = Some(old.id());
    let found = signed(&old).await;
    let kinds: Vec<StatementKind> = found.iter().map(|(kind, _)| *kind).collect();
    let expected = [StatementKind::Enrollment, StatementKind::Revocation, StatementKind::Rotation];
    assert_eq!(kinds, expected);
    let revocation = Revocation::from_statement(&found[1].1).unwrap();
    assert_eq!(revocation.reason, RevocationReason::Replaced);
    let rotation = Rotation::from_statement(&found[2].1).unwrap();
    let public = |agent: &Agent| agent.key.verifying_key().to_bytes();
    assert_eq!((rotation.old, rotation.new), (public(&old), public(&new)));
    assert_eq!((rotation.node, revocation.key), (old.id(), public(&old)));
}

/// What the command line does, on another connection than the server's.
async fn revoke(rig: &Rig, agent: &Agent) {
    let key = rig.node(agent.id()).await.unwrap().key;
    let mut tx = rig.database.db.begin(Scope::Ingest).await.unwrap();
    assert_eq!(node_key::revoke_all(&mut tx, key, rig.clock.now()).await.unwrap().len(), 1);
    tx.commit().await.unwrap();
}

/// A hundred nodes that deliver, revoked one after the other while the others go on.
#[tokio::test]
async fn a_revoked_node_s_stream_ends_within_five_seconds_under_load() {
    const NODES: u8 = 100;
    let rig = Rig::new().await;
    leasewatch_server::grpc::spawn_revocations(rig.state.clone());
    let mut nodes = Vec::new();
    for seed in 1..=NODES {
        let agent = Agent::new(seed, NOW);
        let client = rig.join(&agent).await.unwrap();
        nodes.push((agent, client));
    }
    let mut revoked = Vec::new();
    while let Some((agent, client)) = nodes.pop() {
        revoke(&rig, &agent).await;
        let ends = tokio::spawn(async move {
            let mut client = client;
            tokio::time::timeout(std::time::Duration::from_secs(5), client.end()).await
        });
        revoked.push((agent, ends));
        for (other, client) in nodes.iter_mut().rev().take(1) {
            let sealed = rig.seal(other);
            let sequence = other.last.unwrap().0.0;
            assert_eq!(client.ack(sealed).await, (sequence, false));
        }
    }
    for (agent, ends) in revoked {
        let status = ends.await.unwrap().unwrap();
        assert_eq!(status.code(), Code::Unauthenticated);
        assert_turned_away(&rig, &agent, Claim::default()).await;
    }
}

fn shown(session: u64) -> Claim {
    Claim { session: Some(session).filter(|session| *session > 0), ..Claim::default() }
}

/// One user of a key: the number that it keeps, and what it says on its streams.
struct User {
    agent: Agent,
    session: u64,
}

impl User {
    async fn connect_and_deliver(&mut self, rig: &Rig) {
        let mut client = rig.join_with(&self.agent, shown(self.session)).await.unwrap();
        self.session = client.welcome.session;
        let sealed = rig.seal(&mut self.agent);
        let sequence = self.agent.last.unwrap().0.0;
        assert_eq!(client.ack(sealed).await, (sequence, false), "nobody is locked out");
    }
}

/// Whoever of the two comes back first, within two reconnects it is noticed, and both are recorded.
#[tokio::test]
async fn two_users_of_one_key_are_noticed_in_both_orders() {
    let rig = Rig::new().await;
    for seed in 1..=20_u8 {
        let at = rig.clock.now();
        let mut original = User { agent: Agent::new(seed, at), session: 0 };
        original.connect_and_deliver(&rig).await;
        assert!(!rig.live.node(original.agent.id()).unwrap().contested);
        // Every fourth took the key alone; all begin a chain of their own.
        let session = if seed % 4 == 0 { 0 } else { original.session };
        let mut copy = User { agent: original.agent.clone(), session };
        copy.agent.lose_state(leasewatch_core::id::ChainId([seed + 100; 16]));
        let id = original.agent.id();
        let (mut first, mut second) =
            if seed % 2 == 0 { (original, copy) } else { (copy, original) };
        first.connect_and_deliver(&rig).await;
        second.connect_and_deliver(&rig).await;
        if !rig.live.node(id).unwrap().contested {
            first.connect_and_deliver(&rig).await;
        }
        assert!(rig.live.node(id).unwrap().contested, "seed {seed}");
        let heads = rig.heads(id).await;
        let chains: std::collections::BTreeSet<_> =
            heads.iter().map(|row| row.head.chain).collect();
        assert_eq!(chains.len(), 2);
        first.connect_and_deliver(&rig).await;
        second.connect_and_deliver(&rig).await;
    }
    // A restarted server knows it as well.
    let restarted = leasewatch_server::live::Live::new();
    leasewatch_server::grpc::introduce_nodes(&rig.database.db, &restarted).await.unwrap();
    assert!(restarted.node(Agent::new(1, NOW).id()).unwrap().contested);
}

#[tokio::test]
async fn a_lone_node_is_never_contested_whatever_gets_lost() {
    let rig = Rig::new().await;
    let mut user = User { agent: Agent::new(1, NOW), session: 0 };
    user.connect_and_deliver(&rig).await;
    for round in 0..6 {
        // A welcome that does not arrive, or arrives and is followed by nothing.
        let lost = rig.greet_with(&user.agent, shown(user.session)).await.unwrap();
        if round % 2 == 0 {
            user.session = lost.welcome.session;
        }
        if round == 4 {
            user.session = 0;
        }
        user.connect_and_deliver(&rig).await;
    }
    // A server that lost its newest rows.
    rig.administer("update node_key set session_issued = 2, session_confirmed = 2").await;
    user.connect_and_deliver(&rig).await;
    assert!(!rig.live.node(user.agent.id()).unwrap().contested);
    assert_eq!(rig.count("select count(*) from contested_session").await, 0);
}

async fn ask(rig: &Rig, request: axum::http::request::Builder, form: &str) -> Response {
    let folder = tempfile::tempdir().unwrap();
    let pages = http::router(Http {
        db: rig.database.db.clone(),
        live: rig.live.clone(),
        clock: rig.clock.clone(),
        address: "http://127.0.0.1:7443".to_owned(),
        intake: Intake::open(folder.path().join("uploads"), 1).unwrap().0,
        entrance: Entrance::default(),
        issuer: issuer(&rig.database.db, &rig.clock),
        installers: crate::rig::no_installers(),
        removals: Removals::default(),
    });
    let request = request
        .header("host", "127.0.0.1:7443")
        .header("origin", "http://127.0.0.1:7443")
        .header("content-type", "application/x-www-form-urlencoded");
    pages.oneshot(request.body(Body::from(form.to_owned())).unwrap()).await.unwrap()
}

async fn page(rig: &Rig, request: axum::http::request::Builder, form: &str) -> (u16, String) {
    let answer = ask(rig, request, form).await;
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn a_page_makes_a_string_shows_it_once_and_shows_who_joined() {
    let rig = closed().await;
    let post = |path: &str| axum::http::Request::post(path);
    let get = |path: &str| axum::http::Request::get(path);
    let form = "tenant=default&provider=acme&nodes=1&valid=15m";
    let (status, made) = page(&rig, post("/enroll"), form).await;
    assert_eq!(status, 200, "{made}");
    let start = made.find("LEASEWATCH_JOIN=").unwrap() + "LEASEWATCH_JOIN=".len();
    let text: String = made[start..].chars().take_while(|c| !c.is_whitespace()).collect();
    let join = JoinString::parse(&text).unwrap();
    let (_, waiting) = page(&rig, get("/enroll/default/1?lang=en"), "").await;
    assert!(waiting.contains("Waiting for the first node"), "{waiting}");

    let mut agent = Agent::new(1, NOW);
    let mut client = rig.join_with(&agent, with(&join.token)).await.unwrap();
    client.ack(rig.seal(&mut agent)).await;
    let (_, joined) = page(&rig, get("/enroll/default/1?lang=en"), "").await;
    for words in ["node-1", "1 × NVIDIA H100 80GB HBM3", "1 of 1 joined"] {
        assert!(joined.contains(words), "{words}: {joined}");
    }
    let (_, list) = page(&rig, get("/enroll"), "").await;
    assert!(!list.contains("lwj1_") && !joined.contains("lwj1_"));

    for (wrong, what) in [
        ("tenant=nobody&provider=acme&nodes=1&valid=15m", 404),
        ("tenant=default&provider=acme&nodes=1&valid=15m&role=admin", 400),
    ] {
        assert_eq!(page(&rig, post("/enroll"), wrong).await.0, what, "{wrong}");
    }
    for wrong in [
        "provider=A b&nodes=1&valid=15m",
        "provider=a&nodes=0&valid=15m",
        "provider=a&nodes=1&valid=9y",
    ] {
        let (_, body) = page(&rig, post("/enroll"), &format!("tenant=default&{wrong}")).await;
        assert!(body.contains("<strong>") && !body.contains("LEASEWATCH_JOIN="), "{wrong}");
    }
    assert_eq!(rig.count("select count(*) from join_token").await, 1);
    let second = issue(&rig, "default", TokenKind::Fleet(5)).await;
    let revoke = format!("tenant=default&token={}", second.key.number());
    assert_eq!(page(&rig, post("/enroll/revoke"), &revoke).await.0, 303);
    assert_eq!(page(&rig, post("/enroll/revoke"), &revoke).await.0, 404);
    assert_turned_away(&rig, &Agent::new(2, NOW), with(&second.join.token)).await;
}

#[tokio::test]
async fn the_page_of_a_token_hears_of_a_node_that_joins_and_what_its_agent_found() {
    let rig = closed().await;
    let issued = issue(&rig, "default", TokenKind::Single).await;
    let get = |path: &str| axum::http::Request::get(path);
    assert_eq!(ask(&rig, get("/enroll/default/2/live.sse"), "").await.status(), 404);
    let mut events = ask(&rig, get("/enroll/default/1/live.sse"), "").await.into_body();
    let mut hear = async || {
        let frame = events.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(frame.starts_with(b"event: fresh\ndata: "), "{frame:?}");
    };
    // Something may have changed since the page was made.
    hear().await;
    let mut agent = Agent::new(1, NOW);
    let mut client = rig.join_with(&agent, with(&issued.join.token)).await.unwrap();
    hear().await;
    let shown = async || page(&rig, get("/enroll/default/1?lang=en"), "").await.1;
    let joined = shown().await;
    assert!(joined.contains("Connected.") && joined.contains("not reported yet"), "{joined}");
    client.ack(rig.seal(&mut agent)).await;
    hear().await;
    assert!(shown().await.contains("1 × NVIDIA H100 80GB HBM3"));
    let frame = LiveFrame {
        at: NOW,
        gpus: Vec::new(),
        backlog_segments: 0,
        cpu_busy_permille: None,
        host_memory_used_mib: None,
        host_memory_total_mib: None,
        agent_rss_kib: None,
        nvml_unavailable: true,
    };
    rig.live.frame(agent.id(), frame);
    hear().await;
    assert!(shown().await.contains("GPU driver not found"));
}

/// A stolen key speaks for its own node: a token of another tenant moves nothing.
#[tokio::test]
async fn a_key_that_is_known_cannot_be_moved_by_a_token() {
    let rig = closed().await;
    let agent = Agent::new(8, NOW);
    let own = issue(&rig, "default", TokenKind::Single).await;
    rig.greet_with(&agent, with(&own.join.token)).await.unwrap();
    let other = Agent::new(9, NOW);
    let foreign = issue(&rig, "rival", TokenKind::Single).await;
    rig.greet_with(&other, with(&foreign.join.token)).await.unwrap();
    let third = issue(&rig, "rival", TokenKind::Single).await;
    let claim = Claim { replaces: Some(other.id()), ..with(&third.join.token) };
    let client = rig.greet_with(&agent, claim).await.unwrap();
    assert_eq!(
        (client.welcome.tenant, client.welcome.node),
        ("default".to_owned(), agent.id().to_string())
    );
    assert_eq!(rig.count("select count(*) from join_token where joins = 1").await, 2);
}

/// A token of a lease, by itself or with a provider.
async fn issue_for(
    rig: &Rig,
    (tenant, provider): (&str, Option<&str>),
    lease: &str,
    kind: TokenKind,
) -> Result<Issued, IssueError> {
    let (tenant, provider, lease) = (slug(tenant), provider.map(slug), slug(lease));
    let (provider, lease) = (provider.as_ref(), Some(&lease));
    let (valid_ms, created_by) = (SINGLE_MS, "ada");
    let order = Order { tenant: &tenant, provider, lease, kind, valid_ms, created_by, who: None };
    issuer(&rig.database.db, &rig.clock).issue(order).await
}

/// Slots of an agent's node that a lease covers, and from when.
async fn covered(rig: &Rig, agent: &Agent) -> Vec<(String, u16, i64)> {
    let node = rig.node(agent.id()).await.unwrap();
    let mut tx = rig.database.db.begin(Scope::Operator).await.unwrap();
    let rows = assignment::of_node(&mut tx, node.key).await.unwrap();
    let of = |row: &assignment::AssignmentRow| {
        let Assignment { lease, slot, starts_at, ends_at, .. } = &row.assignment;
        assert_eq!(*ends_at, None, "as long as the lease");
        (lease.to_string(), slot.0, starts_at.0)
    };
    rows.iter().map(of).collect()
}

/// A node of the tenant `default` that is rented by a lease of the provider `default`, named as it.
async fn rented(rig: &Rig, seed: u8) -> (Agent, TenantKey) {
    let mut agent = Agent::new(seed, NOW);
    let token = issue(rig, "default", TokenKind::Single).await;
    let mut client = rig.join_with(&agent, with(&token.join.token)).await.unwrap();
    client.ack(rig.seal(&mut agent)).await;
    let lease = rent(rig, &agent, (NOW.plus_ms(-DAY_MS), 30), "").await;
    assign(rig, &agent, lease, (0, NOW.plus_ms(-DAY_MS))).await;
    (agent, lease.tenant)
}

#[tokio::test]
async fn what_joins_with_a_token_of_a_lease_is_assigned_to_it_once_its_gpus_are_known() {
    let rig = closed().await;
    let (first, tenant) = rented(&rig, 60).await;
    let jobs = jobs(&rig);
    let fleet = issue_for(&rig, ("default", None), "node-60", TokenKind::Fleet(2)).await.unwrap();
    let joined_at = rig.clock.now().plus_ms(7_000);
    rig.clock.set(joined_at);
    let mut agents = [61, 62].map(|seed| Agent::new(seed, joined_at));
    agents[0].gpus.push(gpu(61, 1));
    for agent in &mut agents {
        let mut client = rig.join_with(agent, with(&fleet.join.token)).await.unwrap();
        assert_eq!(rig.node(agent.id()).await.unwrap().provider, slug("default"), "the lease's");
        assert_eq!(assign_joined::turn(&jobs).await.unwrap(), 0, "no GPU is known yet");
        client.ack(rig.seal(agent)).await;
        assert_eq!(assign_joined::turn(&jobs).await.unwrap(), 1);
        assert_eq!(assign_joined::turn(&jobs).await.unwrap(), 0, "once");
    }
    let of = |gpus: u16| {
        (0..gpus).map(|slot| ("node-60".to_owned(), slot, joined_at.0)).collect::<Vec<_>>()
    };
    // Both joined while the clock stood at their first segment's beginning or later.
    assert_eq!(covered(&rig, &agents[0]).await, of(2));
    let second = covered(&rig, &agents[1]).await;
    assert_eq!((second.len(), &second[0].0, second[0].1), (1, &"node-60".to_owned(), 0));
    assert_eq!(second[0].2, rig.node(agents[1].id()).await.unwrap().enrolled_at.0);
    assert_eq!(covered(&rig, &first).await.len(), 1, "nothing else was touched");

    let mut tx = rig.database.db.begin(Scope::Tenant(tenant)).await.unwrap();
    let wanted = audit::Wanted { action: Some(Action::LeaseChanged), ..audit::Wanted::default() };
    let entries = audit::read(&mut tx, wanted, 10).await.unwrap();
    assert_eq!(entries.len(), 2);
    let detail =
        |name: &str| entries[1].detail.iter().find(|(key, _)| key == name).unwrap().1.clone();
    assert_eq!(entries[1].object, "node-60");
    assert_eq!(
        (detail("node"), detail("assigned_gpus")),
        (agents[0].id().to_string(), "0 1".into())
    );
    assert_eq!(detail("join_token_made_by"), "ada");
    let tokens = enrollment::tokens(&mut tx).await.unwrap();
    let of_lease: Vec<_> = tokens.iter().filter_map(|token| token.lease.clone()).collect();
    assert_eq!(of_lease, [slug("node-60")]);
}

#[tokio::test]
async fn a_token_names_no_lease_of_another_tenant_or_provider() {
    let rig = closed().await;
    rented(&rig, 63).await;
    let before = rig.count("select count(*) from join_token").await;
    for (tenant, provider, lease, words) in [
        ("rival", None, "node-63", "the tenant rival has no lease node-63"),
        ("default", None, "node-64", "the tenant default has no lease node-64"),
        ("default", Some("acme"), "node-63", "the lease node-63 is of the provider default"),
    ] {
        let refused = issue_for(&rig, (tenant, provider), lease, TokenKind::Single).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    }
    assert_eq!(rig.count("select count(*) from join_token").await, before);
    assert_eq!(rig.count("select count(*) from tenant where slug = 'rival'").await, 0);
    let named = issue_for(&rig, ("default", Some("default")), "node-63", TokenKind::Single).await;
    assert!(named.is_ok());
}

/// A new key of a node whose GPU is rented already: the rental that covers it stays.
#[tokio::test]
async fn a_key_that_takes_over_a_rented_node_leaves_its_gpus_where_they_are() {
    let rig = closed().await;
    let (old, _) = rented(&rig, 65).await;
    // Another lease of the tenant, of which nothing is assigned.
    let other = Agent { name: "node-66".to_owned(), ..old.clone() };
    let lease = rent(&rig, &other, (NOW, 30), "").await;
    let mut new = Agent::new(67, old.at);
    let token = issue_for(&rig, ("default", None), "node-66", TokenKind::Single).await.unwrap();
    let claim = Claim { replaces: Some(old.id()), ..with(&token.join.token) };
    new.node = Some(old.id());
    new.lose_state(new.chain);
    let mut client = rig.join_with(&new, claim).await.unwrap();
    client.ack(rig.seal(&mut new)).await;
    assert_eq!(lease.tenant, rig.node(old.id()).await.unwrap().key.tenant());
    assert_eq!(assign_joined::turn(&jobs(&rig)).await.unwrap(), 1);
    let names: Vec<_> = covered(&rig, &new).await.into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["node-65"]);
}
