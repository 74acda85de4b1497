//! What is known of hardware before any of it is measured.
//!
//! Facts are compiled in as data files with their sources beside them. An unknown fact is `None`:
//! it is never guessed, because detectors compare readings with it.

pub mod gpu;
