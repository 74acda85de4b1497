//! Route patterns for the router; `{node}` is a node's id.

/// The overview.
pub const OVERVIEW: &str = "/";
/// The overview's view struct.
pub const OVERVIEW_JSON: &str = "/overview.json";
/// A node.
pub const NODE: &str = "/nodes/{node}";
/// A node's view struct.
pub const NODE_JSON: &str = "/nodes/{node}/node.json";
/// Where a node's keys are revoked.
pub const NODE_REVOKE: &str = "/nodes/{node}/revoke";
/// A GPU of a node; `{slot}` is its number there.
pub const GPU: &str = "/nodes/{node}/gpus/{slot}";
/// A GPU's view struct.
pub const GPU_JSON: &str = "/nodes/{node}/gpus/{slot}/gpu.json";
/// The series of a GPU's page as CSV; the query is the page's.
pub const READINGS_CSV: &str = "/nodes/{node}/gpus/{slot}/readings.csv";
/// The form that uploads an old log, and where it is sent.
pub const IMPORT: &str = "/import";
/// One import.
pub const IMPORT_RUN: &str = "/imports/{import}";
/// An import's view struct.
pub const IMPORT_RUN_JSON: &str = "/imports/{import}/import.json";
/// Hour records as CSV; query `from`, `to` (local dates, both inside), `tz`, `node`, `bom`.
pub const HOURS_CSV: &str = "/hours.csv";
/// Live values as server-sent events; query `lang`.
pub const LIVE: &str = "/live.sse";
/// Where somebody says who they are, and where that is sent.
pub const SIGN_IN: &str = "/sign-in";
/// Where a session is ended.
pub const SIGN_OUT: &str = "/sign-out";
/// An address that works once; `{secret}` is its secret.
pub const LINK: &str = "/link/{secret}";
/// A user's own page.
pub const ACCOUNT: &str = "/account";
/// Where a new password is sent.
pub const ACCOUNT_PASSWORD: &str = "/account/password";
/// Where a language is chosen.
pub const ACCOUNT_LANGUAGE: &str = "/account/language";
/// Where a session of one's own is ended.
pub const ACCOUNT_SESSION: &str = "/account/session";
/// Where a token is made.
pub const ACCOUNT_TOKEN: &str = "/account/token";
/// Where a token is revoked.
pub const ACCOUNT_TOKEN_REVOKE: &str = "/account/token/revoke";
/// Who there is, and where one of them is changed.
pub const USERS: &str = "/settings/users";
/// Where an invitation is made.
pub const USERS_INVITE: &str = "/settings/users/invite";
/// Which tenants there are, and where one is made.
pub const TENANTS: &str = "/settings/tenants";
/// Their view struct.
pub const TENANTS_JSON: &str = "/settings/tenants.json";
/// Where one gets another name.
pub const TENANT_RENAME: &str = "/settings/tenants/rename";
/// Where one is removed.
pub const TENANT_REMOVE: &str = "/settings/tenants/remove";
/// Everything of one; `{tenant}` is its public name.
pub const TENANT_EXPORT: &str = "/settings/tenants/{tenant}/export.zip";
/// Who did what; query `action`, `from`, `to`, `before`.
pub const AUDIT: &str = "/settings/audit";
/// Its view struct.
pub const AUDIT_JSON: &str = "/settings/audit.json";
/// The same as CSV, whole.
pub const AUDIT_CSV: &str = "/settings/audit.csv";
/// Where the money goes; query `month`, `group`, `what_if`.
pub const COSTS: &str = "/costs";
/// The page's view struct.
pub const COSTS_JSON: &str = "/costs.json";
/// The same by lease and day as CSV.
pub const COSTS_CSV: &str = "/costs.csv";
/// Where join strings are made.
pub const ENROLL: &str = "/enroll";
/// Who joined with a token; `{tenant}` is a public name, `{token}` a number.
pub const ENROLL_TOKEN: &str = "/enroll/{tenant}/{token}";
/// Says when a token's page is to be read again, as server-sent events.
pub const ENROLL_EVENTS: &str = "/enroll/{tenant}/{token}/live.sse";
/// Where a token is taken back.
pub const ENROLL_REVOKE: &str = "/enroll/revoke";
/// Leases.
pub const LEASES: &str = "/leases";
/// Their view struct.
pub const LEASES_JSON: &str = "/leases.json";
/// The same as CSV; the query is the page's.
pub const LEASES_CSV: &str = "/leases.csv";
/// The form of a new lease, and where it is sent.
pub const LEASE_NEW: &str = "/leases/new";
/// Where tables of leases are sent.
pub const LEASES_IMPORT: &str = "/leases/import";
/// A lease; `{tenant}` and `{lease}` are public names.
pub const LEASE: &str = "/leases/{tenant}/{lease}";
/// A lease's view struct.
pub const LEASE_JSON: &str = "/leases/{tenant}/{lease}/lease.json";
/// A month of a lease as a document to hand over; query `month`.
pub const LEASE_REPORT_PDF: &str = "/leases/{tenant}/{lease}/report.pdf";
/// The same as one HTML file.
pub const LEASE_REPORT_HTML: &str = "/leases/{tenant}/{lease}/report.html";
/// The form of its terms, and where it is sent.
pub const LEASE_EDIT: &str = "/leases/{tenant}/{lease}/edit";
/// Where GPUs are assigned to it.
pub const LEASE_ASSIGN: &str = "/leases/{tenant}/{lease}/assign";
/// Where an assignment is ended or withdrawn.
pub const LEASE_ASSIGNMENT: &str = "/leases/{tenant}/{lease}/assignment";
/// Where a billing session is added, ended or withdrawn.
pub const LEASE_SESSION: &str = "/leases/{tenant}/{lease}/session";
/// Where a claim is drafted from a verdict.
pub const LEASE_CLAIM: &str = "/leases/{tenant}/{lease}/claim";
/// Claims.
pub const CLAIMS: &str = "/claims";
/// Their view struct.
pub const CLAIMS_JSON: &str = "/claims.json";
/// The same as CSV.
pub const CLAIMS_CSV: &str = "/claims.csv";
/// A claim; `{claim}` is its number.
pub const CLAIM: &str = "/claims/{claim}";
/// A claim's view struct.
pub const CLAIM_JSON: &str = "/claims/{claim}/claim.json";
/// Its text in both languages.
pub const CLAIM_TEXT: &str = "/claims/{claim}/claim.txt";
/// Where a step of it is written down.
pub const CLAIM_STEP: &str = "/claims/{claim}/step";
/// Where a program tells billing sessions of a lease.
pub const LEASE_SESSIONS_JSON: &str = "/leases/{tenant}/{lease}/sessions.json";
/// Where the weekly rule of a lease is changed.
pub const LEASE_SCHEDULE: &str = "/leases/{tenant}/{lease}/schedule";
/// Bills.
pub const BILLS: &str = "/bills";
/// Their view struct.
pub const BILLS_JSON: &str = "/bills.json";
/// The same as CSV.
pub const BILLS_CSV: &str = "/bills.csv";
/// Where a bill is sent.
pub const BILLS_IMPORT: &str = "/bills/import";
/// A bill; `{tenant}` is a public name, `{bill}` a number.
pub const BILL: &str = "/bills/{tenant}/{bill}";
/// A bill's view struct.
pub const BILL_JSON: &str = "/bills/{tenant}/{bill}/bill.json";
/// Its differences as CSV.
pub const BILL_CSV: &str = "/bills/{tenant}/{bill}/bill.csv";
/// Where a bill that was imported wrongly is withdrawn.
pub const BILL_WITHDRAW: &str = "/bills/{tenant}/{bill}/withdraw";
/// Price tables, and where one is sent; query `q` is a GPU.
pub const PRICES: &str = "/prices";
/// The view struct.
pub const PRICES_JSON: &str = "/prices.json";
/// The offers as CSV.
pub const PRICES_CSV: &str = "/prices.csv";
/// Where a price table that was imported wrongly is withdrawn.
pub const PRICES_WITHDRAW: &str = "/prices/withdraw";
/// SLA profiles and own contracts, and where one is sent; query `q` is `tenant/name`.
pub const CONTRACTS: &str = "/contracts";
/// Their view struct.
pub const CONTRACTS_JSON: &str = "/contracts.json";
/// What people told about a lease, and where they tell it.
pub const LEASE_TOLD: &str = "/leases/{tenant}/{lease}/told";
/// Its view struct.
pub const LEASE_TOLD_JSON: &str = "/leases/{tenant}/{lease}/told.json";
/// The form of a node's labels, and where it is sent.
pub const NODE_LABELS: &str = "/nodes/{node}/labels";
/// The script that installs an agent.
pub const INSTALL: &str = "/install.sh";
/// An agent; `{digest}` is the SHA-256 of its file.
pub const AGENT: &str = "/agents/{digest}";
/// Join tokens for programs.
pub const JOIN_TOKENS: &str = "/join-tokens.json";
/// Where programs take one back.
pub const JOIN_TOKENS_REVOKE: &str = "/join-tokens/revoke.json";
/// A file of [`crate::assets`].
pub const ASSET: &str = "/assets/{file}";
