//! Who may ask for what: each route with each kind of asker, what a tenant sees, and that a session
//! is over when it is over.

#[path = "access/entering.rs"]
mod entering;
#[path = "access/install.rs"]
mod install;
#[path = "access/keys.rs"]
mod keys;
#[path = "access/site.rs"]
pub mod site;

use axum::http::{Method, StatusCode};
use leasewatch_server::http::{self, Need};
use leasewatch_server::store::user::Role;

use site::{Ask, Site};

/// Every route, with what it has to need. A route that is added without a line here fails the
/// test, and so does a line whose route needs something else.
const ROUTES: &[(&str, &str, Need)] = &[
    ("GET", "/", Need::Viewer),
    ("GET", "/overview.json", Need::Viewer),
    ("GET", "/nodes/{node}", Need::Viewer),
    ("GET", "/nodes/{node}/node.json", Need::Viewer),
    ("GET", "/nodes/{node}/gpus/{slot}", Need::Viewer),
    ("GET", "/nodes/{node}/gpus/{slot}/gpu.json", Need::Viewer),
    ("GET", "/nodes/{node}/gpus/{slot}/readings.csv", Need::Viewer),
    ("GET", "/hours.csv", Need::Viewer),
    ("GET", "/live.sse", Need::Viewer),
    ("GET", "/costs", Need::Viewer),
    ("GET", "/costs.json", Need::Viewer),
    ("GET", "/costs.csv", Need::Viewer),
    ("GET", "/import", Need::Admin),
    ("POST", "/import", Need::Admin),
    ("GET", "/imports/{import}", Need::Admin),
    ("GET", "/imports/{import}/import.json", Need::Admin),
    ("GET", "/sign-in", Need::Nothing),
    ("POST", "/sign-in", Need::Nothing),
    ("POST", "/sign-out", Need::Nothing),
    ("GET", "/link/{secret}", Need::Nothing),
    ("POST", "/link/{secret}", Need::Nothing),
    ("GET", "/account", Need::Person),
    ("POST", "/account/password", Need::Person),
    ("POST", "/account/language", Need::Person),
    ("POST", "/account/session", Need::Person),
    ("POST", "/account/token", Need::Person),
    ("POST", "/account/token/revoke", Need::Person),
    ("GET", "/settings/users", Need::OperatorInPerson),
    ("POST", "/settings/users", Need::OperatorInPerson),
    ("POST", "/settings/users/invite", Need::OperatorInPerson),
    ("GET", "/enroll", Need::Admin),
    ("POST", "/enroll", Need::Admin),
    ("GET", "/enroll/{tenant}/{token}", Need::Admin),
    ("GET", "/enroll/{tenant}/{token}/live.sse", Need::Admin),
    ("POST", "/enroll/revoke", Need::Admin),
    ("GET", "/install.sh", Need::Nothing),
    ("GET", "/agents/{digest}", Need::Nothing),
    ("GET", "/join-tokens.json", Need::Admin),
    ("POST", "/join-tokens.json", Need::Admin),
    ("POST", "/join-tokens/revoke.json", Need::Admin),
    ("POST", "/nodes/{node}/revoke", Need::Admin),
    ("GET", "/leases", Need::Viewer),
    ("GET", "/leases.json", Need::Viewer),
    ("GET", "/leases.csv", Need::Viewer),
    ("GET", "/leases/new", Need::Admin),
    ("POST", "/leases/new", Need::Admin),
    ("GET", "/leases/import", Need::Admin),
    ("POST", "/leases/import", Need::Admin),
    ("GET", "/leases/{tenant}/{lease}", Need::Viewer),
    ("GET", "/leases/{tenant}/{lease}/lease.json", Need::Viewer),
    ("GET", "/leases/{tenant}/{lease}/edit", Need::Admin),
    ("POST", "/leases/{tenant}/{lease}/edit", Need::Admin),
    ("GET", "/leases/{tenant}/{lease}/assign", Need::Admin),
    ("POST", "/leases/{tenant}/{lease}/assign", Need::Admin),
    ("POST", "/leases/{tenant}/{lease}/assignment", Need::Admin),
    ("POST", "/leases/{tenant}/{lease}/session", Need::Admin),
    ("GET", "/nodes/{node}/labels", Need::Admin),
    ("POST", "/nodes/{node}/labels", Need::Admin),
    ("GET", "/assets/{file}", Need::Nothing),
    ("GET", "/healthz", Need::Nothing),
    ("GET", "/readyz", Need::Nothing),
];

/// Kinds of askers, and whether each meets a need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stranger,
    NoRole,
    Viewer,
    Admin,
    Operator,
    ViewerToken,
    OperatorToken,
}

const KINDS: [Kind; 7] = [
    Kind::Stranger,
    Kind::NoRole,
    Kind::Viewer,
    Kind::Admin,
    Kind::Operator,
    Kind::ViewerToken,
    Kind::OperatorToken,
];

impl Kind {
    fn meets(self, need: Need) -> bool {
        use Kind::{Admin, NoRole, Operator, OperatorToken, Viewer, ViewerToken};
        let who: &[Self] = match need {
            Need::Nothing => &KINDS,
            Need::Viewer => &[Viewer, Admin, Operator, ViewerToken, OperatorToken],
            Need::Admin => &[Admin, Operator, OperatorToken],
            Need::Operator => &[Operator, OperatorToken],
            Need::Person => &[NoRole, Viewer, Admin, Operator],
            Need::OperatorInPerson => &[Operator],
        };
        who.contains(&self)
    }
}

#[tokio::test]
async fn every_route_is_listed_and_lets_through_whom_it_has_to_alone() {
    let site = Site::new().await;
    let listed: Vec<_> = http::declared(site.http.clone())
        .into_iter()
        .map(|route| (route.method.to_string(), route.pattern, route.need))
        .collect();
    let expected: Vec<_> =
        ROUTES.iter().map(|(method, path, need)| ((*method).to_owned(), *path, *need)).collect();
    let missing: Vec<_> = listed.iter().filter(|route| !expected.contains(route)).collect();
    assert!(missing.is_empty(), "routes that this test does not know: {missing:?}");
    assert_eq!(listed.len(), expected.len(), "routes that are gone");

    let viewer = site.user("viewer", &[("default", Role::Viewer)]).await;
    let askers = [
        (Kind::Stranger, Ask::default()),
        (Kind::NoRole, site.user("nobody", &[]).await),
        (Kind::Admin, site.user("admin", &[("default", Role::Admin)]).await),
        (Kind::Operator, site.operator("operator").await),
        (Kind::ViewerToken, site.token(&viewer, &[("default", Role::Viewer)], false).await),
        (Kind::OperatorToken, site.operator_token("operator").await),
        (Kind::Viewer, viewer),
    ];
    // Whoever signs out can ask for nothing afterwards.
    let is_last = |route: &&(String, &str, Need)| route.1 == "/sign-out";
    let others = expected.iter().filter(|route| !is_last(route));
    for (method, pattern, need) in others.chain(expected.iter().filter(is_last)) {
        let path = pattern
            .replace("{node}", &"ab".repeat(16))
            .replace("{slot}", "0")
            .replace("{import}", &"0".repeat(16))
            .replace("{secret}", &"0".repeat(64))
            .replace("{tenant}", "default")
            .replace("{token}", "0")
            .replace("{lease}", "none")
            .replace("{digest}", &"0".repeat(64))
            .replace("{file}", "none.css");
        let method: Method = method.parse().unwrap();
        for (kind, ask) in &askers {
            let (status, head) = site.status(ask, method.clone(), &path).await;
            let where_to = head.get("location").map(|to| to.to_str().unwrap());
            let to_sign_in = where_to.is_some_and(|to| to.starts_with("/sign-in?next="));
            let is_refused =
                to_sign_in || [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&status);
            assert_eq!(is_refused, !kind.meets(*need), "{kind:?} {method} {path}: {status}");
            assert!(!status.is_server_error(), "{kind:?} {method} {path}: {status}");
        }
    }
}

#[tokio::test]
async fn a_tenant_sees_its_own_nodes_and_others_are_not_there() {
    let site = Site::new().await;
    let (mine, theirs, nothing) = ("11".repeat(16), "22".repeat(16), "33".repeat(16));
    site.node("default", &mine, "mine-node").await;
    site.node("demo", &theirs, "their-node").await;
    let viewer = site.user("viewer", &[("default", Role::Viewer)]).await;
    let both = [("default", Role::Viewer), ("demo", Role::Viewer)];
    let everywhere = site.user("everywhere", &both).await;
    let token = site.token(&everywhere, &[("default", Role::Viewer)], false).await;
    for ask in [&viewer, &token] {
        for path in ["/", "/overview.json"] {
            let (status, body) = site.get(ask, path).await;
            assert_eq!(status, 200, "{body}");
            assert!(body.contains("mine-node") && !body.contains("their-node"), "{path}: {body}");
        }
        assert_eq!(site.get(ask, &format!("/nodes/{mine}")).await.0, 200);
        for of_node in [
            "/nodes/{}",
            "/nodes/{}/node.json",
            "/nodes/{}/gpus/0",
            "/nodes/{}/gpus/0/gpu.json",
            "/nodes/{}/gpus/0/readings.csv",
            "/hours.csv?from=2026-01-01&to=2026-01-02&node={}",
        ] {
            let ask_for = async |id: &str| site.get(ask, &of_node.replace("{}", id)).await;
            let (status, body) = ask_for(&theirs).await;
            assert_eq!(status, 404, "{of_node}");
            let absent = ask_for(&nothing).await.1.replace(&nothing, &theirs);
            assert_eq!(body, absent, "{of_node}: as if absent");
        }
    }
    let (_, body) = site.get(&everywhere, "/overview.json").await;
    assert!(body.contains("mine-node") && body.contains("their-node"), "{body}");
    let csv = "/hours.csv?from=2026-01-01&to=2026-01-02";
    assert_eq!(site.get(&everywhere, csv).await.0, 200);
    assert_eq!(site.get(&everywhere, &format!("/nodes/{theirs}")).await.0, 200);
}

#[tokio::test]
async fn a_node_is_shut_out_on_its_page_by_an_admin_of_its_tenant_alone() {
    let site = Site::new().await;
    let (mine, theirs) = ("11".repeat(16), "22".repeat(16));
    site.node("default", &mine, "mine-node").await;
    site.node("demo", &theirs, "their-node").await;
    for id in [&mine, &theirs] {
        let key = id.repeat(2);
        let insert = "insert into node_key (tenant_id, node_id, key_id, public_key, added_at)";
        site.administer(&format!(
            "{insert} select tenant_id, node_id, '\\x{key}', '\\x{key}', 0 from node
            where public_id = '\\x{id}'"
        ))
        .await;
    }
    let roles = [("default", Role::Admin), ("demo", Role::Viewer)];
    let admin = site.user("li.lei", &roles).await;
    let revoke = |id: &str| format!("/nodes/{id}/revoke?lang=en");
    let page = async |id: &str| site.get(&admin, &format!("/nodes/{id}?lang=en")).await.1;
    assert!(page(&mine).await.contains(&format!("action=\"{}\"", revoke(&mine))));
    assert!(!page(&theirs).await.contains("/revoke"));
    let send = async |path: &str| site.post(&admin, path, "").await;
    assert_eq!(send(&revoke(&theirs)).await.0, 403, "it may be seen and not changed");
    assert_eq!(send(&revoke(&"33".repeat(16))).await.0, 404);
    let (status, head, _) = send(&revoke(&mine)).await;
    assert_eq!(status, 303);
    assert_eq!(head["location"], format!("/nodes/{mine}?lang=en"));
    let (_, json) = site.get(&admin, &format!("/nodes/{mine}/node.json")).await;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let statement = &json["statements"][0];
    assert_eq!(statement["kind"], "revocation", "{json}");
    assert!(statement["statement"].as_str().unwrap().contains("\"by\":\"li.lei\""), "{json}");
    // Twice is once.
    assert_eq!(send(&revoke(&mine)).await.0, 303);
    let (_, again) = site.get(&admin, &format!("/nodes/{mine}/node.json")).await;
    let again: serde_json::Value = serde_json::from_str(&again).unwrap();
    assert_eq!(again["statements"], json["statements"]);
}

#[tokio::test]
async fn an_import_is_its_tenants_alone() {
    let site = Site::new().await;
    let id = site.upload("default").await;
    let admin = site.user("admin", &[("default", Role::Admin)]).await;
    let other = site.user("other", &[("demo", Role::Admin), ("default", Role::Viewer)]).await;
    let (run, json) = (format!("/imports/{id}"), format!("/imports/{id}/import.json"));
    for path in [&run, &json] {
        assert_eq!(site.get(&admin, path).await.0, 200);
        assert_eq!(site.get(&other, path).await.0, 404);
    }
    assert!(site.get(&admin, "/import").await.1.contains("upload.csv"));
    assert!(!site.get(&other, "/import").await.1.contains("upload.csv"));
    assert!(!site.get(&other, &format!("/import?again={id}")).await.1.contains("uploaded-node"));
}

#[tokio::test]
async fn without_users_everybody_is_let_in_and_told_so_and_afterwards_nobody() {
    let site = Site::new().await;
    let stranger = Ask::default();
    let (status, body) = site.get(&stranger, "/?lang=en").await;
    assert_eq!(status, 200);
    assert!(body.contains("There are no users yet") && body.contains("users setup-link"));
    assert_eq!(site.get(&stranger, "/account").await.0, 303);
    site.operator("ada").await;
    let (status, head) = site.status(&stranger, Method::GET, "/?lang=en").await;
    assert_eq!(
        (status, &head["location"]),
        (StatusCode::SEE_OTHER, &"/sign-in?next=%2F%3Flang%3Den".parse().unwrap())
    );
    let (status, head) = site.status(&stranger, Method::GET, "/overview.json").await;
    assert_eq!(
        (status, &head["www-authenticate"]),
        (StatusCode::UNAUTHORIZED, &"Bearer".parse().unwrap())
    );
    // What a stranger sees says nothing of what is here.
    let (status, body) = site.get(&stranger, "/sign-in?lang=en").await;
    assert_eq!(status, 200);
    assert!(!body.contains("ada") && !body.contains("Overview") && !body.contains("no users"));
}
