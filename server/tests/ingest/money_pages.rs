//! Pages of bills and price tables, sessions that programs tell, and weekly rules.

use leasewatch_core::money::Money;
use leasewatch_server::jobs::{Jobs, expand_schedules};
use leasewatch_server::store::user::Role;
use serde_json::Value;

use crate::access::site::{Ask, Site};

const LEASE: &str = "name=h100-a&provider=acme&gpu_model=H100&gpu_count=8&starts_at=2026-09-01&price=2.49&currency=USD";

/// From SkyPilot's catalogue of Hyperbolic, as in `core/src/cost/price_table/data`.
const HYPERBOLIC: &str = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,StorageGiB,Price,Region,GpuInfo,SpotPrice\n\
    8x-H100-224-2165,H100,8,224,2165,2400,11.12,default,x,\n\
    1x-H100-224-2165,H100,1,224,2165,2400,1.29,default,x,\n\
    cpu-only,,,4,16,100,0.2,default,,\n";

fn upload(fields: &[(&str, &str)], file: &str) -> String {
    let field = |(name, text): &(&str, &str)| {
        format!("--lw\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{text}\r\n")
    };
    let fields: String = fields.iter().map(field).collect();
    format!(
        "{fields}--lw\r\nContent-Disposition: form-data; name=\"file\"; filename=\"sent.csv\"\r\n\r\n{file}\r\n--lw--\r\n"
    )
}

async fn json(site: &Site, ask: &Ask, path: &str) -> Value {
    let (status, body) = site.get(ask, path).await;
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

fn nanos(value: &Value) -> i128 {
    value.as_str().unwrap().parse::<Money>().unwrap().nanos
}

async fn with_lease(kind: &str) -> (Site, Ask) {
    let site = Site::new().await;
    let admin = site.user("li.lei", &[("default", Role::Admin)]).await;
    let lease = format!("{LEASE}&kind={kind}&instance=i-1&zone=Asia%2FShanghai");
    assert_eq!(site.post(&admin, "/leases/new", &lease).await.0, 303);
    (site, admin)
}

#[tokio::test]
async fn a_bill_is_looked_at_mapped_stored_and_explained_to_the_last_digit() {
    let (site, admin) = with_lease("reserved").await;
    let bill = "When;Until;What;GPU-h;Each;Sum\n\
        2026-09-02;2026-09-02;i-1;192;2.59;497.28\n2026-09-03;2026-09-03;i-9;1;1;1\n";
    let provider = ("provider", "acme");
    let look = upload(&[provider, ("action", "look")], bill);
    let (status, _, page) = site.post(&admin, "/bills/import?lang=en", &look).await;
    assert!(status == 200 && page.contains("GPU-h") && page.contains("497.28"), "{page}");

    let columns = [
        provider,
        ("action", "store"),
        ("starts", "When"),
        ("ends", "Until"),
        ("key", "What"),
        ("quantity", "GPU-h"),
        ("rate", "Each"),
        ("timezone", "UTC"),
    ];
    let (status, _, page) =
        site.post(&admin, "/bills/import?lang=en", &upload(&columns, bill)).await;
    assert!(status == 422 && page.contains("href=\"#amount\""), "{page}");
    let columns = [&columns[..], &[("amount", "Sum")]].concat();
    let wrong = bill.replace(";1;1;1", ";1;1;one");
    let (status, _, page) =
        site.post(&admin, "/bills/import?lang=en", &upload(&columns, &wrong)).await;
    assert!(status == 422 && page.contains(">3</th>") && page.contains(">Sum</td>"), "{page}");
    assert!(page.contains("the amount is not a decimal number"), "{page}");
    assert_eq!(site.count("select count(*) from bill").await, 0, "nothing half stored");
    assert_eq!(site.count("select count(*) from bill_mapping").await, 0);

    let (status, head, page) =
        site.post(&admin, "/bills/import?lang=en", &upload(&columns, bill)).await;
    assert_eq!(status, 303, "{page}");
    let place = head["location"].to_str().unwrap().split('?').next().unwrap().to_owned();
    let view = json(&site, &admin, &format!("{place}/bill.json")).await;
    let sum = &view["sums"][0];
    assert_eq!((&sum["billed"], &sum["dead"]), (&"498.28 USD".into(), &"0.00 USD".into()));
    let differences = view["differences"].as_array().unwrap();
    let kinds: Vec<_> = differences.iter().map(|of| of["kind"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"price") && kinds.contains(&"unknown_lease"), "{kinds:?}");
    let price = differences.iter().find(|of| of["kind"] == "price").unwrap();
    assert_eq!((&price["amount"], &price["line"]), (&"19.20 USD".into(), &2.into()));
    let all: i128 = differences.iter().map(|of| nanos(&of["amount"])).sum();
    assert_eq!(all, nanos(&sum["billed"]) - nanos(&sum["expected"]) + nanos(&sum["dead"]));
    assert_eq!(all, nanos(&sum["difference"]));
    let (_, csv) = site.get(&admin, &format!("{place}/bill.csv")).await;
    assert!(csv.contains("2,h100-a,price,2026-09-02T00:00:00.000Z"), "{csv}");
    for (language, words) in [("en", "another price than agreed"), ("zh-CN", "单价与约定不同")]
    {
        let (_, page) = site.get(&admin, &format!("{place}?lang={language}")).await;
        assert!(page.contains(words), "{page}");
    }

    // The next one of the provider is read the same way.
    let (_, _, page) = site.post(&admin, "/bills/import?lang=en", &look).await;
    assert!(page.contains("<option value=\"Sum\" selected=\"selected\">"), "{page}");
    let list = json(&site, &admin, "/bills.json").await;
    assert_eq!((&list["bills"][0]["lines"], &list["bills"][0]["refused"]), (&2.into(), &0.into()));
    assert_eq!(site.post(&admin, &format!("{place}/withdraw"), "").await.0, 303);
    assert_eq!(site.get(&admin, &place).await.0, 404);
}

#[tokio::test]
async fn a_price_table_is_taken_and_stands_beside_the_price_of_a_lease() {
    let (site, admin) = with_lease("reserved").await;
    let operator = site.operator("ada").await;
    let send = upload(&[("currency", "USD"), ("provider", "acme")], HYPERBOLIC);
    let (status, _, page) = site.post(&operator, "/prices?lang=en", &send).await;
    assert!(status == 200 && page.contains("skypilot-storage"), "{page}");
    let unknown = upload(&[("currency", "USD")], "Model,GPUs,Price\nH100,8,20\n");
    let (status, _, page) = site.post(&operator, "/prices?lang=en", &unknown).await;
    assert!(status == 422 && page.contains("name its columns"), "{page}");
    let view = json(&site, &admin, "/prices.json?q=H100").await;
    let offers = view["offers"].as_array().unwrap();
    assert_eq!((offers.len(), &offers[0]["per_gpu_hour"]), (2, &"1.29 USD".into()));
    assert_eq!(
        (&offers[1]["per_gpu_hour"], &offers[1]["spot"]),
        (&"1.39 USD".into(), &Value::Null)
    );
    assert_eq!((&view["tables"][0]["refused"], &view["may_change"]), (&1.into(), &false.into()));
    let lease = json(&site, &admin, "/leases/default/h100-a/lease.json").await;
    assert_eq!(
        (&lease["offers_cheaper"], &lease["offers"][0]["gpu_count"]),
        (&2.into(), &1.into())
    );
    let (_, csv) = site.get(&admin, "/prices.csv?q=H100").await;
    assert!(csv.contains("acme,H100,") && csv.contains(",11.12,,1.39,,USD,"), "{csv}");
}

#[tokio::test]
async fn sessions_that_are_told_again_change_nothing() {
    let (site, admin) = with_lease("on_demand").await;
    let path = "/leases/default/h100-a/sessions.json";
    let tell = async |text: &str| {
        let (status, _, body) = site.post(&admin, path, text).await;
        (status, body)
    };
    let open = r#"{"sessions":[{"id":"s-1","starts_at":"2026-09-02T00:00:00Z"}]}"#;
    assert_eq!(tell(open).await.1, r#"{"added":1,"changed":0,"unchanged":0}"#);
    assert_eq!(tell(open).await.1, r#"{"added":0,"changed":0,"unchanged":1}"#);
    let ended = open.replace("00Z\"}", "00Z\",\"ends_at\":\"2026-09-02T08:00:00Z\"}");
    assert_eq!(tell(&ended).await.1, r#"{"added":0,"changed":1,"unchanged":0}"#);
    let moved = ended.replace("T08", "T09");
    assert_eq!(tell(&moved).await.1, r#"{"added":0,"changed":1,"unchanged":0}"#);
    for (text, field) in [
        (open.replace("s-1", "s-2").replace("02T00", "02T05"), "sessions[0].starts_at"),
        (ended.replace("02T08", "01T08"), "sessions[0].ends_at"),
        (open.replace("s-1", " "), "sessions[0].id"),
        (open.replace("\"id\"", "\"name\""), "name"),
    ] {
        let (status, body) = tell(&text).await;
        assert!(status == 400 && body.contains(field), "{body}");
    }
    // The second is wrong, so the first is not stored either.
    let both = r#"{"sessions":[{"id":"s-3","starts_at":"2026-09-04T00:00:00Z","ends_at":"2026-09-04T01:00:00Z"},{"id":"s-4","starts_at":"never"}]}"#;
    assert_eq!(tell(both).await.0, 400);
    let view = json(&site, &admin, "/leases/default/h100-a/lease.json").await;
    let sessions = view["sessions"].as_array().unwrap();
    assert_eq!((sessions.len(), &sessions[0]["source"]), (1, &"api".into()));
    assert_eq!(sessions[0]["ends_at"], "2026-09-02T09:00:00.000Z");
}

#[tokio::test]
async fn a_weekly_rule_becomes_sessions_in_the_zone_of_the_lease() {
    let (site, admin) = with_lease("on_demand").await;
    let path = "/leases/default/h100-a/schedule?lang=en";
    let (status, _, page) = site.post(&admin, path, "action=set&rule=mon+9-21&rule_from=").await;
    assert!(status == 422 && page.contains("href=\"#rule\""), "{page}");
    assert_eq!(
        site.post(&admin, path, "action=set&rule=mon-fri+09:00-23:00&rule_from=").await.0,
        303
    );
    let sessions = async || {
        let view = json(&site, &admin, "/leases/default/h100-a/lease.json").await;
        view["sessions"].as_array().unwrap().clone()
    };
    // The 1st is a Tuesday; today is the 21st, and two weeks more are there.
    let all = sessions().await;
    let first = all.last().unwrap();
    assert_eq!(
        (&first["starts_at"], &first["ends_at"], &first["source"]),
        (
            &"2026-09-01T01:00:00.000Z".into(),
            &"2026-09-01T15:00:00.000Z".into(),
            &"schedule".into()
        )
    );
    assert_eq!(all.len(), 25, "{all:?}");
    let jobs =
        Jobs { db: site.db().clone(), live: site.http.live.clone(), clock: site.clock.clone() };
    assert_eq!(expand_schedules::turn(&jobs).await.unwrap(), 0, "it reaches far enough");
    site.administer("update billing_schedule set expanded_to = expanded_to - 7 * 86400000; delete from billing_session where starts_at > 1790600000000").await;
    let again = expand_schedules::turn(&jobs).await.unwrap();
    assert!((1..=5).contains(&again), "{again}");
    assert_eq!(expand_schedules::turn(&jobs).await.unwrap(), 0);
    // Ended now, nothing follows from it any more, and what runs until 23:00 there ends.
    assert_eq!(site.post(&admin, path, "action=end&rule=&rule_from=").await.0, 303);
    let left = sessions().await;
    assert_eq!((left.len(), &left[0]["ends_at"]), (15, &"2026-09-21T13:33:20.000Z".into()));
    assert_eq!(
        site.count("select count(*) from billing_schedule where withdrawn_at is null").await,
        0
    );
}

#[tokio::test]
async fn clauses_that_are_not_there_and_too_many_gpus_are_told() {
    let site = Site::new().await;
    let admin = site.user("li.lei", &[("default", Role::Admin)]).await;
    let with = |profile: &str| format!("{LEASE}&profile={profile}");
    for profile in ["aws-ec2%40999", "nobodys%401"] {
        let (status, _, page) = site.post(&admin, "/leases/new?lang=en", &with(profile)).await;
        assert!(status == 422 && page.contains("There is no such SLA profile"), "{page}");
    }
    let table = "name,provider,gpu,gpus,start,price\nt-1,acme,H100,1,2026-09-01,2.49\n";
    assert_eq!(site.table(&admin, "leases", "", table).await.0, 200);
    assert_eq!(site.post(&admin, "/leases/new", &with("aws-ec2%401")).await.0, 303);
    site.node("default", &"1".repeat(32), "node-a").await;
    site.administer(
        "update node set enrolled_at = enrolled_at - 2592000000;
        insert into assignment (tenant_id, lease_id, node_id, slot_no, starts_at, written_at)
        select l.tenant_id, l.lease_id, n.node_id, s, 1788220800000, 0
        from lease l join node n using (tenant_id), generate_series(0, 1) s where l.name = 't-1'",
    )
    .await;
    let (_, page) = site.get(&admin, "/leases/default/t-1?lang=en").await;
    assert!(page.contains("More GPUs are assigned than are contracted: 2 of 1"), "{page}");
}
