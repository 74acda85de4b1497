//! Building view structs, one file a page.

pub(super) mod account;
pub(super) mod audit;
pub(super) mod costs;
pub(super) mod enroll;
pub(super) mod gpu;
pub(super) mod gpus;
pub(super) mod import;
pub(super) mod import_run;
pub(super) mod lease;
pub(super) mod lease_assign;
pub(super) mod lease_form;
pub(super) mod lease_import;
mod lease_judgement;
pub(super) mod leases;
pub(super) mod link;
pub(super) mod node;
pub(super) mod node_labels;
pub(super) mod overview;
mod reliability;
pub(super) mod sign_in;
mod spent;
pub(super) mod tenants;
pub(super) mod users;
