//! The script and the agents that nodes install: for everybody, and never others than were compared.

use axum::http::{Method, header};
use http_body_util::BodyExt as _;
use leasewatch_core::id::Hash;

use super::site::{Ask, Site};

const NAME: &str = "leasewatch-agent-0.1.0-x86_64";

fn put(site: &Site, bytes: &[u8]) -> Hash {
    let (folder, digest) = (site.agent_dir(), Hash::of(bytes));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(NAME), bytes).unwrap();
    std::fs::write(folder.join("SHA256SUMS"), format!("{digest}  {NAME}\n")).unwrap();
    digest
}

#[tokio::test]
async fn agents_are_for_everybody_by_their_sum_and_none_that_was_exchanged() {
    let site = Site::new().await;
    site.operator("ada").await;
    let stranger = Ask::default();
    let (status, body) = site.get(&stranger, "/install.sh").await;
    assert_eq!(status, 404);
    assert!(body.ends_with("exit 1\n") && !body.contains('/'), "{body}");

    // More than one piece of what is read at a time.
    let bytes: Vec<u8> = (0..200_000_u32).map(|at| u8::try_from(at % 251).unwrap()).collect();
    let digest = put(&site, &bytes);
    let (status, script) = site.get(&stranger, "/install.sh").await;
    assert_eq!(status, 200);
    assert!(script.contains(&digest.to_string()) && script.contains("https://watch.example.org"));
    let answer = site.send(&stranger, Method::GET, &format!("/agents/{digest}"), "").await;
    assert_eq!(answer.status(), 200);
    let caching = &answer.headers()[header::CACHE_CONTROL];
    assert_eq!(caching, "public, max-age=31536000, immutable");
    assert_eq!(answer.headers()[header::CONTENT_LENGTH], "200000");
    let received = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(Hash::of(&received), digest);

    std::fs::write(site.agent_dir().join(NAME), b"something else").unwrap();
    for path in ["/install.sh", &format!("/agents/{digest}"), "/agents/none", "/agents/..%2Fx"] {
        assert_eq!(site.get(&stranger, path).await.0, 404, "{path}");
    }
}
