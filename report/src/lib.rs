//! Documents to hand over: view structs and records in, PDF and workbooks out.
//!
//! The same input gives the same bytes. Reads fonts from the system, nothing else. Not here: what a
//! report says (`leasewatch_web::document`), and who may have it (`server`).

#![forbid(unsafe_code)]
#![deny(missing_docs, clippy::print_stdout)]

pub mod pdf;
pub mod workbook;
