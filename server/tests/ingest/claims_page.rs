//! Claims from a verdict to the provider's answer, and deadlines on every page.

use leasewatch_core::time::HOUR_MS;
use leasewatch_server::store::user::Role;

use crate::access::claimable::Owed;
use crate::access::site::{Ask, Site};
use crate::rig::NOW;

const NODE: &str = "11111111111111111111111111111111";
const LEASE: &str = "/leases/default/h100-a";
const TERMS: &str = "name=h100-a&provider=default&gpu_model=H100&gpu_count=1&starts_at=2026-09-01&\
    price=2.49&product=H100&instance=i-42&machine=b7&order=A-1&zone=UTC";

/// A rental whose contract was broken by an hour that ended 60 hours ago: by three days from the
/// incident there are twelve hours left.
async fn broken(hash: &str) -> (Site, Ask, Ask) {
    let site = Site::new().await;
    site.node("default", NODE, "node-a").await;
    site.administer(
        "insert into slot (tenant_id, node_id, slot_no, bus_id, first_seen_at)
        select tenant_id, node_id, 0, '00000000:01:00.0', enrolled_at from node",
    )
    .await;
    let admin = site.user("li.lei", &[("default", Role::Admin)]).await;
    let viewer = site.user("han.mei", &[("default", Role::Viewer)]).await;
    let (status, _, page) = site.post(&admin, "/leases/new?lang=en", TERMS).await;
    assert_eq!(status, 303, "{page}");
    let assign = format!("starts_at=&ends_at=&gpu={NODE}%3A0");
    assert_eq!(site.post(&admin, &format!("{LEASE}/assign"), &assign).await.0, 303);
    let end = NOW.plus_ms(-60 * HOUR_MS).0;
    let window = (NOW.plus_ms(-10 * 24 * HOUR_MS).0, NOW.plus_ms(20 * 24 * HOUR_MS).0);
    let outage = (end - HOUR_MS, end);
    Owed { lease: "h100-a", hash, window, outage, is_over: false }.put(&site).await;
    (site, admin, viewer)
}

async fn page(site: &Site, ask: &Ask, path: &str) -> String {
    let (status, body) = site.get(ask, path).await;
    assert_eq!(status, 200, "{path}: {body}");
    body.replace(['\u{202f}', '\u{a0}'], " ")
}

async fn step(site: &Site, ask: &Ask, claim: &str, form: &str) -> u16 {
    site.post(ask, &format!("{claim}/step?lang=en"), form).await.0
}

#[tokio::test]
async fn a_claim_goes_from_the_verdict_to_the_answer_and_each_step_stays() {
    let hash = "ab".repeat(32);
    let (site, admin, viewer) = broken(&hash).await;
    let draft = format!("verdict={hash}");
    let make = format!("{LEASE}/claim");
    assert!(page(&site, &admin, &format!("{LEASE}?lang=en")).await.contains("Draft a claim"));
    let seen = page(&site, &viewer, &format!("{LEASE}?lang=en")).await;
    assert!(!seen.contains("Draft a claim") && seen.contains("3.00 USD"), "a viewer only reads");
    assert_eq!(site.post(&viewer, &make, &draft).await.0, 403);
    let other = format!("verdict={}", "cd".repeat(32));
    assert_eq!(site.post(&admin, &make, &other).await.0, 404);

    let (status, head, body) = site.post(&admin, &format!("{make}?lang=en"), &draft).await;
    assert_eq!(status, 303, "{body}");
    let claim = head["location"].to_str().unwrap().split('?').next().unwrap().to_owned();
    assert!(claim.starts_with("/claims/"), "{claim}");
    // An interval is not claimed twice.
    let (status, _, body) = site.post(&admin, &format!("{make}?lang=en"), &draft).await;
    assert!(status == 422 && body.contains("holds a part of this downtime already"), "{body}");
    let view = page(&site, &admin, &format!("{claim}/claim.json")).await;
    let view: serde_json::Value = serde_json::from_str(&view).unwrap();
    assert_eq!((&view["state"], &view["asked"]), (&"draft".into(), &"3.00 USD".into()));
    assert_eq!(view["facts"]["outages"][0]["grounds"][0][1], "reboot");
    assert_eq!(view["facts"]["instance"], "i-42");
    assert_eq!(view["verdict_hash"], hash);
    let text = page(&site, &viewer, &format!("{claim}/claim.txt?lang=zh-CN")).await;
    for words in ["实例编号：i-42", "Machine number: b7", "the ticket number", "100.00 USD"] {
        assert!(text.contains(words), "{words}: {text}");
    }

    assert_eq!(step(&site, &viewer, &claim, "step=file&at=&words=").await, 403);
    for wrong in [
        "step=accept&at=&amount=2.00&words=",
        "step=notify&at=2030-01-01&words=",
        "step=notify&at=soon&words=",
        "step=other&at=&words=",
    ] {
        assert_eq!(step(&site, &admin, &claim, wrong).await, 422, "{wrong}");
    }
    assert_eq!(step(&site, &admin, &claim, "step=notify&at=&words=ticket+4711").await, 303);
    assert_eq!(step(&site, &admin, &claim, "step=file&at=2026-09-01&words=").await, 422, "earlier");
    assert_eq!(step(&site, &admin, &claim, "step=file&at=&words=by+mail").await, 303);
    assert_eq!(step(&site, &admin, &claim, "step=refuse&at=&words=").await, 422, "no reason");
    assert_eq!(step(&site, &admin, &claim, "step=accept&at=&amount=-1&words=").await, 422);
    assert_eq!(step(&site, &admin, &claim, "step=accept&at=&amount=2.50&words=half").await, 303);
    let shown = page(&site, &viewer, &format!("{claim}?lang=en")).await;
    for words in ["ticket 4711", "by mail", "half", "2.50 USD", "li.lei", "granted"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(!shown.contains("<textarea"), "a viewer gets no form");
    let rows = page(&site, &viewer, "/claims.csv").await;
    assert!(rows.contains(",accepted,3.00,2.50,USD,"), "{rows}");
    let steps = "select count(*) from audit_entry where action = 'claim_changed'";
    assert_eq!(site.count(steps).await, 4, "draft, notify, file, accept");
    // What is claimed counts in no other claim, so other windows are judged anew.
    let queued = "select count(*) from judge_work where reason = 'asked'";
    assert_eq!(site.count(queued).await, 1);
}

#[tokio::test]
async fn a_deadline_is_on_every_page_from_seven_days_ahead_and_says_when_it_passed() {
    let hash = "ef".repeat(32);
    let (site, admin, viewer) = broken(&hash).await;
    for path in ["/", "/leases", LEASE, "/claims", "/costs", "/nothing-here"] {
        let (_, body) = site.get(&viewer, &format!("{path}?lang=en")).await;
        let body = body.replace(['\u{202f}', '\u{a0}'], " ");
        assert!(body.contains("1 due, 12 h left"), "{path}: {body}");
    }
    for path in ["/", "/leases", LEASE, "/claims"] {
        let body = page(&site, &viewer, &format!("{path}?lang=zh-CN")).await;
        assert!(body.contains("还剩 12"), "{path}: {body}");
    }
    assert!(page(&site, &viewer, "/?lang=en").await.contains("claim deadline of h100-a"));
    let claims: serde_json::Value =
        serde_json::from_str(&page(&site, &viewer, "/claims.json").await).unwrap();
    let line = &claims["deadlines"][0];
    assert_eq!((&line["urgency"], &line["claim"]), (&"day".into(), &serde_json::Value::Null));
    assert_eq!(line["at"], NOW.plus_ms(12 * HOUR_MS).to_string());

    // A draft keeps the clock running; thirteen hours later it has passed.
    let draft = format!("verdict={hash}");
    assert_eq!(site.post(&admin, &format!("{LEASE}/claim"), &draft).await.0, 303);
    assert!(page(&site, &viewer, "/?lang=en").await.contains("1 due, 12 h left"));
    site.clock.set(NOW.plus_ms(13 * HOUR_MS));
    let late = page(&site, &viewer, "/claims?lang=en").await;
    assert!(late.contains("1 missed") && late.contains("missed 1 h ago"), "{late}");
    assert!(late.contains("deadline missed, not filed"), "{late}");
    // Filed, nothing is due any more; what is nobody's business is seen by nobody.
    let claim = site.count("select claim_id::bigint from claim").await;
    assert_eq!(step(&site, &admin, &format!("/claims/{claim}"), "step=file&at=&words=").await, 303);
    let done = page(&site, &viewer, "/?lang=en").await;
    assert!(!done.contains("1 missed") && !done.contains("claim deadline of"), "{done}");
    let stranger = site.user("stranger", &[("demo", Role::Admin)]).await;
    assert_eq!(site.get(&stranger, &format!("/claims/{claim}")).await.0, 404);
    assert!(!page(&site, &stranger, "/claims").await.contains("h100-a"));
}
