//! D8, C1, I2, I3 and I4 on the real program, each beside a program that breaks it.
//!
//! What is promised in full stands in the tests of the parts (`docs/SECURITY.md` names them). Here
//! each promise is looked at from outside, and the same look has to notice a server that does not
//! keep it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use leasewatch_core::join::{JoinString, JoinToken};
use leasewatch_proto::convert::Claim;
use tokio::time::timeout;

use crate::fleet::cells;
use crate::kills::compare;
use crate::process::{RunningServer, data_dir, eventually};
use crate::wire_node::{Broken, WireNode, WireStream};

/// What a server of ours does at once.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server that runs, and its data directory.
struct Site<'a> {
    server: RunningServer,
    data: &'a Path,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_promises_is_seen_to_be_kept_and_seen_to_be_broken() {
    let data = data_dir();
    let site = |promise| Site {
        server: RunningServer::start_broken(data.path(), promise).unwrap(),
        data: data.path(),
    };
    let kept = site(None);
    assert_eq!(no_hole_is_left(&kept, 1).await, Ok(()));
    assert_eq!(a_revoked_stream_ends(&kept, 2).await, Ok(()));
    assert_eq!(a_copied_key_is_noticed(&kept, 3).await, Ok(()));
    assert_eq!(a_token_is_used_once(&kept, 4).await, Ok(()));
    assert_eq!(a_wrong_clock_measures_nothing(&kept, 5).await, Ok(()));
    drop(kept);

    let broken = site(Some("silent_hole"));
    assert!(no_hole_is_left(&broken, 11).await.is_err());
    drop(broken);
    let broken = site(Some("revocation_ignored"));
    assert!(a_revoked_stream_ends(&broken, 12).await.is_err());
    drop(broken);
    let broken = site(Some("copies_ignored"));
    assert!(a_copied_key_is_noticed(&broken, 13).await.is_err());
    drop(broken);
    let broken = site(Some("token_reused"));
    assert!(a_token_is_used_once(&broken, 14).await.is_err());
    drop(broken);
    let broken = site(Some("clocks_believed"));
    assert!(a_wrong_clock_measures_nothing(&broken, 15).await.is_err());
}

impl Site<'_> {
    fn url(&self) -> String {
        self.server.url()
    }

    fn told(&self, arguments: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_leasewatch-server"))
            .args(arguments)
            .arg("--data-dir")
            .arg(self.data)
            .env_remove("DATABASE_URL")
            .env_remove("DATABASE_ADMIN_URL")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// What the list says of a node.
    fn listed(&self, node: &WireNode) -> String {
        let id = node.id().to_string();
        let list = self.told(&["nodes", "list"]);
        list.lines().find(|line| line.starts_with(&id)).unwrap_or_default().to_owned()
    }
}

/// Sends the node's next segments, waits for the last acknowledgement.
async fn deliver(node: &mut WireNode, stream: &mut WireStream, count: u64) -> Result<(), Broken> {
    let last = node.sealed.len() as u64 + count;
    for sequence in node.sealed.len() as u64 + 1..=last {
        stream.send_segment(&made(node, stream, sequence).await).await.map_err(in_words)?;
    }
    while stream.ack().await.map_err(in_words)?.0 < last {}
    node.acked.send_replace(last);
    Ok(())
}

/// A segment, once its time has come.
async fn made(
    node: &mut WireNode,
    stream: &WireStream,
    sequence: u64,
) -> leasewatch_core::evidence::chain::SealedSegment {
    loop {
        if let Some(segment) = node.segment(sequence, &stream.welcome) {
            return segment.clone();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn in_words(status: tonic::Status) -> Broken {
    format!("{:?}: {}", status.code(), status.message())
}

/// D8: a sequence that got lost on the way is asked for, so that nothing is silently missing.
async fn no_hole_is_left(site: &Site<'_>, seed: u8) -> Result<(), Broken> {
    let mut node = WireNode::new(seed);
    let mut stream = node.open(&site.url(), Claim::default()).await.map_err(in_words)?;
    deliver(&mut node, &mut stream, 22).await?;
    let _lost = made(&mut node, &stream, 23).await;
    let behind = made(&mut node, &stream, 24).await;
    stream.send_segment(&behind).await.map_err(in_words)?;
    let answer = stream.ack().await.map_err(in_words)?;
    if answer != (22, true) {
        return Err(format!("23 is missing, and the answer is {answer:?}"));
    }
    for sequence in [23, 24] {
        stream.send_segment(&node.sealed[&sequence]).await.map_err(in_words)?;
    }
    while stream.ack().await.map_err(in_words)?.0 < 24 {}
    compare(site.data, std::slice::from_ref(&node)).await
}

/// I2: the stream of a key that was revoked elsewhere ends, and it opens no other.
async fn a_revoked_stream_ends(site: &Site<'_>, seed: u8) -> Result<(), Broken> {
    let mut node = WireNode::new(seed);
    let mut stream = node.open(&site.url(), Claim::default()).await.map_err(in_words)?;
    deliver(&mut node, &mut stream, 2).await?;
    site.told(&["nodes", "revoke", &node.id().to_string()]);
    let ends = async { while stream.next().await.is_ok() {} };
    let patience = if seed > 10 { Duration::from_secs(6) } else { PATIENCE };
    timeout(patience, ends).await.map_err(|_| "the stream goes on".to_owned())?;
    match node.open(&site.url(), Claim::default()).await {
        Ok(_) => Err("a revoked key opened a stream".to_owned()),
        Err(_) => Ok(()),
    }
}

/// I3: of two users of one key the server knows within two reconnects.
async fn a_copied_key_is_noticed(site: &Site<'_>, seed: u8) -> Result<(), Broken> {
    let mut original = WireNode::new(seed);
    let mut copy = original.copied();
    let mut shown = None;
    for user in 0..3 {
        let node = if user == 1 { &mut copy } else { &mut original };
        let claim = Claim { session: shown, ..Claim::default() };
        let mut stream = node.open(&site.url(), claim).await.map_err(in_words)?;
        // Both know the number of the original's first stream, and the copy keeps its own.
        shown.get_or_insert(stream.welcome.session);
        let known = node.acked();
        assert_eq!(stream.welcome.cursor.sequence.0, known, "nobody is locked out");
        deliver(node, &mut stream, 1).await?;
    }
    let listed = site.listed(&original);
    if listed.contains("contested") { Ok(()) } else { Err(format!("listed as {listed:?}")) }
}

/// I4: a single token lets one node in.
async fn a_token_is_used_once(site: &Site<'_>, seed: u8) -> Result<(), Broken> {
    let address = format!("https://{}", site.server.address);
    let made = site.told(&["join-token", "create", "--tenant", "lab", "--node-address", &address]);
    let join = JoinString::parse(made.trim()).map_err(|error| error.to_string())?;
    let with = |token: &JoinToken| Claim { token: Some(token.clone()), ..Claim::default() };
    let (first, second) = (WireNode::new(seed), WireNode::new(seed + 100));
    let tenant_of = |stream: &WireStream| stream.welcome.tenant.to_string();
    let joined = first.open(&site.url(), with(&join.token)).await.map_err(in_words)?;
    assert_eq!(tenant_of(&joined), "lab");
    match second.open(&site.url(), with(&join.token)).await {
        Ok(_) => Err("a used token let a second node in".to_owned()),
        Err(status) if status.code() == tonic::Code::Unauthenticated => Ok(()),
        Err(status) => Err(in_words(status)),
    }
}

/// C1: what was recorded under a clock that is known to be wrong is a gap, and never measured.
async fn a_wrong_clock_measures_nothing(site: &Site<'_>, seed: u8) -> Result<(), Broken> {
    let mut node = WireNode::new(seed).with_clock(10_000, 5);
    let mut stream = node.open(&site.url(), Claim::default()).await.map_err(in_words)?;
    deliver(&mut node, &mut stream, 22).await?;
    let page = format!("/nodes/{}/node.json", node.id());
    let (measured_ms, invalid_ms) = eventually("the open hour", || {
        let page = tokio::task::block_in_place(|| site.server.json(&page));
        let gpu = page["gpus"].get(0)?;
        let seen = (cells(gpu, "measured_ms"), cells(gpu, "gaps/clock_invalid"));
        (seen.0 + seen.1 > 0).then_some(seen)
    });
    if measured_ms == 0 && invalid_ms > 0 {
        return Ok(());
    }
    Err(format!("{measured_ms} ms count as measured, {invalid_ms} ms do not"))
}
