//! Signing in and out: what is refused reads the same, and what is over stays over.

use axum::http::Method;
use leasewatch_core::time::DAY_MS;
use leasewatch_server::store::user::Role;

use super::site::{Ask, PASSWORD, Site};

#[tokio::test]
async fn a_session_of_somebody_else_s_making_is_never_taken_and_each_sign_in_has_its_own() {
    let site = Site::new().await;
    site.operator("ada").await;
    // An attacker plants a session of his own choice; it is not the one that signs in.
    let planted =
        Ask { cookie: Some(format!("leasewatch_session={}", "ab".repeat(32))), ..Ask::default() };
    assert_eq!(site.get(&planted, "/").await.0, 303);
    let entered = site.sign_in(&planted, "ada", PASSWORD).await.unwrap();
    assert_ne!(entered.cookie, planted.cookie);
    assert_eq!(site.get(&planted, "/").await.0, 303);
    assert_eq!(site.get(&entered, "/").await.0, 200);
    // Signing in again ends the session that the browser came with.
    let again = site.sign_in(&entered, " Ada ", PASSWORD).await.unwrap();
    assert_ne!(again.cookie, entered.cookie);
    assert_eq!((site.get(&entered, "/").await.0, site.get(&again, "/").await.0), (303, 200));
    // What is stored opens nothing: it is the hash of what the browser has.
    let stored = "select count(*) from user_session where encode(session_hash, 'hex') = '{}'";
    let secret = again.cookie.as_ref().unwrap().split_once('=').unwrap().1;
    assert_eq!(site.count(&stored.replace("{}", secret)).await, 0);
}

#[tokio::test]
async fn a_cookie_that_was_stolen_is_worth_nothing_after_signing_out_idling_or_its_end() {
    let site = Site::new().await;
    let ada = site.operator("ada").await;
    let (status, head, _) = site.post(&ada, "/sign-out", "").await;
    assert_eq!((status, head["location"].to_str().unwrap()), (303, "/sign-in"));
    assert!(head["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    assert_eq!(site.get(&ada, "/").await.0, 303);

    let idle = site.user("idle", &[("default", Role::Viewer)]).await;
    let busy = site.user("busy", &[("default", Role::Viewer)]).await;
    for _ in 0..4 {
        site.clock.advance_ms(6 * DAY_MS);
        assert_eq!(site.get(&busy, "/").await.0, 200);
    }
    assert_eq!(site.get(&idle, "/").await.0, 303, "not used for a week");
    site.clock.advance_ms(6 * DAY_MS);
    assert_eq!(site.get(&busy, "/").await.0, 303, "older than a month, however busy");
}

#[tokio::test]
async fn over_tls_a_cookie_is_for_this_host_and_tls_alone() {
    let site = Site::new().await;
    site.operator("ada").await;
    let tls =
        Ask { over_tls: true, origin: Some("https://127.0.0.1:7443".to_owned()), ..Ask::default() };
    let entered = site.sign_in(&tls, "ada", PASSWORD).await.unwrap();
    assert!(entered.cookie.as_ref().unwrap().starts_with("__Host-leasewatch_session="));
    assert_eq!(site.get(&entered, "/").await.0, 200);
    assert_eq!(site.get(&Ask { over_tls: false, ..entered }, "/").await.0, 303);
}

#[tokio::test]
async fn a_thousand_wrong_passwords_read_the_same_and_are_looked_at_ten_times() {
    let site = Site::new().await;
    site.operator("ada").await;
    let mut answers = Vec::new();
    for number in 0..1_000_u32 {
        // From many addresses, so that it is the name that is held back.
        let address = format!("10.0.{}.{}:1", number / 200, number % 200 + 1).parse().unwrap();
        let ask = Ask { address, ..Ask::default() };
        answers.push(
            site.sign_in(&ask, "ada", &format!("wrong password {number}")).await.unwrap_err(),
        );
    }
    let statuses: Vec<u16> = answers.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses[..10], [401; 10]);
    assert!(statuses[10..].iter().all(|status| *status == 429));
    assert!(answers.iter().all(|(_, body)| *body == answers[0].1), "one text for all of them");
    // The right one is not looked at either, until a quarter of an hour has passed.
    let (status, body) = site.sign_in(&Ask::default(), "ada", PASSWORD).await.unwrap_err();
    assert_eq!((status, &body), (429, &answers[0].1));
    site.clock.advance_ms(15 * 60_000);
    assert!(site.sign_in(&Ask::default(), "ada", PASSWORD).await.is_ok());
}

#[tokio::test]
async fn who_is_not_there_disabled_or_without_a_password_reads_as_a_wrong_password() {
    let site = Site::new().await;
    site.operator("ada").await;
    site.user("gone", &[]).await;
    site.user("bare", &[]).await;
    site.administer(
        "update app_user set disabled_at = 1 where name = 'gone'; update app_user set password_hash = null where name = 'bare'",
    )
    .await;
    let wrong = site.sign_in(&Ask::default(), "ada", "wrong password").await.unwrap_err();
    for name in ["gone", "bare", "nobody"] {
        let (status, body) = site.sign_in(&Ask::default(), name, PASSWORD).await.unwrap_err();
        // The name that was typed stands in the form again.
        let body = body.replace(&format!("value=\"{name}\""), "value=\"ada\"");
        assert_eq!((status, body), wrong, "{name}");
    }
    // As do names that nobody can have, of any length.
    for name in ["%3Cscript%3E", &"x".repeat(5_000)] {
        assert_eq!(site.sign_in(&Ask::default(), name, PASSWORD).await.unwrap_err().0, 401);
    }
}

#[tokio::test]
async fn a_form_from_elsewhere_or_of_unknown_origin_does_nothing() {
    let site = Site::new().await;
    let ada = site.operator("ada").await;
    let invite = "reach=operator";
    for origin in [None, Some("https://evil.example"), Some("null"), Some("http://127.0.0.1:7444")]
    {
        let foreign = Ask { origin: origin.map(str::to_owned), ..ada.clone() };
        for (path, form) in [
            ("/settings/users/invite", invite),
            ("/settings/users", "user=ada&action=disable"),
            ("/account/token", "what=x&reach=operator&days=1"),
            ("/sign-out", ""),
        ] {
            assert_eq!(site.post(&foreign, path, form).await.0, 403, "{origin:?} {path}");
        }
    }
    assert_eq!(site.count("select count(*) from user_link").await, 0);
    assert_eq!(site.count("select count(*) from api_token").await, 0);
    assert_eq!(site.get(&ada, "/").await.0, 200, "nobody was signed out");
    // Nor does another site sign a browser in.
    let foreign = Ask { origin: Some("https://evil.example".to_owned()), ..Ask::default() };
    assert_eq!(site.sign_in(&foreign, "ada", PASSWORD).await.unwrap_err().0, 403);
    assert_eq!(site.post(&ada, "/settings/users/invite", invite).await.0, 200);
}

#[tokio::test]
async fn a_form_with_more_than_was_asked_for_is_refused() {
    let site = Site::new().await;
    let ada = site.operator("ada").await;
    let form = format!("name=ada&password={}", PASSWORD.replace(' ', "+"));
    for (path, form, status) in [
        ("/sign-in", format!("{form}&role=admin"), 400),
        ("/sign-in", format!("{form}&name=eve"), 400),
        ("/sign-in", format!("{form}&next={}", "x".repeat(20_000)), 413),
        ("/account/language", "language=en&is_operator=true".to_owned(), 400),
        ("/account/language", "language=fr".to_owned(), 400),
        ("/settings/users", "user=ada&action=become_root".to_owned(), 400),
        ("/settings/users", "user=nobody&action=disable".to_owned(), 404),
        ("/settings/users", "user=ada&action=role&role=default:owner".to_owned(), 400),
    ] {
        assert_eq!(site.post(&ada, path, &form).await.0, status, "{path} {form}");
    }
    // A redirect never leads to another host.
    for next in ["//evil.example", "https://evil.example", "/%5Cevil.example"] {
        let (status, head, _) =
            site.post(&Ask::default(), "/sign-in", &format!("{form}&next={next}")).await;
        assert_eq!((status, head["location"].to_str().unwrap()), (303, "/"), "{next}");
    }
}

#[tokio::test]
async fn addresses_that_try_to_lead_elsewhere_find_nothing() {
    let site = Site::new().await;
    let ada = site.operator("ada").await;
    for path in [
        "/assets/../../../../etc/passwd",
        "/assets/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/assets/..%2f..%2f..%2fetc%2fpasswd",
        "/assets//etc/passwd",
        "/nodes/..%2f..%2fetc%2fpasswd",
        "/nodes/%00",
        "/nodes/../settings/users",
        "/link/..%2fsettings%2fusers",
        "/import/..%2f..%2fidentity.key",
        "/.%2e/identity.key",
        "/%5c..%5cidentity.key",
    ] {
        let (status, body) = site.get(&ada, path).await;
        assert!(status == 404 || status == 400, "{path}: {status}");
        assert!(!body.contains("root:") && !body.contains("Invite somebody"), "{path}");
    }
}

#[tokio::test]
async fn who_is_disabled_or_loses_a_role_is_out_at_once_with_streams_and_tokens() {
    let site = Site::new().await;
    let ada = site.operator("ada").await;
    let eve = site.user("eve", &[("default", Role::Admin)]).await;
    let token = site.token(&eve, &[("default", Role::Admin)], false).await;
    for ask in [&eve, &token] {
        assert_eq!(site.get(ask, "/overview.json").await.0, 200);
        assert_eq!(site.get(ask, "/imports/0000000000000000").await.0, 404);
    }
    // A lesser role holds for what comes next, of the browser and of the token.
    let change = async |form: &str| site.post(&ada, "/settings/users", form).await.0;
    assert_eq!(change("user=eve&action=role&role=default:viewer").await, 303);
    assert_eq!(site.get(&eve, "/import").await.0, 403);
    assert_eq!(site.get(&token, "/import").await.0, 403);

    let stream = site.send(&eve, Method::GET, "/live.sse", "").await;
    assert_eq!(stream.status(), 200);
    assert_eq!(change("user=eve&action=disable").await, 303);
    // The stream ends by itself; without that this would wait for ever.
    super::site::text(stream).await;
    assert_eq!(site.get(&eve, "/").await.0, 303);
    assert_eq!(site.get(&token, "/overview.json").await.0, 401);
    // Let in again, the old session is still over.
    assert_eq!(change("user=eve&action=enable").await, 303);
    assert_eq!(site.get(&eve, "/").await.0, 303);
    assert!(site.sign_in(&Ask::default(), "eve", PASSWORD).await.is_ok());
}

#[tokio::test]
async fn an_operator_is_always_left() {
    let site = Site::new().await;
    let ada = site.operator("ada").await;
    for form in ["user=ada&action=disable", "user=ada&action=role&role=no_operator"] {
        let (status, _, body) = site.post(&ada, "/settings/users?lang=en", form).await;
        assert_eq!(status, 422);
        assert!(body.contains("This is the last operator"), "{body}");
    }
    site.operator("bob").await;
    assert_eq!(
        site.post(&ada, "/settings/users", "user=ada&action=role&role=no_operator").await.0,
        303
    );
    assert_eq!(site.get(&ada, "/settings/users").await.0, 403);
}
