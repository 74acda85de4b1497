//! Rules of the schema, read from the catalogue.

#![expect(clippy::unwrap_used, reason = "what does not work here fails the test")]

use crate::fixture::{connect, texts};
use crate::support;

/// Asserts that a query that looks for offenders finds none.
async fn no_offenders(what: &str, sql: impl AsRef<str>) {
    let test = support::database().await;
    // Partitions of one day and month, so that rules about them have something to look at.
    let mut login = connect(&test.url).await;
    let ensure = "begin; set local role leasewatch_worker; select leasewatch_ensure_partitions(1785240000000, 1785240000001); commit";
    crate::fixture::run(&mut login, ensure).await.unwrap();
    let mut admin = connect(&test.admin_url).await;
    let found = texts(&mut admin, sql.as_ref()).await;
    assert!(found.is_empty(), "{what}: {found:?}");
}

#[tokio::test]
async fn tenant_id_leads_each_primary_and_foreign_key_of_a_tenants_table() {
    no_offenders(
        "keys that do not begin with tenant_id",
        "select c.conrelid::regclass || '.' || c.conname from pg_constraint c
        join pg_attribute t on t.attrelid = c.conrelid and t.attname = 'tenant_id'
        where c.contype in ('p', 'f') and c.connamespace = 'public'::regnamespace
            and c.conkey[1] <> t.attnum
            -- A key that points at a global table, such as provider, cannot hold a tenant.
            and (c.contype = 'p' or exists (select from pg_attribute
                where attrelid = c.confrelid and attname = 'tenant_id'))",
    )
    .await;
}

#[tokio::test]
async fn each_table_with_a_tenant_forces_row_level_security_and_has_its_policies() {
    no_offenders(
        "tables that are not protected",
        "select c.relname::text from pg_class c
        join pg_attribute t on t.attrelid = c.oid and t.attname = 'tenant_id'
        where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
            and not c.relispartition
            and not (c.relrowsecurity and c.relforcerowsecurity and exists (
                select from pg_policy p where p.polrelid = c.oid and p.polname = 'web_tenant'
                and pg_get_expr(p.polqual, c.oid) like '%tenant_id = %leasewatch.tenant%'))",
    )
    .await;
}

#[tokio::test]
async fn no_policy_of_the_web_role_lets_everything_through() {
    no_offenders(
        "policies",
        "select polrelid::regclass || '.' || polname from pg_policy p
        where 0 = any (polroles) or 'leasewatch_web'::regrole = any (polroles) and not (
            -- Reading and choosing rows to change goes by the one, what a row becomes by the other.
            (polcmd = 'a' or polqual is not null and pg_get_expr(polqual, polrelid) = EXPECTED)
            and (polcmd in ('r', 'd') or polwithcheck is null and polcmd <> 'a'
                or pg_get_expr(polwithcheck, polrelid) = EXPECTED))"
            .replace("EXPECTED", WITHIN),
    )
    .await;
}

/// The only condition of the web role.
const WITHIN: &str = "'(tenant_id = (NULLIF(current_setting(''leasewatch.tenant''::text, true), ''''::text))::integer)'";

#[tokio::test]
async fn each_table_with_a_tenant_has_a_key_that_begins_with_it() {
    no_offenders(
        "tables whose rows no key names within their tenant",
        "select c.relname::text from pg_class c
        join pg_attribute t on t.attrelid = c.oid and t.attname = 'tenant_id'
        where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
            and not exists (select from pg_index i where i.indrelid = c.oid and i.indisunique
                and i.indkey[0] = t.attnum)",
    )
    .await;
}

#[tokio::test]
async fn pages_can_call_no_function_that_runs_as_the_owner() {
    no_offenders(
        "functions with the owner's rights that a page can call",
        "select proname::text from pg_proc p where pronamespace = 'public'::regnamespace and prosecdef
        and (has_function_privilege('leasewatch_web', p.oid, 'execute')
            or has_function_privilege('leasewatch_operator', p.oid, 'execute')
            or has_function_privilege('leasewatch_login', p.oid, 'execute'))",
    )
    .await;
}

#[tokio::test]
async fn a_table_without_a_tenant_that_pages_read_is_known_to_hold_none() {
    no_offenders(
        "tables without tenant_id that pages can read",
        "select c.relname::text from pg_class c
        where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
            and has_table_privilege('leasewatch_web', c.oid, 'select')
            and not exists (select from pg_attribute where attrelid = c.oid and attname = 'tenant_id')
            -- Global rows of the operator: who supplies nodes, what a provider is like and what it
            -- asks for, as published; and the server's own times.
            and c.relname not in ('provider', 'provider_fact', 'price_table', 'price_offer',
                'price_refused', 'server_liveness')",
    )
    .await;
}

#[tokio::test]
async fn partitions_carry_no_grants() {
    no_offenders(
        "partitions with grants",
        "select c.relname::text from pg_class c, aclexplode(c.relacl) a
        where c.relispartition and a.grantee <> c.relowner",
    )
    .await;
}

#[tokio::test]
async fn views_read_as_their_reader() {
    no_offenders(
        "views without security_invoker",
        "select relname::text from pg_class where relnamespace = 'public'::regnamespace
        and relkind in ('v', 'm') and not coalesce('security_invoker=true' = any (reloptions), false)",
    )
    .await;
}

#[tokio::test]
async fn no_foreign_key_points_at_a_partitioned_table() {
    no_offenders(
        "foreign keys",
        "select c.conname::text from pg_constraint c join pg_class t on t.oid = c.confrelid
        where c.contype = 'f' and (t.relkind = 'p' or t.relispartition)",
    )
    .await;
}

#[tokio::test]
async fn functions_of_the_owner_are_closed_to_the_public_and_have_a_fixed_path() {
    no_offenders(
        "functions",
        "select proname::text from pg_proc p where pronamespace = 'public'::regnamespace
        and (prosecdef and proconfig is null
            or prorettype <> 'trigger'::regtype and has_function_privilege('public', p.oid, 'execute'))",
    )
    .await;
}

#[tokio::test]
async fn the_owner_owns_everything_and_no_role_of_ours_escapes_policies() {
    no_offenders(
        "tables of somebody else",
        "select relname::text from pg_class where relnamespace = 'public'::regnamespace
        and relkind in ('r', 'p', 'v') and relname <> '_sqlx_migrations'
        and relowner <> 'leasewatch_owner'::regrole",
    )
    .await;
    no_offenders(
        "roles",
        "select rolname::text from pg_roles where rolname like 'leasewatch\\_%'
        and (rolsuper or rolbypassrls or rolinherit or rolcreaterole or rolcreatedb
            or rolcanlogin <> (rolname = 'leasewatch_login'))",
    )
    .await;
}
