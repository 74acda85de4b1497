//! `sqlx::migrate!` reads the migrations when it is expanded; a new file has to expand it again.

fn main() {
    println!("cargo:rerun-if-changed=../migrations");
}
