//! Rules of this repository that no compiler checks: who may use whom, sizes, names, and that the
//! documents say what the code does.
//!
//! Each test is one rule and reports every violation as `file:line: what to do`. It reads the
//! tree with `std::fs` and starts nothing. What rustc or clippy can check is not repeated here.

mod code;
mod crates;
mod docs;
mod modules;
mod names;
mod scripts;
mod text;
mod tree;
mod web;
