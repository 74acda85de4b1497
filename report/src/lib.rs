//! Documents to hand over as PDF.
//!
//! The same input gives the same bytes. Reads fonts from the system, nothing else. Not here: what a
//! report says (`leasewatch_web::document`), and who may have it (`server`).

#![forbid(unsafe_code)]
#![deny(missing_docs, clippy::print_stdout)]

pub mod pdf;
