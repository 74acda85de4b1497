//! Files that pages refer to; their names carry their hash, so they never change.

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

pub(super) async fn file(Path(name): Path<String>) -> Response {
    let Some(file) = leasewatch_web::assets::find(&name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, file.content_type),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    (headers, file.bytes.into_owned()).into_response()
}
