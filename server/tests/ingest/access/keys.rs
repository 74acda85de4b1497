//! Links that work once, tokens of programs, and a user's own page.

use axum::http::Method;
use leasewatch_core::join::JoinString;
use leasewatch_core::time::{DAY_MS, HOUR_MS};
use leasewatch_server::store::user::Role;
use leasewatch_server::store::user_link::Purpose;

use super::site::{Ask, PASSWORD, Site};

fn form(name: &str, password: &str) -> String {
    let password = password.replace(' ', "+");
    format!("name={name}&password={password}&again={password}")
}

#[tokio::test]
async fn the_set_up_link_makes_one_operator_however_often_it_is_sent() {
    let site = Site::new().await;
    let end = site.clock.now().plus_ms(DAY_MS);
    let first = site.link(Purpose::Setup, None, end).await;
    let link = site.link(Purpose::Setup, None, end).await;
    assert_eq!(site.get(&Ask::default(), &first).await.0, 404, "a newer one replaces it");
    assert_eq!(site.get(&Ask::default(), &link).await.0, 200);
    let forms: Vec<_> = (0..20).map(|number| form(&format!("ada{number}"), PASSWORD)).collect();
    let ask = Ask::default();
    let sent = forms.iter().map(|form| site.post(&ask, &link, form));
    let answers = futures_util::future::join_all(sent).await;
    let made: Vec<_> = answers.iter().filter(|(status, ..)| *status == 303).collect();
    assert_eq!(made.len(), 1);
    assert!(answers.iter().all(|(status, ..)| [303, 404].contains(status)));
    assert_eq!(site.count("select count(*) from app_user where is_operator").await, 1);
    // Whoever made it is signed in.
    let entered = Ask::default().with_cookie(made[0].1["set-cookie"].to_str().unwrap());
    assert_eq!(site.get(&entered, "/settings/users").await.0, 200);
}

#[tokio::test]
async fn an_invitation_gives_the_role_that_it_was_made_with_once() {
    let site = Site::new().await;
    let ada = site.operator("ada").await;
    let (status, _, body) = site.post(&ada, "/settings/users/invite", "reach=default:viewer").await;
    assert_eq!(status, 200);
    let (_, link) = body.split_once("http://127.0.0.1:7443/link/").unwrap();
    let link = format!("/link/{}", &link[..64]);
    let stranger = Ask::default();
    // Looking uses nothing up, and mistakes neither.
    for _ in 0..3 {
        assert_eq!(site.get(&stranger, &link).await.0, 200);
    }
    for (form, words) in [
        (form("eve", "short"), "fewer than 12"),
        (form("E v e", PASSWORD), "1 to 64 of"),
        (form("ada", PASSWORD), "Somebody has this name"),
        ("name=eve&password=correct+horse+battery&again=other".to_owned(), "not the same"),
    ] {
        let (status, _, body) = site.post(&stranger, &format!("{link}?lang=en"), &form).await;
        assert!(status == 422 && body.contains(words), "{form}: {status} {body}");
    }
    let with_role = format!("{}&role=admin", form("eve", PASSWORD));
    assert_eq!(site.post(&stranger, &link, &with_role).await.0, 400);
    let (status, head, _) = site.post(&stranger, &link, &form("eve", PASSWORD)).await;
    assert_eq!(status, 303);
    let eve = stranger.with_cookie(head["set-cookie"].to_str().unwrap());
    assert_eq!((site.get(&eve, "/").await.0, site.get(&eve, "/import").await.0), (200, 403));
    let used = site.post(&stranger, &link, &form("mallory", PASSWORD)).await;
    assert_eq!(used.0, 404);
    // Used, wrong and never made read the same.
    let page = async |link: &str| site.get(&stranger, link).await.1.replace(link, "/link/x");
    let unknown = format!("/link/{}", "0".repeat(64));
    assert_eq!(page(&link).await, page(&unknown).await);
    assert_eq!(site.get(&stranger, "/link/..%2F..%2Fetc").await.0, 404);
}

#[tokio::test]
async fn links_end_with_their_time_their_user_and_their_maker() {
    let site = Site::new().await;
    let ada = site.operator("ada").await;
    site.operator("bob").await;
    let eve = site.user("eve", &[]).await;
    let soon = site.clock.now().plus_ms(HOUR_MS);
    let reset = site.link(Purpose::Reset, Some("eve"), soon).await;
    let sign_in = site.link(Purpose::SignIn, Some("eve"), soon).await;
    let (_, _, body) = site.post(&ada, "/settings/users/invite", "reach=operator").await;
    let invite = format!("/link/{}", &body.split_once("/link/").unwrap().1[..64]);
    let stranger = Ask::default();
    assert_eq!(site.get(&stranger, &invite).await.0, 200);
    site.administer("update app_user set is_operator = false where name = 'ada'").await;
    assert_eq!(site.get(&stranger, &invite).await.0, 404, "its maker may no longer");
    site.administer("update app_user set disabled_at = 1 where name = 'eve'").await;
    assert_eq!(site.get(&stranger, &reset).await.0, 404, "its user is disabled");
    site.administer("update app_user set disabled_at = null where name = 'eve'").await;
    // A new password ends every session of its user.
    let password = "password=another+horse+battery&again=another+horse+battery";
    let (status, head, _) = site.post(&stranger, &reset, password).await;
    assert_eq!(status, 303);
    assert_eq!(site.get(&eve, "/account").await.0, 303);
    let entered = stranger.with_cookie(head["set-cookie"].to_str().unwrap());
    assert_eq!(site.get(&entered, "/account").await.0, 200);
    assert!(site.sign_in(&stranger, "eve", PASSWORD).await.is_err());
    assert!(site.sign_in(&stranger, "eve", "another horse battery").await.is_ok());
    // A link to sign in asks for no password, and is over with its time.
    site.clock.set(soon.plus_ms(-1));
    assert_eq!(site.get(&stranger, &sign_in).await.0, 200);
    site.clock.set(soon);
    assert_eq!(site.post(&stranger, &sign_in, "").await.0, 404);
}

#[tokio::test]
async fn a_token_has_its_scope_is_shown_once_and_ends() {
    let site = Site::new().await;
    let admin = site.user("admin", &[("default", Role::Admin)]).await;
    // More than its user has cannot be asked for.
    for reach in ["operator", "demo:viewer", "default:owner", ""] {
        let form = format!("what=x&reach={reach}&days=30");
        assert_eq!(site.post(&admin, "/account/token", &form).await.0, 422, "{reach}");
    }
    assert_eq!(
        site.post(&admin, "/account/token", "what=x&reach=default:viewer&days=9999").await.0,
        422
    );
    let (status, head, body) =
        site.post(&admin, "/account/token", "what=nightly&reach=default:viewer&days=30").await;
    assert_eq!((status, head["cache-control"].to_str().unwrap()), (200, "no-store"));
    let token = body.split_once("<code id=\"made-token\">").unwrap().1.split_once('<').unwrap().0;
    assert!(!site.get(&admin, "/account").await.1.contains(token), "shown once");
    let program =
        |bearer: &str| Ask { bearer: Some(bearer.to_owned()), origin: None, ..Ask::default() };
    assert_eq!(site.get(&program(token), "/overview.json").await.0, 200);
    assert_eq!(site.get(&program(token), "/import").await.0, 403);
    // A token makes no others and reads no account, also beside a cookie.
    let both = Ask { cookie: admin.cookie.clone(), ..program(token) };
    for ask in [&program(token), &both] {
        assert_eq!(site.get(ask, "/account").await.0, 403);
    }
    for wrong in [
        "",
        "x",
        &token[..token.len() - 1],
        &token.replace("lw_", ""),
        &format!("lw_{}", "0".repeat(64)),
    ] {
        assert_eq!(site.get(&program(wrong), "/overview.json").await.0, 401, "{wrong}");
        // A token that is none is not made up for by a cookie.
        let both = Ask { cookie: admin.cookie.clone(), ..program(wrong) };
        assert_eq!(site.get(&both, "/overview.json").await.0, 401, "{wrong}");
    }
    let id = site.count("select token_id::bigint from api_token").await;
    let eve = site.user("eve", &[("default", Role::Admin)]).await;
    assert_eq!(site.post(&eve, "/account/token/revoke", &format!("token={id}")).await.0, 404);
    assert_eq!(site.get(&program(token), "/overview.json").await.0, 200);
    assert_eq!(site.post(&admin, "/account/token/revoke", &format!("token={id}")).await.0, 303);
    assert_eq!(site.get(&program(token), "/overview.json").await.0, 401);

    let short = site.token(&admin, &[("default", Role::Viewer)], false).await;
    assert_eq!(site.get(&short, "/overview.json").await.0, 200);
    site.clock.advance_ms(DAY_MS);
    assert_eq!(site.get(&short, "/overview.json").await.0, 401);
}

#[tokio::test]
async fn a_user_changes_the_own_password_language_and_sessions_alone() {
    let site = Site::new().await;
    let eve = site.user("eve", &[("default", Role::Viewer)]).await;
    let other = site.sign_in(&Ask::default(), "eve", PASSWORD).await.unwrap();
    let foreign = site.user("ada", &[]).await;
    assert_eq!(site.post(&eve, "/account/language", "language=zh-CN").await.0, 303);
    assert!(site.get(&other, "/account").await.1.contains("<html lang=\"zh-CN\">"));
    assert!(site.get(&other, "/account?lang=en").await.1.contains("<html lang=\"en\">"));

    let new = "password=another+horse+battery&again=another+horse+battery";
    let wrong = format!("username=eve&current=wrong&{new}");
    assert_eq!(site.post(&eve, "/account/password", &wrong).await.0, 422);
    let right = format!("username=eve&current=correct+horse+battery&{new}");
    let (status, head, _) = site.post(&eve, "/account/password", &right).await;
    assert_eq!(status, 303);
    // The browser that asked has a new session, every older one is over.
    let eve = eve.with_cookie(head["set-cookie"].to_str().unwrap());
    assert_eq!((site.get(&other, "/").await.0, site.get(&eve, "/").await.0), (303, 200));

    let id = site
        .count("select session_id::bigint from user_session join app_user using (user_id) where name = 'eve'")
        .await;
    let form = format!("session={id}");
    assert_eq!(site.post(&foreign, "/account/session", &form).await.0, 404);
    assert_eq!(site.get(&eve, "/").await.0, 200);
    assert_eq!(site.post(&eve, "/account/session", &form).await.0, 303);
    assert_eq!(site.get(&eve, "/").await.0, 303);
    // Wrong guesses at the own password are counted like those at the door.
    let eve = site.sign_in(&Ask::default(), "eve", "another horse battery").await.unwrap();
    for _ in 0..10 {
        site.post(&eve, "/account/password", &wrong).await;
    }
    assert_eq!(
        site.sign_in(&Ask::default(), "eve", "another horse battery").await.unwrap_err().0,
        429
    );
    let (status, _) = site.status(&eve, Method::GET, "/account").await;
    assert_eq!(status, 200, "whoever is in stays in");
}

/// What the page does, for programs: the same rules, and JSON for an answer.
#[tokio::test]
async fn a_program_makes_lists_and_takes_back_join_tokens_of_its_tenant_alone() {
    let site = Site::new().await;
    site.operator("root").await;
    let admin = site.user("admin", &[("default", Role::Admin), ("demo", Role::Viewer)]).await;
    let grants = [("default", Role::Admin), ("demo", Role::Viewer)];
    let program = site.token(&admin, &grants, false).await;
    let path = "/join-tokens.json";
    let form = "tenant=default&provider=acme&nodes=3&valid=24h";
    let (status, _, body) = site.post(&program, path, form).await;
    assert_eq!(status, 201, "{body}");
    let made: serde_json::Value = serde_json::from_str(&body).unwrap();
    let join = JoinString::parse(made["join"].as_str().unwrap()).unwrap();
    assert_eq!((&made["tenant"], &made["node_ceiling"]), (&"default".into(), &3.into()));

    let (_, body) = site.get(&program, path).await;
    let listed: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(listed["tokens"][0]["number"], made["number"]);
    assert_eq!(
        (&listed["tokens"][0]["state"], &listed["tokens"][0]["joins"]),
        (&"good".into(), &0.into())
    );
    assert!(!body.contains(made["join"].as_str().unwrap()), "it is shown once");
    assert_eq!(join.addresses().len(), 1);

    for (form, expected, word) in [
        ("tenant=demo&provider=acme&nodes=1&valid=15m", 404, ""),
        ("tenant=default&provider=acme&nodes=0&valid=15m", 400, "nodes"),
        ("tenant=default&provider=acme&nodes=1&valid=2y", 400, "valid"),
        ("tenant=default&provider=A%20B&nodes=1&valid=15m", 400, "provider"),
        ("tenant=default&provider=acme&nodes=1&valid=15m&role=admin", 400, "role"),
        ("tenant=default&provider=&nodes=1&valid=15m", 400, "provider"),
        ("tenant=default&provider=&lease=none&nodes=1&valid=15m", 400, "lease"),
    ] {
        let (status, _, body) = site.post(&program, path, form).await;
        assert_eq!((status, body.contains(word)), (expected, true), "{form}: {body}");
    }
    let number = &made["number"];
    let revoke = "/join-tokens/revoke.json";
    let foreign = format!("tenant=demo&token={number}");
    assert_eq!(site.post(&program, revoke, &foreign).await.0, 404);
    let own = format!("tenant=default&token={number}");
    assert_eq!(site.post(&program, revoke, &own).await.0, 204);
    assert_eq!(site.post(&program, revoke, &own).await.0, 404);
    assert!(site.get(&program, path).await.1.contains("revoked"));
}
