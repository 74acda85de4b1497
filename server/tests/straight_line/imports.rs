//! Real logs from two strangers' machines, against a second computation of the same text.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;

use crate::process::{RunningServer, data_dir, eventually};

/// What an hour must be, made from rows of (milliseconds, percent) in the plainest way.
#[derive(Debug, Default, PartialEq, Eq)]
struct ExpectedHour {
    /// (percent, milliseconds), in any order.
    pieces: Vec<(i64, i64)>,
}

impl ExpectedHour {
    fn measured_ms(&self) -> i64 {
        self.pieces.iter().map(|(_, ms)| ms).sum()
    }

    fn busy_pct_ms(&self) -> i64 {
        self.pieces.iter().map(|(percent, ms)| percent * ms).sum()
    }

    /// Parts per million, half to even.
    fn mean_ppm(&self) -> i64 {
        let (whole, part) = (self.measured_ms(), self.busy_pct_ms() * 10_000);
        let (quotient, twice) = (part / whole, part % whole * 2);
        quotient + i64::from(twice > whole || (twice == whole && quotient % 2 == 1))
    }

    /// Nearest rank over milliseconds.
    fn percentile(&self, percent: i64) -> i64 {
        let mut sorted = self.pieces.clone();
        sorted.sort_unstable();
        let rank = (self.measured_ms() * percent + 99) / 100;
        let mut seen = 0;
        sorted
            .into_iter()
            .find(|(_, ms)| {
                seen += ms;
                seen >= rank
            })
            .unwrap()
            .0
    }
}

/// Weights held backwards, cut at hours: the rule of the contract, written without our code.
fn expected(rows: &[(i64, i64)], period_ms: i64) -> BTreeMap<i64, ExpectedHour> {
    const HOUR: i64 = 3_600_000;
    let mut hours: BTreeMap<i64, ExpectedHour> = BTreeMap::new();
    let mut before: Option<i64> = None;
    for (at, percent) in rows {
        let limit = (3 * period_ms).max(3_000);
        let weight = before
            .map_or(period_ms, |before| if at - before <= limit { at - before } else { period_ms });
        let mut from = at - weight;
        while from < *at {
            let hour = from / HOUR;
            let to = ((hour + 1) * HOUR).min(*at);
            hours.entry(hour).or_default().pieces.push((*percent, to - from));
            from = to;
        }
        before = Some(*at);
    }
    hours
}

/// (time, utilization) of each line; `busy` is the column.
pub(crate) fn rows(text: &str, busy: usize, offset_ms: i64) -> Vec<(i64, i64)> {
    let data = text.lines().filter(|line| line.starts_with("2026/"));
    data.map(|line| {
        let cells: Vec<&str> = line.split(", ").collect();
        let at = chrono::NaiveDateTime::parse_from_str(cells[0], "%Y/%m/%d %H:%M:%S%.3f").unwrap();
        let percent = cells[busy].trim_end_matches(" %").trim();
        (at.and_utc().timestamp_millis() - offset_ms, percent.parse().unwrap())
    })
    .collect()
}

pub(crate) fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

pub(crate) fn import(server: &RunningServer, keys: &std::path::Path, arguments: &[&str]) -> Output {
    import_kind(server, keys, "nvidia-smi", arguments)
}

fn import_kind(
    server: &RunningServer,
    keys: &std::path::Path,
    kind: &str,
    arguments: &[&str],
) -> Output {
    Command::new(env!("CARGO_BIN_EXE_leasewatch-server"))
        .args(["import", kind, "--server", &server.url(), "--key-dir"])
        .arg(keys)
        .args(arguments)
        .output()
        .unwrap()
}

pub(crate) fn utf8(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn node_id(output: &Output) -> String {
    assert!(output.status.success(), "{}", utf8(&output.stderr));
    utf8(&output.stdout).trim().rsplit('/').next().unwrap().to_owned()
}

/// The hours when each of them holds what it must, after an import that added to some.
fn grown(
    server: &RunningServer,
    query: &str,
    expected: &BTreeMap<i64, ExpectedHour>,
) -> Option<Vec<HashMap<String, String>>> {
    let found = server.hours(query);
    let measured = found.iter().map(|hour| hour["measured_ms"].parse::<i64>().unwrap());
    let whole: i64 = expected.values().map(ExpectedHour::measured_ms).sum();
    let measured: i64 = measured.sum();
    (whole == measured).then_some(found)
}

fn assert_hours(found: &[HashMap<String, String>], expected: &BTreeMap<i64, ExpectedHour>) {
    assert_eq!(found.len(), expected.len());
    for (row, (hour, expected)) in found.iter().zip(expected) {
        let start = chrono::DateTime::from_timestamp_millis(hour * 3_600_000).unwrap();
        let number = |column: &str| row[column].parse::<i64>().unwrap();
        assert_eq!(row["hour_utc"], start.format("%Y-%m-%dT%H:%M:%SZ").to_string());
        assert_eq!(row["origin"], "imported");
        assert_eq!(number("measured_ms"), expected.measured_ms());
        assert_eq!(number("busy_pct_ms"), expected.busy_pct_ms());
        assert_eq!(number("util_mean_ppm"), expected.mean_ppm());
        assert_eq!(number("enrolled_ms"), expected.measured_ms(), "these logs have no gap");
        assert_eq!(number("coverage_ppm"), 1_000_000);
        for percent in [5, 50, 90, 95, 99] {
            assert_eq!(number(&format!("util_p{percent:02}_pct")), expected.percentile(percent));
        }
    }
}

pub(crate) const COLUMNS: &str = "timestamp,utilization.gpu,utilization.memory,memory.used,memory.total,temperature.gpu,power.draw";

#[test]
fn a_rental_s_log_without_a_header_becomes_exact_hours() {
    let data = data_dir();
    let server = RunningServer::start(data.path());
    let file = fixture("smi-trace-idle-rental.csv");
    let path = file.to_str().unwrap();

    let refused = import(&server, data.path(), &[path, "--node", "rental"]);
    assert_eq!(refused.status.code(), Some(2));
    let text = utf8(&refused.stderr);
    assert!(text.contains("2026/04/25 16:06:06.780, 0 %") && text.contains("--columns"), "{text}");

    let arguments = [
        path,
        "--node",
        "rental",
        "--columns",
        COLUMNS,
        "--cadence",
        "5",
        "--timezone",
        "Asia/Shanghai",
    ];
    let id = node_id(&import(&server, data.path(), &arguments));
    let text = std::fs::read_to_string(&file).unwrap();
    let expected = expected(&rows(&text, 1, 8 * 3_600_000), 5_000);
    let query = format!("from=2026-04-25&to=2026-04-25&tz=Asia/Shanghai&node={id}");
    let found = eventually("three hours", || Some(server.hours(&query)).filter(|h| h.len() == 3));
    assert_hours(&found, &expected);
    let means: Vec<_> = expected.values().map(ExpectedHour::mean_ppm).collect();
    assert_eq!(means, [1_410, 15_129, 28_105], "0.14 %, 1.51 % and 2.81 %");

    // Again: nothing changes, and the rows are counted.
    let again = import(&server, data.path(), &arguments);
    assert!(utf8(&again.stdout).contains("skipped 1923 rows"), "{}", utf8(&again.stdout));
    assert_eq!(server.hours(&query), found);

    // Both pages show it, marked.
    for page in ["/?lang=en", &format!("/nodes/{id}?week=2026-04-20&lang=en")] {
        let html = server.get(page);
        assert!(html.contains("rental") && html.contains("imported"), "{page}");
    }
    let node = server.json(&format!("/nodes/{id}/node.json?week=2026-04-20"));
    assert_eq!(node["gpus"][0]["hours"].as_array().unwrap().len(), 3);
    assert_eq!(node["origin"], "imported");
}

#[test]
fn a_powershell_log_in_utf16_becomes_exact_hours() {
    let data = data_dir();
    let server = RunningServer::start(data.path());
    let file = fixture("smi-log-utf16le.csv");
    let arguments = [file.to_str().unwrap(), "--node", "desk", "--cadence", "1"];
    let id = node_id(&import(&server, data.path(), &arguments));
    let bytes = std::fs::read(&file).unwrap();
    let units: Vec<u16> =
        bytes[2..].chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
    let rows = rows(&String::from_utf16(&units).unwrap(), 3, 0);
    assert_eq!(rows.len(), 434);
    let query = format!("from=2026-08-01&to=2026-08-01&node={id}");
    let found = eventually("two hours", || Some(server.hours(&query)).filter(|h| h.len() == 2));
    assert_hours(&found, &expected(&rows, 1_000));
}

/// A log that is imported while it grows, with what a lost GPU leaves between the rows, gives the
/// hours of the whole.
#[test]
fn a_damaged_log_is_imported_around_its_damage_and_grows() {
    let data = data_dir();
    let server = RunningServer::start(data.path());
    let whole = std::fs::read_to_string(fixture("smi-trace-idle-rental.csv")).unwrap();
    let header = "timestamp, utilization.gpu [%], utilization.memory [%], memory.used [MiB], memory.total [MiB], temperature.gpu, power.draw [W]\n";
    let at = whole.match_indices('\n').nth(699).unwrap().0 + 1;
    let noise = "\0\0\0\nNo devices were found\n+------+\n";
    let damaged = format!("{header}{}{noise}{header}{}", &whole[..at], &whole[at..]);
    let file = data.path().join("gpu.csv");
    let arguments = [file.to_str().unwrap(), "--node", "grown", "--cadence", "5"];

    // Cut in the middle of the 1001st row: 1000 are whole.
    let cut = damaged.match_indices('\n').nth(1_004).unwrap().0 + 30;
    std::fs::write(&file, &damaged[..cut]).unwrap();
    let strict = import(&server, data.path(), &[&arguments[..], &["--strict"]].concat());
    assert_eq!(strict.status.code(), Some(2));
    assert!(utf8(&strict.stderr).contains("nothing was imported"), "{}", utf8(&strict.stderr));
    let first = import(&server, data.path(), &arguments);
    let id = node_id(&first);
    assert!(utf8(&first.stdout).contains("imported 1000 rows of 1 GPU(s)"), "{first:?}");
    let said = utf8(&first.stderr);
    assert!(said.contains("line 704: 1 cells where the header has 7: +------+"), "{said}");
    assert!(said.contains("line 1006: 3 cells") && said.contains("2 lines were not"), "{said}");

    std::fs::write(&file, &damaged).unwrap();
    let second = import(&server, data.path(), &arguments);
    let said = utf8(&second.stdout);
    assert!(said.contains("imported 923 rows") && said.contains("skipped 1000 rows"), "{said}");
    let query = format!("from=2026-04-25&to=2026-04-25&node={id}");
    let expected = expected(&rows(&whole, 1, 0), 5_000);
    let found = eventually("the hours of the whole", || grown(&server, &query, &expected));
    assert_hours(&found, &expected);
    assert!(said.contains(&format!("/hours.csv?{query}\n")), "{said}");
}

#[test]
fn samples_of_a_monitor_and_a_snapshot_are_imported() {
    let data = data_dir();
    let server = RunningServer::start(data.path());
    let monitor = fixture("monitor.jsonl");
    let arguments =
        [monitor.to_str().unwrap(), "--node", "monitored", "--timezone", "Asia/Shanghai"];
    let output = import_kind(&server, data.path(), "jsonl", &arguments);
    assert!(utf8(&output.stdout).contains("imported 40 rows of 8 GPU(s)"), "{output:?}");
    let id = node_id(&output);
    let query = format!("from=2021-12-05&to=2021-12-05&node={id}");
    let found =
        eventually("an hour of each", || Some(server.hours(&query)).filter(|h| h.len() == 8));
    assert!(found.iter().all(|hour| hour["hour_utc"] == "2021-12-05T20:00:00Z"), "{found:?}");

    let snapshot = fixture("smi-a100-mig-535.xml");
    let output = import(&server, data.path(), &[snapshot.to_str().unwrap(), "--node", "cut"]);
    assert!(utf8(&output.stderr).contains("says 4 GPUs and lists 1"), "{output:?}");
    let page = server.get(&format!("/nodes/{}?week=2023-07-31&lang=en", node_id(&output)));
    assert!(page.contains("A100-SXM4-80GB") && page.contains("imported"), "{page}");

    // Without a time there is no row, and a file without a row is told apart.
    let untimed = fixture("smi-rtxpro6000-580.xml");
    let output = import(&server, data.path(), &[untimed.to_str().unwrap(), "--node", "none"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(utf8(&output.stderr).contains("no timestamp"), "{output:?}");
}

/// Sends the form of the page as a browser does: status, address of the answer, body.
pub(crate) fn upload(
    server: &RunningServer,
    fields: &[(&str, &str)],
    file: Option<(&str, &[u8])>,
    headers: &str,
) -> (u16, String, String) {
    let mut body = Vec::new();
    for (name, value) in fields {
        let head = format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
        body.extend([head.as_bytes(), value.as_bytes(), b"\r\n"].concat());
    }
    if let Some((name, bytes)) = file {
        let head = format!(
            "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n"
        );
        body.extend([head.as_bytes(), bytes, b"\r\n"].concat());
    }
    body.extend(b"--b--\r\n");
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let (host, length) = (&server.address, body.len());
    write!(stream, "POST /import?lang=en HTTP/1.0\r\nHost: {host}\r\nContent-Length: {length}\r\nContent-Type: multipart/form-data; boundary=b\r\n{headers}\r\n").unwrap();
    stream.write_all(&body).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let location = head.lines().find_map(|line| line.strip_prefix("location: "));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, location.unwrap_or_default().to_owned(), body.to_owned())
}

/// The view struct of an import when it is over.
pub(crate) fn outcome(server: &RunningServer, location: &str) -> Value {
    let (path, query) = location.split_once('?').unwrap();
    eventually("the import's end", || {
        let view = server.json(&format!("{path}/import.json?{query}"));
        let is_over = ["done", "recorded", "failed"].contains(&view["state"].as_str().unwrap());
        is_over.then_some(view)
    })
}

#[test]
fn a_log_is_uploaded_on_a_page_and_the_command_line_continues_the_node() {
    let data = data_dir();
    let server = RunningServer::start(data.path());
    assert!(server.get("/?lang=en").contains("href=\"/import?lang=en\""));
    assert!(server.get("/import?lang=zh-CN").contains("enctype=\"multipart/form-data\""));
    let file = fixture("smi-trace-idle-rental.csv");
    let log = std::fs::read(&file).unwrap();
    let fields = [("node", "rental"), ("columns", COLUMNS), ("cadence", "5"), ("tenant", "")];
    let own = format!("Origin: {}\r\nSec-Fetch-Site: same-origin\r\n", server.url());

    let half = log.iter().enumerate().filter(|(_, b)| **b == b'\n').nth(999).unwrap().0 + 1;
    let damaged = [&log[..half], b"<script>alert(1)</script>\n"].concat();
    let hostile = "<b>\u{202e}gpu.csv";
    let (status, location, _) = upload(&server, &fields, Some((hostile, &damaged)), &own);
    assert_eq!(status, 303);
    let view = outcome(&server, &location);
    assert_eq!((&view["rows"], &view["rows_covered"]), (&1_000.into(), &0.into()), "{view}");
    let problem = &view["problems"]["first"][0];
    assert_eq!((&problem["line"], &problem["fault"]), (&1_001.into(), &"cell_count".into()));
    let page = server.get(&location);
    assert!(page.contains("1,000") && page.contains("&#60;b&#62;gpu.csv"), "{page}");
    assert!(!page.contains("<script>alert") && !page.contains("http-equiv"), "{page}");
    let quoted = "<code>&#60;script&#62;alert(1)&#60;/script&#62;</code>";
    assert!(page.contains(&format!("Cells: 1, where the header has 7: {quoted}")), "{page}");
    let page = server.get(&location.replace("lang=en", "lang=zh-CN"));
    assert!(page.contains(&format!("表头有 7 列，该行却有 1 个单元格： {quoted}")), "{page}");
    assert!(!page.contains("where the header has"), "{page}");
    assert!(server.get("/import?lang=en").contains(&location), "it is listed");

    // The same node, on the command line: the keys lie in the server's folder.
    let keys = data.path().join("imports");
    let arguments =
        [file.to_str().unwrap(), "--node", "rental", "--cadence", "5", "--columns", COLUMNS];
    let output = import(&server, &keys, &arguments);
    let said = utf8(&output.stdout);
    assert!(said.contains("imported 923 rows") && said.contains("skipped 1000 rows"), "{said}");
    assert_eq!(Value::from(node_id(&output)), view["node"]);
    let query = format!("from=2026-04-25&to=2026-04-25&node={}", node_id(&output));
    let expected = expected(&rows(&utf8(&log), 1, 0), 5_000);
    let found = eventually("the hours of the whole", || grown(&server, &query, &expected));
    assert_hours(&found, &expected);

    // Everything again changes nothing, and no file stays behind.
    let (_, location, _) = upload(&server, &fields, Some(("again.csv", &log)), "");
    let view = outcome(&server, &location);
    assert_eq!((&view["rows"], &view["rows_covered"]), (&0.into(), &1_923.into()), "{view}");
    assert_eq!(server.hours(&query), found);
    let uploads = std::fs::read_dir(data.path().join("uploads")).unwrap();
    assert_eq!(uploads.count(), 0);
}

#[test]
fn an_upload_that_cannot_be_imported_says_which_field_and_why() {
    let data = data_dir();
    let server = RunningServer::start(data.path());
    let row = b"2026/04/25 16:06:06.780, 0 %, 2 MiB\n".as_slice();
    let node = [("node", "rental")];

    // What the form itself shows.
    let (status, _, page) = upload(&server, &[("timezone", "Mars")], None, "");
    assert_eq!(status, 422);
    for (field, words) in [
        ("file", "Choose a file."),
        ("node", "It has to be filled in."),
        ("timezone", "It is no IANA time zone"),
    ] {
        let place = page.split_once(&format!("<a href=\"#{field}\">")).unwrap().1;
        assert!(place.split("</li>").next().unwrap().contains(words), "{field}: {page}");
    }
    let large = vec![b'x'; 1_100_000];
    let (status, _, page) = upload(&server, &node, Some(("large.csv", &large)), "");
    assert!(status == 413 && page.contains("larger than 1\u{202f}MiB"), "{status} {page}");
    assert!(page.contains("value=\"rental\""), "what was typed stays");

    // What only reading shows.
    let failure = |fields: &[(&str, &str)], bytes: &[u8]| {
        let (status, location, page) = upload(&server, fields, Some(("log", bytes)), "");
        assert_eq!(status, 303, "{page}");
        (outcome(&server, &location)["failure"].clone(), server.get(&location))
    };
    let (kind, page) = failure(&node, row);
    assert!(kind == "no_header" && page.contains("<h2>Columns</h2>"), "{page}");
    assert!(page.contains("2026/04/25 16:06:06.780, 0 %, 2 MiB"), "{page}");
    let mut links = page.split("href=\"").filter_map(|link| link.split('"').next());
    let again = links.find(|link| link.contains("again=")).unwrap().replace("&#38;", "&");
    let form = server.get(&again);
    assert!(form.contains("name=\"node\" value=\"rental\""), "{form}");
    let (kind, page) = failure(&node, b"# gpu   pwr gtemp mtemp    sm   mem\n# Idx     W     C\n    0    14    24     -     0     0\n");
    assert!(kind == "other_tool" && page.contains("nvidia-smi dmon, whose rows"), "{page}");
    let columns = ("columns", "timestamp,utilization.gpu,memory.used");
    let (kind, page) = failure(&[node[0], columns], row);
    assert!(kind == "cadence" && page.contains("<h2>Seconds between two rows</h2>"), "{page}");
    let later = b"2026/04/25 16:06:07.780, 0 %, 2 MiB\n";
    let rows = [row, later.as_slice(), b"noise\n"].concat();
    let (kind, _) = failure(&[node[0], columns, ("strict", "1")], &rows);
    assert_eq!(kind, "strict");

    // Another site's page cannot send it, and other addresses are nothing.
    for headers in ["Sec-Fetch-Site: cross-site\r\n", "Origin: http://evil.example\r\n"] {
        let (status, _, page) = upload(&server, &node, Some(("log", row)), headers);
        assert!(status == 403 && page.contains("Another site sent this request"), "{page}");
    }
    assert_eq!(server.ask("/imports/0000000000000000").0, 404);
    assert_eq!(server.ask("/imports/..%2F..%2Fetc/import.json").0, 404);
    let listed = server.get("/import?lang=en").matches("/imports/").count();
    assert_eq!(listed, 4, "what was refused is no import");
    assert!(server.json("/overview.json")["tenants"].as_array().unwrap().is_empty());
}
