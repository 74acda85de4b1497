//! Tenants and the audit log, as their pages show them.

use leasewatch_server::store::user::Role;

use super::site::{Ask, PASSWORD, Site};

#[tokio::test]
async fn the_log_names_who_did_what_and_no_password() {
    let site = Site::new().await;
    let ada = site.operator("ada").await;
    let wrong = "a wrong password that is typed";
    site.sign_in(&Ask::default(), "ada", wrong).await.unwrap_err();
    // A password in the field of the name is nobody's name.
    site.sign_in(&Ask::default(), "hunter2-is-secret", PASSWORD).await.unwrap_err();
    site.sign_in(&Ask::default(), "ada", PASSWORD).await.unwrap();
    site.post(&ada, "/settings/users/invite", "reach=demo:admin").await;
    let (status, csv) = site.get(&ada, "/settings/audit.csv").await;
    assert_eq!(status, 200);
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!(lines[0], "number,at_utc,tenant,user,way,action,object,detail,address");
    let ends = |line: &str| line.split_once("Z,").unwrap().1.to_owned();
    assert_eq!(
        lines[1..].iter().map(|line| ends(line)).collect::<Vec<_>>(),
        [
            ",ada,session,user_invited,demo:admin,,127.0.0.1",
            ",ada,session,signed_in,ada,,127.0.0.1",
            ",,outside,sign_in_refused,,,127.0.0.1",
            ",,outside,sign_in_refused,ada,,127.0.0.1",
        ]
    );
    for secret in [wrong, PASSWORD, "hunter2", "/link/"] {
        assert!(!csv.contains(secret), "{secret}: {csv}");
    }
    let (_, page) = site.get(&ada, "/settings/audit?action=sign_in_refused&lang=en").await;
    assert!(page.contains("sign-in refused") && !page.contains("demo:admin"), "{page}");
    let (_, chinese) = site.get(&ada, "/settings/audit?lang=zh-CN").await;
    assert!(chinese.contains("登录被拒") && chinese.contains("邀请用户"), "{chinese}");
    let (_, json) = site.get(&ada, "/settings/audit.json?from=2100-01-01").await;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["entries"], serde_json::json!([]));
    for (query, field) in [
        ("action=nothing", "action"),
        ("from=x", "from"),
        ("to=2026-13-01", "to"),
        ("before=x", "before"),
    ] {
        let (status, page) = site.get(&ada, &format!("/settings/audit?{query}")).await;
        assert!(status == 400 && page.contains(field), "{query}: {status} {page}");
    }
}

#[tokio::test]
async fn an_admin_reads_the_log_of_the_own_tenants_alone() {
    let site = Site::new().await;
    site.operator("ada").await;
    let admin = site.user("li.lei", &[("demo", Role::Admin), ("default", Role::Viewer)]).await;
    let other = site.user("eve", &[("default", Role::Admin)]).await;
    for (ask, tenant) in [(&admin, "demo"), (&other, "default")] {
        let form = format!("tenant={tenant}&name=renamed-by-{}", ask.name);
        assert_eq!(site.post(ask, "/settings/tenants/rename", &form).await.0, 303, "{form}");
    }
    for path in ["/settings/audit", "/settings/audit.json", "/settings/audit.csv"] {
        let (status, body) = site.get(&admin, path).await;
        assert_eq!(status, 200);
        assert!(
            body.contains("renamed-by-li.lei") && !body.contains("renamed-by-eve"),
            "{path}: {body}"
        );
    }
}

#[tokio::test]
async fn a_tenant_is_made_named_taken_out_and_removed_on_its_page() {
    let site = Site::new().await;
    let ada = site.operator("ada").await;
    let page = "/settings/tenants?lang=en";
    for (form, words) in [
        ("slug=Team+A&name=Team", "1 to 40 of a-z"),
        ("slug=demo&name=Team", "There is a tenant of this name"),
        ("slug=team-a&name=+", "It has to be filled in"),
    ] {
        let (status, _, body) = site.post(&ada, page, form).await;
        assert!(status == 422 && body.contains(words), "{form}: {status} {body}");
    }
    assert_eq!(site.post(&ada, page, "slug=team-a&name=Team+%E7%94%B2").await.0, 303);
    let id = "44".repeat(16);
    site.node("team-a", &id, "their-node").await;
    let (_, json) = site.get(&ada, "/settings/tenants.json").await;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let team = json["tenants"].as_array().unwrap().iter().find(|row| row["slug"] == "team-a");
    assert_eq!(team.unwrap()["nodes"], 1, "{json}");
    assert_eq!(team.unwrap()["name"], "Team 甲");

    let answer =
        site.send(&ada, axum::http::Method::GET, "/settings/tenants/team-a/export.zip", "").await;
    assert_eq!(answer.headers()["content-type"], "application/zip");
    let bytes = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
    let mut zip = zip::ZipArchive::new(std::io::Cursor::new(bytes)).unwrap();
    let nodes = std::io::read_to_string(zip.by_name("tables/node.csv").unwrap()).unwrap();
    assert!(nodes.contains("their-node") && nodes.lines().count() == 2, "{nodes}");

    let (status, _, body) =
        site.post(&ada, "/settings/tenants/remove?lang=en", "tenant=team-a&confirm=team").await;
    assert!(status == 422 && body.contains("Nothing was removed"), "{body}");
    assert_eq!(site.count("select count(*) from node").await, 1);
    let form = "tenant=team-a&confirm=team-a";
    assert_eq!(site.post(&ada, "/settings/tenants/remove", form).await.0, 303);
    assert_eq!(site.count("select count(*) from node").await, 0);
    let (_, page) = site.get(&ada, page).await;
    assert!(page.contains("team-a was removed with"), "{page}");
}
