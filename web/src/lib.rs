//! The interface of leasewatch: view structs in, HTML, SVG and CSV out.
//!
//! Pure rendering, complete without JavaScript, in English and Simplified Chinese. Not here: where
//! views come from (`server::http`), any I/O, any clock.

#![forbid(unsafe_code)]
#![deny(missing_docs, clippy::float_arithmetic, clippy::print_stdout)]

pub mod format;
pub mod i18n;
pub mod markup;
pub mod names;
pub mod path;

pub mod account;
pub mod assets;
pub mod chart;
pub mod claim_text;
pub mod context;
pub mod csv;
pub mod deadline;
pub mod document;
pub mod events;
pub mod form;
pub mod live;
pub mod pages;

mod wire;

pub use askama::Error as RenderError;
pub use context::{CONTENT_SECURITY_POLICY, Context, Formula};
pub use i18n::Language;
