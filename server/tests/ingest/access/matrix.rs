//! Each route with each kind of asker and each kind of id: own, another tenant's, nobody's (promise
//! T1). The routes are the router's own list; what each needs and names stands in `cases`.

use axum::http::{Method, StatusCode, header};
use leasewatch_core::time::DAY_MS;
use leasewatch_server::http::{self, Need};
use leasewatch_server::store::user::Role;
use leasewatch_server::store::user_link::Purpose;

use super::cases::{CASES, Case, Ids, Trace};
use super::claimable;
use super::site::{Ask, Site, text};

/// Who asks, and what that person or program may do where.
struct Asker {
    name: &'static str,
    ask: Ask,
    is_person: bool,
    is_operator: bool,
    own: Option<Role>,
    theirs: Option<Role>,
}

/// What an asker has to get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// The sign-in page, or that it may not.
    Refused,
    /// What was asked for.
    Done,
    /// It may be known that something is there, and nothing else.
    Forbidden,
    /// Exactly what an id that nobody has gets.
    Absent,
}

impl Asker {
    fn meets(&self, need: Need) -> bool {
        let best = self.own.max(self.theirs);
        match need {
            Need::Nothing => true,
            Need::Viewer => self.is_operator || best.is_some(),
            Need::Admin => self.is_operator || best == Some(Role::Admin),
            Need::Operator => self.is_operator,
            Need::Person => self.is_person,
            Need::OperatorInPerson => self.is_person && self.is_operator,
        }
    }

    fn expected(&self, case: &Case, role: Option<Role>) -> Expected {
        let least = if case.need == Need::Admin { Role::Admin } else { Role::Viewer };
        match case.ids {
            _ if !self.meets(case.need) => Expected::Refused,
            Ids::Nobodys(_) => Expected::Done,
            Ids::OfUser(_) if self.name == OWNER => Expected::Done,
            Ids::OfUser(_) => Expected::Absent,
            Ids::OfTenant(_) | Ids::Chosen(_) if self.is_operator => Expected::Done,
            Ids::OfTenant(_) | Ids::Chosen(_) => match role {
                Some(role) if role >= least => Expected::Done,
                Some(_) if matches!(case.ids, Ids::OfTenant(_)) => Expected::Forbidden,
                _ => Expected::Absent,
            },
        }
    }
}

/// What stands for `{names}` in patterns, queries and forms.
#[derive(Clone)]
struct Filled(Vec<(&'static str, String)>);

impl Filled {
    fn fill(&self, text: &str) -> String {
        let names = self.0.iter();
        names.fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    /// The path with its query, and the form.
    fn request(&self, case: &Case) -> (String, String) {
        let (path, with) = (self.fill(case.pattern), self.fill(case.with()));
        match case.method {
            "GET" if !with.is_empty() => (format!("{path}?{with}"), String::new()),
            _ => (path, with),
        }
    }

    /// The same with one value of another.
    fn but(&self, name: &str, other: &Self) -> Self {
        let other = other.0.iter().find(|(known, _)| *known == name).unwrap();
        let swap =
            |own: &(&'static str, String)| if own.0 == name { other.clone() } else { own.clone() };
        Self(self.0.iter().map(swap).collect())
    }
}

impl Case {
    fn with(&self) -> &'static str {
        match self.ids {
            Ids::Nobodys(text) | Ids::OfTenant(text) | Ids::Chosen(text) | Ids::OfUser(text) => {
                text
            }
        }
    }

    fn names(&self, name: &str) -> bool {
        self.pattern.contains(name) || self.with().contains(name)
    }
}

/// Two tenants with a row behind every kind of id, and everybody who could ask for one.
struct World {
    site: Site,
    askers: Vec<Asker>,
    own: Filled,
    foreign: Filled,
    absent: Filled,
}

const OWN: &str = "default";
const FOREIGN: &str = "foreign-tenant";
/// The user whose sessions and tokens [`Ids::OfUser`] is about.
const OWNER: &str = "their-admin";
/// In every name that a row of the other tenant has, and in none of one's own.
const MARK: &str = "foreign-";
/// Who sees something of either tenant, or everything; and one who does not.
const WITH_BOTH: [&str; 4] = ["admin-who-sees-theirs", "admin", "operator", "operator-token"];
/// Ids of tenants' rows, of which one at a time is another tenant's. A route that names a row of a
/// new kind adds it here and in [`World::rows`].
const TENANT_IDS: [&str; 11] = [
    "{node}",
    "{import}",
    "{tenant}",
    "{token}",
    "{lease}",
    "{assignment}",
    "{billed}",
    "{verdict}",
    "{claim}",
    "{bill}",
    "{notice}",
];

/// A bill with a line of the lease; its number.
async fn put_bill(site: &Site, lease: &str, word: &str) -> i64 {
    site.administer(&format!(
        "insert into bill (tenant_id, provider_id, file_name, with_tax, imported_at)
            select tenant_id, provider_id, '{word}-bill.csv', false, 0 from lease where name = '{lease}';
        insert into bill_line (tenant_id, bill_id, line, key, starts_at, ends_at, amount, currency)
            select tenant_id, bill_id, 2, '{lease}', 1785542400000, 1785546000000, '1.00', 'USD'
            from bill where file_name = '{word}-bill.csv'"
    ))
    .await;
    site.count(&format!("select bill_id::bigint from bill where file_name = '{word}-bill.csv'"))
        .await
}

impl World {
    async fn new() -> Self {
        let site = Site::new().await;
        site.administer(&format!(
            "insert into tenant (slug, name) values ('{FOREIGN}', '{MARK}name')"
        ))
        .await;
        let own = Self::rows(&site, OWN, "11", "own").await;
        let foreign = Self::rows(&site, FOREIGN, "22", "foreign").await;
        let absent = [
            ("{node}", "33".repeat(16)),
            ("{import}", "0".repeat(16)),
            ("{tenant}", "tenant-of-nobody".to_owned()),
            ("{token}", "999999".to_owned()),
            ("{lease}", "lease-of-nobody".to_owned()),
            ("{assignment}", "999999".to_owned()),
            ("{billed}", "999999".to_owned()),
            ("{verdict}", "0".repeat(64)),
            ("{claim}", "999999".to_owned()),
            ("{bill}", "999999".to_owned()),
            ("{notice}", "999999".to_owned()),
            ("{session}", "999999".to_owned()),
            ("{api_token}", "999999".to_owned()),
        ];
        let absent = Filled([&absent[..], &everywhere()].concat());
        let askers = askers(&site).await;
        Self { site, askers, own, foreign, absent }
    }

    /// A row of each kind for a tenant.
    async fn rows(site: &Site, tenant: &str, byte: &str, word: &str) -> Filled {
        let node = byte.repeat(16);
        site.node(tenant, &node, &format!("{word}-node")).await;
        let of_node = format!("from node where public_id = '\\x{node}'");
        let (key, token) = (byte.repeat(32), format!("{byte}33").repeat(16));
        site.administer(&format!(
            "insert into node_key (tenant_id, node_id, key_id, public_key, added_at)
                select tenant_id, node_id, '\\x{key}', '\\x{key}', 0 {of_node};
            insert into slot (tenant_id, node_id, slot_no, bus_id, first_seen_at)
                select tenant_id, node_id, 0, '00000000:18:00.0', 0 {of_node};
            insert into gpu (tenant_id, node_id, uuid, slot_no, name, first_seen_at, last_seen_at)
                select tenant_id, node_id, 'GPU-{byte}', 0, '{word}-gpu', 0, 0 {of_node};
            insert into join_token (tenant_id, token_hash, kind, provider_id, node_ceiling, created_at,
                    created_by, expires_at)
                select tenant_id, '\\x{token}', 'single', 1, 1, 0, '{word}-maker', 4102444800000 {of_node}"
        ))
        .await;
        // Its lease covers another slot than the one that forms assign.
        let lease = format!("{word}-lease");
        site.administer(&format!(
            r#"insert into lease (tenant_id, name, provider_id, created_at)
                select tenant_id, '{lease}', provider_id, 0 {of_node};
            insert into lease_terms (tenant_id, lease_id, revision, starts_at, terms, written_at)
                select tenant_id, lease_id, 1, 1785542400000, '{{"version": 1, "name": "{lease}",
                    "provider": "default", "gpu_model": "H100", "gpu_count": 8, "currency": "USD",
                    "starts_at": "2026-08-01T00:00:00Z"}}', 0 from lease where name = '{lease}';
            insert into assignment (tenant_id, lease_id, node_id, slot_no, starts_at, written_at)
                select n.tenant_id, lease_id, n.node_id, 5, 1785542400000, 0
                from lease l join node n on n.tenant_id = l.tenant_id
                where l.name = '{lease}' and n.public_id = '\x{node}';
            insert into billing_session (tenant_id, lease_id, starts_at, source, written_at)
                select tenant_id, lease_id, 1785542400000, 'hand', 0 from lease where name = '{lease}';
            insert into notice (tenant_id, lease_id, starts_at, ends_at, received_at, body, hash, written_at)
                select tenant_id, lease_id, 1785542400000, 1785546000000, 0, '{word}-notice',
                    sha256('{word}'), 0 from lease where name = '{lease}'"#
        ))
        .await;
        let bill = put_bill(site, &lease, word).await;
        let of_lease = format!("join lease using (tenant_id, lease_id) where name = '{lease}'");
        let assignment = format!("select assignment_id::bigint from assignment {of_lease}");
        let billed = format!("select session_id::bigint from billing_session {of_lease}");
        let verdict = claimable::put(site, &lease, byte).await;
        let claim = format!("select claim_id::bigint from claim {of_lease}");
        let notice = format!("select notice_id::bigint from notice {of_lease}");
        let token = format!(
            "select max(token_id)::bigint from join_token where created_by = '{word}-maker'"
        );
        let rows = [
            ("{node}", node),
            ("{import}", site.upload(tenant).await),
            ("{tenant}", tenant.to_owned()),
            ("{token}", site.count(&token).await.to_string()),
            ("{lease}", lease),
            ("{assignment}", site.count(&assignment).await.to_string()),
            ("{billed}", site.count(&billed).await.to_string()),
            ("{verdict}", verdict),
            ("{claim}", site.count(&claim).await.to_string()),
            ("{bill}", bill.to_string()),
            ("{notice}", site.count(&notice).await.to_string()),
            // Rows of a user; the owner's are made anew for each case.
            ("{session}", String::new()),
            ("{api_token}", String::new()),
        ];
        Filled([&rows[..], &everywhere()].concat())
    }

    /// A session and a token of [`OWNER`] that can be ended.
    async fn renew(&mut self) {
        let ask = self.asker(OWNER).ask.clone();
        self.site.token(&ask, &[(FOREIGN, Role::Viewer)], false).await;
        let user = format!("(select user_id from app_user where name = '{OWNER}')");
        self.site
            .administer(&format!(
                "insert into user_session (session_hash, user_id, created_at, seen_at, expires_at)
                select decode(md5(random()::text) || md5(random()::text), 'hex'), {user}, 0, 0, 4102444800000"
            ))
            .await;
        for (name, table, key) in
            [("{session}", "user_session", "session_id"), ("{api_token}", "api_token", "token_id")]
        {
            let latest = format!("select max({key})::bigint from {table} where user_id = {user}");
            let latest = self.site.count(&latest).await.to_string();
            let places = self.foreign.0.iter_mut().filter(|(known, _)| *known == name);
            places.for_each(|(_, value)| value.clone_from(&latest));
        }
    }

    fn asker(&self, name: &str) -> &Asker {
        self.askers.iter().find(|asker| asker.name == name).unwrap()
    }

    /// Entries of the audit log, by their latest number.
    async fn entries(&self) -> i64 {
        self.site.count("select coalesce(max(entry_id), 0) from audit_entry").await
    }

    /// What was done since an entry left the trace that it has to, in the tenant that it was done in.
    async fn assert_traced(&self, case: &Case, since: i64, tenant: Option<&str>, about: &str) {
        let action = match case.trace {
            Trace::Wrote(action) => action,
            Trace::Silent(why) => {
                assert_eq!(self.entries().await, since, "{about}: it left an entry, but {why}");
                return;
            }
        };
        let tenant = tenant.map_or("true".to_owned(), |slug| format!("slug = '{slug}'"));
        let query = format!(
            "select count(*) from audit_entry left join tenant using (tenant_id)
            where entry_id > {since} and action = '{action}' and {tenant} and at = {}",
            self.site.clock.now().0
        );
        assert_eq!(self.site.count(&query).await, 1, "{about}: no entry {action}");
    }

    /// Takes back what can be done only once.
    async fn mend(&self) {
        let mend = "update join_token set revoked_at = null; update node_key set revoked_at = null;
            delete from assignment where slot_no = 0; delete from claim_step;
            delete from claim where written_by is not null;
            update assignment set ends_at = null, withdrawn_at = null, reason = null;
            delete from billing_session where external_id is not null or schedule_id is not null;
            delete from billing_schedule;
            update billing_session set ends_at = null, withdrawn_at = null;
            update bill set withdrawn_at = null;
            update notice set withdrawn_at = null;
            delete from judge_work where lease_id in (select lease_id from lease where name = 'made-in-test');
            delete from lease_terms where revision > 1
                or lease_id in (select lease_id from lease where name = 'made-in-test');
            delete from lease where name = 'made-in-test'";
        self.site.administer(mend).await;
        self.site.drain();
    }

    async fn answer(&self, asker: &Asker, case: &Case, ids: &Filled) -> Answer {
        let (path, form) = ids.request(case);
        let sent = self.site.send(&asker.ask, case.method.parse().unwrap(), &path, &form).await;
        let (status, head) = (sent.status(), sent.headers().clone());
        let value =
            |name| head.get(name).map(|value: &header::HeaderValue| value.to_str().unwrap());
        let is_endless =
            value(header::CONTENT_TYPE).is_some_and(|kind| kind.contains("event-stream"));
        let location = value(header::LOCATION).unwrap_or_default().to_owned();
        let is_text = value(header::CONTENT_TYPE).is_none_or(|kind| kind != "application/zip");
        let body = if is_endless || !is_text { String::new() } else { text(sent).await };
        Answer {
            status,
            location,
            body,
            about: format!("{} {} {path} {form}", asker.name, case.method),
        }
    }
}

/// What stands for names that say nothing of a tenant.
fn everywhere() -> [(&'static str, String); 4] {
    [
        ("{slot}", "0".to_owned()),
        ("{digest}", "0".repeat(64)),
        ("{file}", "none.css".to_owned()),
        ("{secret}", "0".repeat(64)),
    ]
}

async fn askers(site: &Site) -> Vec<Asker> {
    use Role::{Admin, Viewer};
    let user = async |name, own: Option<Role>, theirs: Option<Role>| {
        let roles: Vec<_> = [own.map(|role| (OWN, role)), theirs.map(|role| (FOREIGN, role))]
            .into_iter()
            .flatten()
            .collect();
        let ask = site.user(name, &roles).await;
        Asker { name, ask, is_person: true, is_operator: false, own, theirs }
    };
    let mut askers = vec![
        user("nobody", None, None).await,
        user("viewer", Some(Viewer), None).await,
        user("admin", Some(Admin), None).await,
        user("admin-who-sees-theirs", Some(Admin), Some(Viewer)).await,
        user("their-viewer", None, Some(Viewer)).await,
        user(OWNER, None, Some(Admin)).await,
    ];
    let operator = site.operator("operator").await;
    let person = |name, ask, is_person, is_operator| Asker {
        name,
        ask,
        is_person,
        is_operator,
        own: None,
        theirs: None,
    };
    let lost_more = site.user("lost-more", &[(OWN, Viewer)]).await;
    // A token has what it was made with, of what its user has.
    let grants = [
        ("viewer-token", &askers[2].ask, Some(Viewer), None),
        ("admin-token", &askers[3].ask, Some(Admin), None),
        ("their-viewer-token", &askers[5].ask, None, Some(Viewer)),
        ("their-admin-token", &askers[5].ask, None, Some(Admin)),
        ("operators-token-for-own", &operator, Some(Admin), None),
        ("token-that-asks-for-more", &lost_more, Some(Viewer), None),
    ];
    let mut tokens = Vec::new();
    for (name, of, own, theirs) in grants {
        let asked = [own.map(|role| (OWN, role)), theirs.map(|role| (FOREIGN, role))];
        let mut asked: Vec<_> = asked.into_iter().flatten().collect();
        if name == "token-that-asks-for-more" {
            asked = vec![(OWN, Admin), (FOREIGN, Admin)];
        }
        let ask = site.token(of, &asked, name == "token-that-asks-for-more").await;
        tokens.push(Asker { name, ask, is_person: false, is_operator: false, own, theirs });
    }
    askers.extend(tokens);
    askers.push(person("operator-token", site.operator_token("operator").await, false, true));
    askers.push(person("operator", operator, true, true));
    askers.push(person("stranger", Ask::default(), false, false));
    askers
}

struct Answer {
    status: StatusCode,
    location: String,
    body: String,
    about: String,
}

impl Answer {
    fn is_refusal(&self) -> bool {
        self.location.starts_with("/sign-in?next=")
            || [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&self.status)
    }

    fn is_done(&self) -> bool {
        !self.is_refusal() && (self.status.is_success() || self.status.is_redirection())
    }

    /// The same answer with these ids in place of those.
    fn body_as_if(&self, case: &Case, said: &Filled, meant: &Filled) -> String {
        // A form's page stands at the address of what it is about.
        let patterns = [case.pattern, "/claims/{claim}", "/bills/{tenant}/{bill}"];
        let path = patterns.iter().fold(self.body.clone(), |body, pattern| {
            body.replace(&said.fill(pattern), &meant.fill(pattern))
        });
        let words = TENANT_IDS.iter().filter(|name| {
            !["{token}", "{assignment}", "{billed}", "{claim}", "{bill}", "{notice}"]
                .contains(*name)
        });
        words.fold(path, |body, name| body.replace(&said.fill(name), &meant.fill(name)))
    }
}

#[tokio::test]
async fn every_route_has_its_case() {
    let site = Site::new().await;
    let name = |method: &str, pattern, need| format!("{method} {pattern} {need:?}");
    let declared = http::declared(site.http.clone()).into_iter();
    let mut declared: Vec<_> =
        declared.map(|route| name(route.method.as_str(), route.pattern, route.need)).collect();
    let mut cases: Vec<_> =
        CASES.iter().map(|case| name(case.method, case.pattern, case.need)).collect();
    declared.sort();
    cases.sort();
    let lacking: Vec<_> = declared.iter().filter(|route| !cases.contains(route)).collect();
    assert!(lacking.is_empty(), "routes without a line in access/cases.rs: {lacking:?}");
    assert_eq!(declared, cases, "routes that are gone, or twice");
}

#[tokio::test]
async fn every_route_gives_each_asker_what_is_its_own_and_nothing_else() {
    let mut world = World::new().await;
    // Whoever signs out can ask for nothing afterwards.
    let is_last = |case: &&Case| case.pattern == "/sign-out";
    for case in CASES.iter().filter(|case| !is_last(case)).chain(CASES.iter().filter(is_last)) {
        if matches!(case.ids, Ids::Nobodys(_)) {
            of_nobody(&world, case).await;
            if case.method == "POST" {
                done_once(&world, case).await;
            }
            continue;
        }
        world.renew().await;
        // First whoever may not, because the others change something.
        let entries = world.entries().await;
        foreign(&world, case).await;
        mixed(&world, case).await;
        assert_eq!(world.entries().await, entries, "{} left an entry of nothing", case.pattern);
        reached(&world, case).await;
    }
}

/// A route that names no row lets through whom it has to, and shows them nothing of others.
async fn of_nobody(world: &World, case: &Case) {
    for asker in &world.askers {
        let mut case = *case;
        if case.method == "POST" {
            // No form holds this: what is asked is who gets as far as the form.
            case.ids = Ids::Nobodys("unknown=1");
        }
        let answer = world.answer(asker, &case, &world.own).await;
        let about = &answer.about;
        let expected = asker.expected(&case, None);
        assert_eq!(
            answer.is_refusal(),
            expected == Expected::Refused,
            "{about}: {}",
            answer.status
        );
        assert!(!answer.status.is_server_error(), "{about}: {}", answer.status);
        if !asker.is_operator && asker.theirs.is_none() {
            assert!(!answer.body.contains(MARK), "{about}: {}", answer.body);
        }
    }
}

/// A form that is right does what it is for, and leaves its trace.
async fn done_once(world: &World, case: &Case) {
    let place = CASES.iter().position(|other| std::ptr::eq(other, case)).unwrap();
    let name = format!("operator-{place}");
    let ask = world.site.operator(&name).await;
    let end = world.site.clock.now().plus_ms(DAY_MS);
    let link = world.site.link(Purpose::SignIn, Some(&name), end).await;
    let secret = link.trim_start_matches("/link/").to_owned();
    let ids = Filled([&[("{me}", name), ("{secret}", secret)][..], &world.own.0].concat());
    let asker = Asker {
        name: "operator",
        ask,
        is_person: true,
        is_operator: true,
        own: None,
        theirs: None,
    };
    let entries = world.entries().await;
    let answer = world.answer(&asker, case, &ids).await;
    assert!(answer.is_done(), "{}: {} {}", answer.about, answer.status, answer.body);
    world.assert_traced(case, entries, None, &answer.about).await;
}

/// What another tenant has is, to the byte, what nobody has.
async fn foreign(world: &World, case: &Case) {
    for asker in &world.askers {
        let expected = asker.expected(case, asker.theirs);
        if expected == Expected::Done {
            continue;
        }
        let answer = world.answer(asker, case, &world.foreign).await;
        let about = &answer.about;
        assert_eq!(
            answer.is_refusal(),
            expected != Expected::Absent && !is_hidden(&answer, expected),
            "{about}: {}",
            answer.status
        );
        assert!(!answer.is_done() || is_reading_of_choice(case), "{about}: {}", answer.status);
        if expected == Expected::Absent {
            as_if_absent(world, case, (asker, &answer), (&world.foreign, &world.absent)).await;
        }
    }
}

/// Whoever sees a row and may not change it may be told that nothing is there, too.
fn is_hidden(answer: &Answer, expected: Expected) -> bool {
    expected == Expected::Forbidden && !answer.is_refusal() && answer.status.is_client_error()
}

/// A page that only begins with the chosen row is there without it.
fn is_reading_of_choice(case: &Case) -> bool {
    case.method == "GET" && matches!(case.ids, Ids::Chosen(_))
}

async fn as_if_absent(
    world: &World,
    case: &Case,
    (asker, answer): (&Asker, &Answer),
    (foreign, absent): (&Filled, &Filled),
) {
    let other = world.answer(asker, case, absent).await;
    let about = &answer.about;
    assert_eq!(answer.status, other.status, "{about}");
    assert_eq!(answer.location, other.location, "{about}");
    assert_eq!(answer.body, other.body_as_if(case, absent, foreign), "{about}: as if absent");
    if !matches!(case.ids, Ids::Chosen(_)) {
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{about}");
    }
}

/// A request with ids of two tenants is one with an id that nobody has, also for who may see both.
async fn mixed(world: &World, case: &Case) {
    let named: Vec<_> = TENANT_IDS.into_iter().filter(|name| case.names(name)).collect();
    if named.len() < 2 || matches!(case.ids, Ids::OfUser(_)) {
        return;
    }
    for name in named {
        let (foreign, absent) =
            (world.own.but(name, &world.foreign), world.own.but(name, &world.absent));
        let both = world.askers.iter().filter(|asker| WITH_BOTH.contains(&asker.name));
        for asker in both.filter(|asker| asker.meets(case.need)) {
            let answer = world.answer(asker, case, &foreign).await;
            assert!(!answer.is_done(), "{}: {}", answer.about, answer.status);
            as_if_absent(world, case, (asker, &answer), (&foreign, &absent)).await;
        }
    }
}

/// Whoever may gets what was asked for. Without this the rest would hold for a route that is broken.
async fn reached(world: &World, case: &Case) {
    let mut count = 0;
    for asker in &world.askers {
        for (ids, tenant, role) in
            [(&world.foreign, FOREIGN, asker.theirs), (&world.own, OWN, asker.own)]
        {
            let is_own_user = matches!(case.ids, Ids::OfUser(_)) && tenant == OWN;
            if asker.expected(case, role) != Expected::Done || is_own_user {
                continue;
            }
            let entries = world.entries().await;
            let answer = world.answer(asker, case, ids).await;
            let about = &answer.about;
            assert!(answer.is_done(), "{about}: {} {}", answer.status, answer.body);
            let sees_both = asker.is_operator || asker.theirs.is_some();
            assert!(sees_both || !answer.body.contains(MARK), "{about}: {}", answer.body);
            // What an operator takes out as hours.csv is of every tenant.
            let is_of_all = asker.is_operator && case.pattern == "/hours.csv";
            let is_of_tenant = !matches!(case.ids, Ids::OfUser(_)) && !is_of_all;
            world.assert_traced(case, entries, is_of_tenant.then_some(tenant), about).await;
            count += i32::from(tenant == FOREIGN);
            if case.method == "POST" {
                world.mend().await;
            }
        }
    }
    assert!(count > 0, "{} {}: nobody gets it", case.method, case.pattern);
}

#[tokio::test]
async fn a_route_answers_to_its_own_verbs_alone() {
    let site = Site::new().await;
    let operator = site.operator("operator").await;
    let filled = Filled(
        [
            &[
                ("{node}", "33".repeat(16)),
                ("{import}", "0".repeat(16)),
                ("{tenant}", OWN.to_owned()),
                ("{token}", "1".to_owned()),
            ][..],
            &everywhere(),
        ]
        .concat(),
    );
    for case in CASES {
        let path = filled.fill(case.pattern);
        for method in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            let is_route = |other: &&Case| other.pattern == case.pattern && method == other.method;
            if CASES.iter().any(|other| is_route(&other)) {
                continue;
            }
            let status = site.status(&operator, method.clone(), &path).await.0;
            assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
        }
    }
    // A link of nobody's lets nobody in, and one that is there is good for who it is for.
    let end = site.clock.now().plus_ms(DAY_MS);
    let link = site.link(Purpose::SignIn, Some("operator"), end).await;
    assert_eq!(site.post(&Ask::default(), &link, "").await.0, 303);
    let again = site.post(&Ask::default(), &link, "").await;
    let never = site.post(&Ask::default(), &filled.fill("/link/{secret}"), "").await;
    assert_eq!(again.0, never.0, "a used link is as if it had never been");
    assert_eq!(again.2.replace(&link, ""), never.2.replace(&filled.fill("/link/{secret}"), ""));
}
