//! What nodes install: the script, and agents by their SHA-256. For everybody: none of it is secret,
//! and whoever asks has been told what it must be.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::{self, Stream};
use leasewatch_core::id::Hash;
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;
use tokio::task::spawn_blocking;

use super::Http;
use crate::installer::Installer;

const CHUNK_BYTES: u64 = 65_536;

/// What there is to install; what is wrong otherwise stands in the log, for it names folders.
pub(super) async fn current(http: &Http) -> Option<Arc<Installer>> {
    let installers = http.installers.clone();
    match spawn_blocking(move || installers.current()).await {
        Ok(Ok(installer)) => Some(installer),
        Ok(Err(error)) => {
            tracing::warn!(%error, "there are no agents to install");
            None
        }
        Err(error) => {
            tracing::error!(%error, "the agents could not be looked at");
            None
        }
    }
}

/// A shell that is given the answer by mistake says why it does nothing.
fn nothing() -> Response {
    let text = "echo 'this server has no agents to install; its log says why' >&2; exit 1\n";
    (StatusCode::NOT_FOUND, text).into_response()
}

pub(super) async fn script(State(http): State<Http>) -> Response {
    let Some(installer) = current(&http).await else { return nothing() };
    let headers =
        [(CONTENT_TYPE, "text/x-shellscript; charset=utf-8"), (CACHE_CONTROL, "no-cache")];
    (headers, installer.script.clone()).into_response()
}

pub(super) async fn agent(State(http): State<Http>, Path(digest): Path<String>) -> Response {
    let Ok(digest) = digest.parse::<Hash>() else { return StatusCode::NOT_FOUND.into_response() };
    let Some(installer) = current(&http).await else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let opened = spawn_blocking(move || {
        let opened = installer.open(&digest)?;
        Ok::<_, io::Error>(opened.map(|(agent, file)| (agent.name.clone(), agent.bytes, file)))
    });
    match opened.await.unwrap_or_else(|error| Err(io::Error::other(error))) {
        Ok(Some((name, bytes, file))) => whole(&name, bytes, File::from_std(file)),
        Ok(None) => StatusCode::NOT_FOUND.into_response(),
        Err(error) => {
            tracing::warn!(%error, "an agent is not handed out");
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
    }
}

fn whole(name: &str, bytes: u64, file: File) -> Response {
    let headers: [(HeaderName, String); 4] = [
        (CONTENT_TYPE, "application/octet-stream".to_owned()),
        (CONTENT_LENGTH, bytes.to_string()),
        (CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
        // The address is the content's.
        (CACHE_CONTROL, "public, max-age=31536000, immutable".to_owned()),
    ];
    (headers, Body::from_stream(chunks(file, bytes))).into_response()
}

fn chunks(file: File, bytes: u64) -> impl Stream<Item = io::Result<Vec<u8>>> {
    stream::try_unfold((file, bytes), |(mut file, left)| async move {
        let size = left.min(CHUNK_BYTES);
        if size == 0 {
            return Ok(None);
        }
        let mut chunk = vec![0; usize::try_from(size).unwrap_or(0)];
        file.read_exact(&mut chunk).await?;
        Ok(Some((chunk, (file, left - size))))
    })
}
