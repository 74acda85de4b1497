//! Pages of leases: written down, corrected, assigned, refused by field, and nobody else's.

use leasewatch_core::id::NodeId;
use leasewatch_server::demo::leases as demo_leases;
use leasewatch_server::jobs::{Jobs, judge};
use leasewatch_server::store::user::Role;

use crate::access::site::{Ask, Site};
use crate::rig::NOW;

const NODE: &str = "11111111111111111111111111111111";

/// A form's text with these fields.
fn form(fields: &[(&str, &str)]) -> String {
    let encode = |text: &str| -> String {
        let byte = |b: u8| match b {
            b'a'..=b'z' | b'0'..=b'9' => char::from(b).to_string(),
            other => format!("%{other:02X}"),
        };
        text.bytes().map(byte).collect()
    };
    let pairs = fields.iter().map(|(name, text)| format!("{name}={}", encode(text)));
    pairs.collect::<Vec<_>>().join("&")
}

const LEAST: [(&str, &str); 6] = [
    ("name", "h100-a"),
    ("provider", "acme"),
    ("gpu_model", "H100"),
    ("gpu_count", "2"),
    ("starts_at", "2026-09-01 08:00"),
    ("price", "2.49"),
];

async fn with_node(site: &Site) {
    site.node("default", NODE, "node-a").await;
    // A day before now, with two slots.
    site.administer(
        "update node set enrolled_at = enrolled_at - 2592000000 where name = 'node-a';
        insert into slot (tenant_id, node_id, slot_no, bus_id, first_seen_at)
        select tenant_id, node_id, n, '0000000' || n || ':01:00.0', enrolled_at
        from node, generate_series(0, 1) n where name = 'node-a'",
    )
    .await;
}

async fn json(site: &Site, ask: &Ask, path: &str) -> serde_json::Value {
    let (status, body) = site.get(ask, path).await;
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

#[tokio::test]
async fn a_lease_is_written_down_corrected_and_assigned_by_forms() {
    let site = Site::new().await;
    with_node(&site).await;
    let admin = site.user("li.lei", &[("default", Role::Admin)]).await;
    let (_, empty) = site.get(&admin, "/leases?lang=en").await;
    assert!(empty.contains("No rental is written down yet") && empty.contains("/leases/new"));

    let mut wrong = LEAST;
    (wrong[3].1, wrong[2].1) = ("two <b>", "");
    let (status, _, page) = site.post(&admin, "/leases/new?lang=en", &form(&wrong)).await;
    assert_eq!(status, 422);
    assert!(page.contains("href=\"#gpu_count\"") && page.contains("href=\"#gpu_model\""), "{page}");
    assert!(
        !page.contains("href=\"#name\"") && page.contains("two &lt;b&gt;"),
        "what was typed stays"
    );

    let path = "/leases/new?lang=en&tz=Asia%2FShanghai";
    let (status, head, _) = site.post(&admin, path, &form(&LEAST)).await;
    assert_eq!(status, 303);
    assert_eq!(head["location"], "/leases/default/h100-a?lang=en&tz=Asia%2FShanghai");
    let (status, _, page) = site.post(&admin, path, &form(&LEAST)).await;
    assert!(status == 422 && page.contains("Another rental has this name"), "{page}");
    let lease = "/leases/default/h100-a";
    let view = json(&site, &admin, &format!("{lease}/lease.json")).await;
    assert_eq!(view["terms"]["starts_at"], "2026-09-01T00:00:00.000Z", "in the page's zone");
    assert_eq!(view["terms"]["prices"][0]["amount"], "2.49");
    assert_eq!(
        (&view["gpus_unassigned"], &view["history"][0]["written_by"]),
        (&2.into(), &"li.lei".into())
    );

    // Corrected, with the form as it was shown.
    let (_, shown) = site.get(&admin, &format!("{lease}/edit?lang=en")).await;
    assert!(shown.contains("value=\"2026-09-01 00:00\"") && shown.contains("value=\"2.49\""));
    let corrected: Vec<_> = LEAST
        .iter()
        .copied()
        .chain([("ends_at", "2026-12-01"), ("reason", "read again")])
        .collect();
    let (status, head, page) =
        site.post(&admin, &format!("{lease}/edit?lang=en"), &form(&corrected)).await;
    assert_eq!(status, 303, "{page}");
    assert_eq!(head["location"], format!("{lease}?lang=en"));
    let view = json(&site, &admin, &format!("{lease}/lease.json")).await;
    assert_eq!(
        (view["history"].as_array().unwrap().len(), &view["history"][0]["reason"]),
        (2, &"read again".into())
    );

    assigned_once(&site, &admin, lease).await;
}

/// One GPU of two; the other stays unassigned and is named.
async fn assigned_once(site: &Site, admin: &Ask, lease: &str) {
    let (_, page) = site.get(admin, &format!("{lease}/assign?lang=en")).await;
    assert!(
        page.contains(&format!("value=\"{NODE}:0\""))
            && page.contains(&format!("value=\"{NODE}:1\""))
    );
    let none = site.post(admin, &format!("{lease}/assign?lang=en"), "starts_at=&ends_at=").await;
    assert!(none.0 == 422 && none.2.contains("Choose at least one GPU"));
    let chosen = format!("starts_at=&ends_at=&gpu={NODE}%3A1");
    assert_eq!(site.post(admin, &format!("{lease}/assign"), &chosen).await.0, 303);
    let (_, page) = site.get(admin, &format!("{lease}?lang=en")).await;
    assert!(page.contains("Not assigned: 1 of 2 contracted GPUs"), "{page}");
    let (_, page) = site.get(admin, &format!("{lease}/assign?lang=en")).await;
    assert!(!page.contains(&format!("value=\"{NODE}:1\"")), "it is free no more");

    // Another lease wants it too, and is told who has it.
    let mut second = LEAST;
    second[0].1 = "h100-b";
    assert_eq!(site.post(admin, "/leases/new", &form(&second)).await.0, 303);
    let both = format!("starts_at=&ends_at=&gpu={NODE}%3A0&gpu={NODE}%3A1");
    let refused = site.post(admin, "/leases/default/h100-b/assign?lang=en", &both).await;
    assert!(
        refused.0 == 422 && refused.2.contains("GPU 1 of node-a is covered by the rental h100-a"),
        "{}",
        refused.2
    );
    let view = json(site, admin, "/leases/default/h100-b/lease.json").await;
    assert_eq!(view["assignments"], serde_json::json!([]), "neither of the two");

    let view = json(site, admin, &format!("{lease}/lease.json")).await;
    let number = view["assignments"][0]["number"].to_string();
    let withdraw =
        form(&[("number", &number), ("action", "withdraw"), ("reason", "the wrong one")]);
    assert_eq!(site.post(admin, &format!("{lease}/assignment"), &withdraw).await.0, 303);
    assert_eq!(site.post(admin, &format!("{lease}/assignment"), &withdraw).await.0, 404);
    let (_, page) = site.get(admin, &format!("{lease}?lang=en")).await;
    assert!(page.contains("withdrawn: the wrong one"));
    assert_eq!(site.count("select count(*) from judge_work where reason = 'assignment'").await, 1);
}

#[tokio::test]
async fn sessions_labels_and_tables_are_taken_by_forms() {
    let site = Site::new().await;
    with_node(&site).await;
    let admin = site.user("li.lei", &[("default", Role::Admin)]).await;
    let on_demand: Vec<_> = LEAST.iter().copied().chain([("kind", "on_demand")]).collect();
    assert_eq!(site.post(&admin, "/leases/new", &form(&on_demand)).await.0, 303);
    let session = async |from: &str, to: &str| {
        let text = form(&[("action", "add"), ("starts_at", from), ("ends_at", to)]);
        site.post(&admin, "/leases/default/h100-a/session?lang=en", &text).await
    };
    assert_eq!(session("2026-09-02 09:00", "2026-09-02 18:00").await.0, 303);
    let overlap = session("2026-09-02 17:00", "").await;
    assert!(overlap.0 == 422 && overlap.2.contains("Another session of the rental covers"));
    assert!(overlap.2.contains("value=\"2026-09-02 17:00\""), "what was typed stays");
    let backwards = session("2026-09-03 18:00", "2026-09-03 09:00").await;
    assert!(backwards.0 == 422 && backwards.2.contains("href=\"#ends_at\""));
    let view = json(&site, &admin, "/leases.json").await;
    assert_eq!(
        (&view["leases"][0]["state"], &view["leases"][0]["is_pay_as_you_go"]),
        (&"stopped".into(), &true.into())
    );

    let labels = format!("/nodes/{NODE}/labels?lang=en");
    let wrong = site.post(&admin, &labels, &form(&[("labels", "rack")])).await;
    assert!(wrong.0 == 422 && wrong.2.contains(">rack</textarea>"), "{}", wrong.2);
    let text = form(&[("labels", "rack=b7\r\nteam=nlp")]);
    assert_eq!(site.post(&admin, &labels, &text).await.0, 303);
    assert!(site.get(&admin, &labels).await.1.contains("rack=b7\nteam=nlp"));

    let table = "name,provider,gpu,gpus,start,price\nt-1,acme,H100,8,2026-09-01,2.49\nt-2,acme,H100,x,2026-09-01,2.49\n";
    let send = async |partial: &str| site.table(&admin, "leases", partial, table).await;
    let (status, page) = send("").await;
    assert!(status == 422 && page.contains("gpu_count: must be a number of GPUs"), "{page}");
    assert!(page.contains("Nothing was stored") && page.contains(">3</th>"));
    assert_eq!(json(&site, &admin, "/leases.json?q=t-").await["leases"], serde_json::json!([]));
    assert_eq!(send("yes").await.0, 200);
    assert_eq!(json(&site, &admin, "/leases.json?q=t-").await["leases"][0]["name"], "t-1");
    let (_, csv) = site.get(&admin, "/leases.csv?sort=-name").await;
    let names: Vec<_> = csv.lines().skip(1).map(|line| line.split(',').nth(1).unwrap()).collect();
    assert_eq!(names, ["t-1", "h100-a"]);
    assert_eq!(site.get(&admin, "/leases.json?sort=colour").await.0, 400);
}

#[tokio::test]
async fn what_people_tell_is_taken_by_forms_with_its_lead_time_and_leaves_a_trace() {
    let site = Site::new().await;
    with_node(&site).await;
    let admin = site.user("li.lei", &[("default", Role::Admin)]).await;
    assert_eq!(site.post(&admin, "/leases/new", &form(&LEAST)).await.0, 303);
    site.administer("delete from judge_work").await;
    let told = "/leases/default/h100-a/told";
    let send = async |fields: &[(&str, &str)]| {
        site.post(&admin, &format!("{told}?lang=en&tz=Asia%2FShanghai"), &form(fields)).await
    };
    let mut notice = [
        ("action", "notice"),
        ("notice_starts_at", "2026-09-10 08:00"),
        ("notice_ends_at", "2026-09-10 07:00"),
        ("notice_received_at", "2026-09-07 08:00"),
        ("notice_text", "switch <b>maintenance"),
    ];
    let (status, _, page) = send(&notice).await;
    assert!(status == 422 && page.contains("href=\"#notice_ends_at\""), "{page}");
    assert!(page.contains("switch &lt;b&gt;maintenance</textarea>"), "what was typed stays");
    assert_eq!(site.count("select count(*) from notice").await, 0);
    assert_eq!(site.count("select count(*) from judge_work").await, 0);
    notice[2].1 = "2026-09-10 10:00";
    assert_eq!(send(&notice).await.0, 303);
    // The same again is the same notice.
    assert_eq!(send(&notice).await.0, 303);
    let view = json(&site, &admin, &format!("{told}.json")).await;
    let line = &view["notices"][0];
    assert_eq!(view["notices"].as_array().unwrap().len(), 1);
    assert_eq!(line["period"][0], "2026-09-10T00:00:00.000Z");
    assert_eq!((&line["lead_ms"], &line["counts"]), (&(3 * 86_400_000_i64).into(), &true.into()));
    assert!(line["needed_ms"].as_i64().unwrap() <= 3 * 86_400_000, "{line}");
    let (_, page) = site.get(&admin, &format!("{told}?lang=en")).await;
    assert!(page.contains("needed by own-objective@") && page.contains("excluded"), "{page}");
    assert_eq!(site.count("select count(*) from judge_work where reason = 'notice'").await, 1);

    let record = [
        ("action", "record"),
        ("record_starts_at", "2026-09-11"),
        ("record_ends_at", "2036-09-12"),
        ("record_cause", "disk"),
        ("record_source", "console"),
        ("record_text", "volume detached"),
    ];
    let (status, _, page) = send(&record).await;
    assert!(status == 422 && page.contains("href=\"#record_ends_at\""), "{page}");
    let stop = [
        ("action", "stop"),
        ("stop_starts_at", "2026-09-12"),
        ("stop_ends_at", "2026-09-13"),
        ("stop_kind", "other"),
        ("stop_clause", "moon"),
    ];
    let (status, _, page) = send(&stop).await;
    assert!(status == 422 && page.contains("href=\"#stop_clause\""), "{page}");

    let number = line["number"].to_string();
    let withdraw = [("action", "withdraw_notice"), ("number", number.as_str())];
    assert_eq!(send(&withdraw).await.0, 303);
    assert_eq!(send(&withdraw).await.0, 404, "once");
    let view = json(&site, &admin, &format!("{told}.json")).await;
    assert_eq!(view["notices"], serde_json::json!([]));
    let entries = "select count(*) from audit_entry where action = 'notice_changed'
        and user_name = 'li.lei' and object = 'h100-a'";
    assert_eq!(site.count(entries).await, 3, "twice given, once withdrawn");

    let table = "lease,start,end,kind\nh100-a,2026-09-14,2026-09-15,maintenance\nh100-a,2026-09-15,2026-09-14,\n";
    let (status, page) = site.table(&admin, "stops", "", table).await;
    assert!(status == 422 && page.contains("ends_at: must be after the start"), "{page}");
    assert_eq!(site.table(&admin, "stops", "yes", table).await.0, 200);
    let view = json(&site, &admin, &format!("{told}.json")).await;
    assert_eq!(view["stops"][0]["kind"], "maintenance");
}

#[tokio::test]
async fn a_lease_is_its_tenants_alone_and_a_viewer_changes_nothing() {
    let site = Site::new().await;
    let theirs = site.user("theirs", &[("demo", Role::Admin)]).await;
    assert_eq!(site.post(&theirs, "/leases/new", &form(&LEAST)).await.0, 303);
    let roles = [("default", Role::Admin), ("demo", Role::Viewer)];
    let both = site.user("both", &roles).await;
    let other = site.user("other", &[("default", Role::Admin)]).await;
    for path in ["/leases/demo/h100-a", "/leases/demo/h100-a/lease.json"] {
        assert_eq!(site.get(&theirs, path).await.0, 200);
        assert_eq!(site.get(&both, path).await.0, 200);
        let absent = site.get(&other, &path.replace("h100-a", "absent")).await;
        let (status, body) = site.get(&other, path).await;
        assert_eq!((status, body.replace("h100-a", "absent")), absent, "as if absent");
    }
    let (_, list) = site.get(&other, "/leases.json").await;
    assert!(!list.contains("h100-a"), "{list}");
    let (_, page) = site.get(&both, "/leases/demo/h100-a?lang=en").await;
    assert!(
        page.contains("demo")
            && !page.contains("/edit")
            && !page.contains("method=\"post\" action=\"/leases")
    );
    for (path, text) in [
        ("edit", form(&LEAST)),
        ("assign", "starts_at=&ends_at=".to_owned()),
        ("session", form(&[("action", "add"), ("starts_at", "2026-09-02")])),
        ("assignment", form(&[("number", "1"), ("action", "withdraw")])),
    ] {
        let path = format!("/leases/demo/h100-a/{path}");
        assert_eq!(site.post(&both, &path, &text).await.0, 404, "{path}");
    }
    // Not into another tenant either, by the name of the field.
    let into = LEAST.iter().copied().chain([("tenant", "demo")]).collect::<Vec<_>>();
    assert_eq!(site.post(&other, "/leases/new", &form(&into)).await.0, 404);
}

#[tokio::test]
async fn the_demo_has_leases_once_its_nodes_are_there() {
    let site = Site::new().await;
    let none = demo_leases::apply_to(site.db(), NOW).await.unwrap();
    assert_eq!(none, (0, 0));
    for (digit, name) in [("1", "a1-h100"), ("2", "b1-rtx4090"), ("3", "b2-l40s")] {
        site.node("demo", &digit.repeat(32), name).await;
    }
    site.administer("update node set origin = 'simulated', enrolled_at = enrolled_at - 604800000")
        .await;
    let (leases, changes) = demo_leases::apply_to(site.db(), NOW).await.unwrap();
    assert!(leases == 3 && changes > 30, "{leases} {changes}");
    assert_eq!(demo_leases::apply_to(site.db(), NOW).await.unwrap(), (3, 0));
    let later = demo_leases::apply_to(site.db(), NOW.plus_ms(86_400_000)).await.unwrap();
    assert!(later.0 == 3 && (1..=2).contains(&later.1), "{later:?}");
    let operator = site.operator("ada").await;
    let bills = json(&site, &operator, "/bills.json").await;
    let bill = format!("/bills/demo/{}/bill.json", bills["bills"][0]["number"]);
    let bill = json(&site, &operator, &bill).await;
    let priced = bill["differences"].as_array().unwrap().iter().find(|of| of["kind"] == "price");
    assert_eq!(priced.unwrap()["amount"], "38.40 USD", "{bill}");
    assert_eq!(
        (&bill["origin"], &bills["bills"][1]),
        (&"simulated".into(), &serde_json::Value::Null)
    );
    let node: NodeId = "3".repeat(32).parse().unwrap();
    let view = json(&site, &operator, "/leases/demo/b-l40s-inference/lease.json").await;
    assert_eq!(
        (&view["gpus_unassigned"], &view["assignments"][0]["node"]["id"]),
        (&1.into(), &node.to_string().into())
    );
}

#[tokio::test]
async fn what_was_judged_stands_on_the_page_in_words() {
    let site = Site::new().await;
    with_node(&site).await;
    let admin = site.user("li.lei", &[("default", Role::Admin)]).await;
    assert_eq!(site.post(&admin, "/leases/new?lang=en", &form(&LEAST)).await.0, 303);
    let lease = "/leases/default/h100-a";
    let chosen = format!("starts_at=&ends_at=&gpu={NODE}%3A0");
    assert_eq!(site.post(&admin, &format!("{lease}/assign"), &chosen).await.0, 303);
    let (_, page) = site.get(&admin, &format!("{lease}?lang=en")).await;
    assert!(page.contains("Nothing was judged yet"), "{page}");

    let jobs =
        Jobs { db: site.db().clone(), live: site.http.live.clone(), clock: site.clock.clone() };
    judge::turn(&jobs).await.unwrap();
    let view = json(&site, &admin, &format!("{lease}/lease.json")).await;
    let first = &view["judgement"]["days"][0];
    assert_eq!((&first["unknown_ms"], &first["down_ms"]), (&57_600_000.into(), &0.into()));
    let verdict = &view["judgement"]["verdicts"][0];
    assert_eq!(
        (&verdict["outcome"], &verdict["is_contract"], &verdict["proven_ms"]),
        (&"indeterminate".into(), &false.into(), &0.into())
    );
    // The whole of September that the rental covers, and not the part that is over alone; silence
    // is no data.
    let budget = &view["judgement"]["budgets"][0];
    assert_eq!((&budget["allowed_ms"], &budget["spent_ms"]), (&12_816_000.into(), &0.into()));
    assert!(budget["allowed_so_far_ms"].as_i64().unwrap() < 12_816_000, "{budget}");
    let states: Vec<_> =
        budget["burns"].as_array().unwrap().iter().map(|burn| burn["state"].clone()).collect();
    assert_eq!(states, ["no_data", "no_data", "no_data"]);
    let (_, page) = site.get(&admin, &format!("{lease}?lang=en")).await;
    for words in [
        "indeterminate",
        "day-unknown",
        "unknown 16\u{202f}h",
        "which no provider promised",
        "NO DATA",
        "Whole window",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let (_, page) = site.get(&admin, &format!("{lease}?lang=zh-CN")).await;
    assert!(page.contains("证据不足") && page.contains("无法确认 16"), "{page}");
}

#[tokio::test]
async fn a_month_is_taken_out_as_a_document() {
    let site = Site::new().await;
    with_node(&site).await;
    let admin = site.user("li.lei", &[("default", Role::Admin)]).await;
    let least: Vec<_> = LEAST.iter().copied().chain([("zone", "Asia/Shanghai")]).collect();
    assert_eq!(site.post(&admin, "/leases/new?lang=en", &form(&least)).await.0, 303);
    let lease = "/leases/default/h100-a";
    let chosen = format!("starts_at=&ends_at=&gpu={NODE}%3A0");
    assert_eq!(site.post(&admin, &format!("{lease}/assign"), &chosen).await.0, 303);
    let jobs =
        Jobs { db: site.db().clone(), live: site.http.live.clone(), clock: site.clock.clone() };
    judge::turn(&jobs).await.unwrap();

    let (_, page) = site.get(&admin, &format!("{lease}?lang=en")).await;
    assert!(page.contains("report.pdf?lang=en&#38;month=2026-09"), "{page}");
    let (status, report) =
        site.get(&admin, &format!("{lease}/report.html?lang=en&month=2026-09")).await;
    assert_eq!(status, 200, "{report}");
    // In the zone of the lease, with UTC beside it.
    for words in ["1 Sep 2026", "UTC+08:00", "2026-08-31T16:00:00Z", "indeterminate", "2 × H100"] {
        assert!(report.contains(words), "{words}: {report}");
    }
    let (_, report) = site.get(&admin, &format!("{lease}/report.html?lang=zh-CN")).await;
    assert!(report.contains("证据不足") && report.contains("本报告为摘要"), "{report}");
    let (status, pdf) = site.get(&admin, &format!("{lease}/report.pdf?month=2026-09")).await;
    assert!(status == 200 && pdf.starts_with("%PDF-"), "{pdf}");
    for month in ["2026-10", "1999-01", "soon"] {
        let path = format!("{lease}/report.pdf?month={month}");
        assert_eq!(site.get(&admin, &path).await.0, 400, "{month}: not begun, or no month");
    }
    let taken =
        "select count(*) from audit_entry where action = 'exported' and object like 'report of %'";
    assert_eq!(site.count(taken).await, 3);
}
