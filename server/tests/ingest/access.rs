//! Who may ask for what: each route with each kind of asker, what a tenant sees, and that a session
//! is over when it is over.

#[path = "access/cases.rs"]
mod cases;
#[path = "access/claimable.rs"]
pub mod claimable;
#[path = "access/entering.rs"]
mod entering;
#[path = "access/install.rs"]
mod install;
#[path = "access/keys.rs"]
mod keys;
#[path = "access/matrix.rs"]
mod matrix;
#[path = "access/settings.rs"]
mod settings;
#[path = "access/site.rs"]
pub mod site;

use axum::http::{Method, StatusCode};
use leasewatch_server::store::user::Role;

use site::{Ask, Site};

#[tokio::test]
async fn a_tenant_sees_its_own_nodes_and_others_are_not_there() {
    let site = Site::new().await;
    let (mine, theirs) = ("11".repeat(16), "22".repeat(16));
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
