//! Small forms: read whole, bounded, and with no field that was not asked for.

use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use leasewatch_web::path;
use tokio::time::timeout;

use super::error::Fault;

/// Bytes of a form.
const BYTES_MAX: usize = 16 * 1_024;
/// Longest time for all of them to arrive.
const ARRIVAL: Duration = Duration::from_secs(15);

/// The fields of a form.
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    /// Reads a form that may hold these fields, each once.
    ///
    /// # Errors
    /// [`Fault::TooLarge`]; [`Fault::TooSlow`]; [`Fault::BadRequest`] with the name of a field that is unknown or comes
    /// twice, or `content-type`.
    pub(crate) async fn read(request: Request, known: &[&str]) -> Result<(Parts, Self), Fault> {
        Self::read_within(ARRIVAL, request, (known, &[])).await
    }

    /// The same with `lists`, fields that may come more than once.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(crate) async fn read_lists(
        request: Request,
        known: &[&str],
        lists: &[&str],
    ) -> Result<(Parts, Self), Fault> {
        Self::read_within(ARRIVAL, request, (known, lists)).await
    }

    async fn read_within(
        arrival: Duration,
        request: Request,
        (known, lists): (&[&str], &[&str]),
    ) -> Result<(Parts, Self), Fault> {
        let (parts, body) = request.into_parts();
        let kind = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let kind = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
        if kind != Some("application/x-www-form-urlencoded") {
            return Err(Fault::BadRequest("content-type".to_owned()));
        }
        let bytes = timeout(arrival, to_bytes(body, BYTES_MAX)).await;
        let bytes = bytes.map_err(|_| Fault::TooSlow)?.map_err(|_| Fault::TooLarge)?;
        Ok((parts, Self::parse(&String::from_utf8_lossy(&bytes), known, lists)?))
    }

    fn parse(text: &str, known: &[&str], lists: &[&str]) -> Result<Self, Fault> {
        let mut fields: Vec<(String, String)> = Vec::new();
        for (name, value) in path::pairs(text) {
            let is_twice = fields.iter().any(|(other, _)| *other == name);
            let is_known = !is_twice && known.contains(&name.as_str());
            if !is_known && !lists.contains(&name.as_str()) {
                return Err(Fault::BadRequest(name.chars().take(40).collect()));
            }
            fields.push((name, value));
        }
        Ok(Self(fields))
    }

    /// A field's value; empty when it was not sent.
    pub(crate) fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    /// Every value of a field, in the order in which they came.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let own = self.0.iter().filter(move |(key, _)| key == name);
        own.map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_was_not_asked_for_or_comes_twice_is_refused_by_its_name() {
        let fault = |text: &str| match Fields::parse(text, &["name", "password"], &[]) {
            Err(Fault::BadRequest(name)) => name,
            _ => panic!("{text} was taken"),
        };
        assert_eq!(fault("name=a&password=b&role=admin"), "role");
        assert_eq!(fault("name=a&name=b"), "name");
        assert_eq!(fault(&"x".repeat(100)).len(), 40);
        let text = "name=%E5%90%8D+a&password=%26%3D&gpu=1&gpu=2";
        let fields = Fields::parse(text, &["name", "password"], &["gpu"]);
        let fields = fields.ok().unwrap();
        assert_eq!((fields.get("name"), fields.get("password")), ("名 a", "&="));
        assert_eq!(fields.get("other"), "");
        assert_eq!(fields.all("gpu").collect::<Vec<_>>(), ["1", "2"]);
    }

    #[tokio::test]
    async fn a_form_that_does_not_arrive_is_not_waited_for() {
        let request = |body| {
            let request =
                Request::post("/").header(CONTENT_TYPE, "application/x-www-form-urlencoded");
            request.body(body).unwrap()
        };
        let begun = futures_util::stream::iter([Ok::<_, std::io::Error>("name=a&passw")]);
        let endless = futures_util::StreamExt::chain(begun, futures_util::stream::pending());
        let slow = request(axum::body::Body::from_stream(endless));
        let known = ["name", "password"];
        let patience = Duration::from_millis(10);
        let read = Fields::read_within(patience, slow, (&known, &[])).await;
        assert!(matches!(read, Err(Fault::TooSlow)));
        let whole = request(axum::body::Body::from("name=a&password=b"));
        assert!(Fields::read_within(Duration::from_secs(60), whole, (&known, &[])).await.is_ok());
    }
}
