//! The shipped files, and what is refused.

use super::*;

fn own() -> &'static str {
    shipped().iter().find(|(id, _)| *id == OWN_OBJECTIVE).unwrap().1
}

#[test]
fn every_shipped_profile_is_read_and_nobody_reviewed_it() {
    for (id, text) in shipped() {
        let profile = Profile::parse(text).unwrap_or_else(|error| panic!("{id}: {error}"));
        assert_eq!(profile.id.as_str(), *id);
        assert_eq!(profile.hash, Hash::of(text.as_bytes()));
        assert_eq!(profile.version, 1, "{id}");
        assert_eq!(profile.reviewed_by, None, "{id}");
        assert_eq!(profile.source.text_hash, None, "{id}");
        assert!(!profile.notes.is_empty(), "{id}: a reader needs to know what is uncertain");
    }
}

#[test]
fn the_shipped_list_is_the_folder() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../profiles");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".toml").map(str::to_owned))
        .collect();
    files.sort();
    let listed: Vec<&str> = shipped().iter().map(|(id, _)| *id).collect();
    assert_eq!(files, listed);
}

#[test]
fn a_refusal_names_line_and_field() {
    let line = |text: &str| own().lines().position(|line| line.starts_with(text)).unwrap() + 1;
    let cases: [(&str, &str, usize, &str, &str); 12] = [
        ("version = 1", "version = \"1\"", line("version"), "version", "expected i64"),
        ("version = 1", "version = 0", line("version"), "version", "1 to 999999"),
        ("version = 1", "version = 1\ncolour = 3", line("version") + 1, "colour", "unknown field"),
        ("product = \"Any lease\"\n", "", 1, "product", "missing field"),
        ("schema = 1", "schema = 2", 1, "schema", "reads schema 1"),
        ("unit = \"gpu\"", "unit = \"card\"", line("unit"), "unit", "one of gpu, node"),
        ("target = \"99.5\"", "target = 99.5", line("target"), "target", "expected a string"),
        ("target = \"99.5\"", "target = \"101\"", line("target"), "target", "0 to 100"),
        ("zone = \"UTC\"", "zone = \"Mars\"", line("zone"), "zone", "IANA"),
        ("zone = \"UTC\"\n", "", line("kind"), "zone", "needs it"),
        ("reviewed = false", "reviewed = true", line("reviewed"), "reviewed", "reviewed_by"),
        (
            "deadline = \"not_stated\"",
            "deadline = \"not_stated\"\ndays = 3",
            line("deadline"),
            "days",
            "no place",
        ),
    ];
    for (from, to, line, field, reason) in cases {
        let text = own().replacen(from, to, 1);
        assert_ne!(text, own(), "{from} is not in the file");
        let error = Profile::parse(&text).unwrap_err();
        assert_eq!((error.line, error.field.as_str()), (line, field), "{to}: {error}");
        assert!(error.reason.contains(reason), "{to}: {error}");
    }
}

#[test]
fn credits_are_checked_against_their_kind_and_each_other() {
    let with = |credit: &str| {
        let text = format!("{}\n[objective.credit]\n{credit}\n", own());
        Profile::parse(&text).map(|profile| profile.objectives[0].credit.clone().unwrap())
    };
    let tiers = "kind = \"tiers\"\ntiers = [{ below = \"99.5\", share = \"10\" }, { below = \"95\", share = \"25\" }]";
    assert!(with(tiers).is_ok());
    for (credit, reason) in [
        (tiers.replace("\"95\"", "\"99.5\""), "edges go down"),
        (tiers.replace("\"25\"", "\"10\""), "shares go up"),
        (tiers.replace("below = \"99.5\"", "below = \"99.9\""), "above the objective's target"),
        (format!("{tiers}\nfactor = \"2\""), "no place"),
        ("kind = \"multiplier\"".to_owned(), "needs it"),
        ("kind = \"multiplier\"\nfactor = \"0.000\"".to_owned(), "above 0"),
        ("kind = \"pro_rata\"\nfloor = \"5 dollars\"".to_owned(), "three letters"),
        ("kind = \"pro_rata\"\nform = \"cash\"".to_owned(), "one of money, voucher, hours"),
    ] {
        let error = with(&credit).unwrap_err();
        assert!(error.reason.contains(reason), "{credit}: {error}");
    }
    let half = with("kind = \"multiplier\"\nfactor = \"1.5\"\nround_up_s = 3600").unwrap();
    let expected = Multiplier { factor_milli: 1_500, round_up_s: Some(3_600) };
    assert_eq!(half.formula, CreditFormula::Multiplier(expected));
}

#[test]
fn a_version_never_changes_and_the_one_in_force_judges() {
    let version = |number: u32, from: &str, to: &str| {
        let head = format!("version = {number}\n{from}\n{to}");
        Profile::parse(&own().replacen("version = 1", &head, 1)).unwrap()
    };
    let (january, july) = ("2026-01-01T00:00:00Z", "2026-07-01T00:00:00Z");
    let at = |text| Timestamp::parse_iso(text).unwrap();
    let first = version(1, &format!("effective_from = \"{january}\""), "");
    let second = version(2, &format!("effective_from = \"{july}\""), "");
    let id = first.id.clone();
    let mut profiles = Profiles::default();
    profiles.add(second.clone()).unwrap();
    profiles.add(first.clone()).unwrap();
    profiles.add(first.clone()).unwrap();
    let other = version(1, &format!("effective_from = \"{july}\""), "");
    assert_eq!(profiles.add(other), Err(VersionTaken { id: id.clone(), version: 1 }));

    let in_force = |text| profiles.in_force(&id, at(text)).map(|profile| profile.version);
    assert_eq!(in_force("2025-12-31T23:59:59Z"), None);
    assert_eq!(in_force("2026-06-30T23:59:59Z"), Some(1));
    assert_eq!(in_force(july), Some(2));
    let year = Period::new(at("2025-01-01T00:00:00Z"), at("2027-01-01T00:00:00Z"));
    let parts: Vec<_> = profiles
        .in_force_over(&id, year)
        .into_iter()
        .map(|(period, profile)| (period.start, period.end, profile.version))
        .collect();
    assert_eq!(parts, [(at(january), at(july), 1), (at(july), year.end, 2)]);
    assert_eq!(profiles.iter().count(), 2);
}

#[test]
fn what_is_written_reads_back() {
    let round = |profile: &Profile| {
        let text = profile.to_toml();
        let read = Profile::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(read.hash, Hash::of(text.as_bytes()));
        Profile { hash: profile.hash, ..read }
    };
    for (_, text) in shipped() {
        let profile = Profile::parse(text).unwrap();
        assert_eq!(round(&profile), profile);
    }
    let mut own = Profile::parse(own()).unwrap();
    own.provider = "算力 \"A\" \\ ]\u{e9}".to_owned();
    own.reviewed_by = Some("reader".to_owned());
    own.effective_from = Timestamp::parse_iso("2026-01-01T00:00:00.500Z");
    own.source.text_hash = Some(Hash::of(b"text"));
    own.response_within_s = Some(600);
    own.objectives[0].unit.needs = Needs::AtLeast(64);
    own.objectives[0].window = WindowRule::Rolling { days: 7 };
    own.objectives[0].credit = Some(CreditRule {
        formula: CreditFormula::Multiplier(Multiplier {
            factor_milli: 1_050,
            round_up_s: Some(60),
        }),
        base: CreditBase::PriorLeaseCharge,
        form: CreditForm::Hours,
        cap: Some(Target::parse("50").unwrap()),
        floor: Some("0.5 CNY".parse().unwrap()),
        minimum: Some("0.1 CNY".parse().unwrap()),
        digits: 0,
    });
    assert_eq!(round(&own), own);
    // A line break in a form ends no text, and is refused when it is read.
    own.product = "a\nid = 3".to_owned();
    let error = Profile::parse(&own.to_toml()).unwrap_err();
    assert_eq!(error.field, "product");
}
