set local role leasewatch_owner;

-- Who did what. Rows are only ever added: nobody has the right to change or delete one. They leave
-- with their tenant, by the owner's function below, and what it removed stands here as an entry of
-- no tenant.
create table audit_entry (
    tenant_id int references tenant,
    entry_id bigint generated always as identity,
    at bigint not null,
    user_id int references app_user,
    user_name text check (length(user_name) between 1 and 64),
    way text not null check (way in ('session', 'token', 'command', 'no_users', 'outside')),
    action text not null check (action ~ '^[a-z_]{1,40}$'),
    object text not null check (length(object) <= 200),
    detail json not null check (json_typeof(detail) = 'object' and length(detail::text) <= 4000),
    address text check (length(address) <= 64),
    -- No primary key, whose columns could not be null.
    unique nulls not distinct (tenant_id, entry_id),
    check ((user_id is null) = (user_name is null)),
    check ((way in ('session', 'token')) = (user_id is not null))
);
comment on table audit_entry is 'who did what, in the transaction that did it';
comment on column audit_entry.tenant_id is 'whose; null for what is no tenant''s: users, tenants, signing in';
comment on column audit_entry.at is 'ms of the server clock';
comment on column audit_entry.user_name is 'at that time; null where nobody was signed in';
comment on column audit_entry.way is 'session or token of the user; the command line; a page while there are no users; somebody outside';
comment on column audit_entry.action is 'store::audit::Action';
comment on column audit_entry.object is 'what it was done to, for people; clean text';
comment on column audit_entry.detail is 'names and texts, none of them secret';
comment on column audit_entry.address is 'where the request came from; null for the command line';
create index audit_entry_time on audit_entry (at);
select leasewatch_protect('audit_entry');
create policy web_add on audit_entry for insert to leasewatch_web
    with check (tenant_id = nullif(current_setting('leasewatch.tenant', true), '')::int);
create policy auth_add on audit_entry for insert to leasewatch_auth with check (true);
grant insert on audit_entry to leasewatch_web, leasewatch_auth, leasewatch_ingest, leasewatch_worker;

-- Tenants are made and named by those who look after users.
create policy auth_make on tenant for insert to leasewatch_auth with check (true);
create policy auth_rename on tenant for update to leasewatch_auth using (true) with check (true);
grant insert, update (name) on tenant to leasewatch_auth;

-- Tables with rows of tenants, in an order in which they can be emptied: a table comes when none is
-- left that points at it. The tenant itself, by whose name removals are asked for, is the last.
create function leasewatch_tenant_tables() returns setof text
language plpgsql stable
set search_path = pg_catalog, public, pg_temp
as $$
declare
    waiting oid[] := array(
        select c.oid from pg_class c
        join pg_attribute t on t.attrelid = c.oid and t.attname = 'tenant_id'
        where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
            and c.relname <> 'tenant'
    );
    free oid[];
begin
    while cardinality(waiting) > 0 loop
        free := array(
            select w from unnest(waiting) w where not exists (
                select from pg_constraint f where f.contype = 'f' and f.confrelid = w
                    and f.conrelid <> w and f.conrelid = any (waiting)
            )
        );
        if cardinality(free) = 0 then
            raise exception 'tables point at each other in a circle: %', waiting::regclass[];
        end if;
        return query select c.relname::text from pg_class c where c.oid = any (free) order by 1;
        waiting := array(select w from unnest(waiting) w where w <> all (free));
    end loop;
    return next 'tenant';
end
$$;
revoke all on function leasewatch_tenant_tables() from public;
grant execute on function leasewatch_tenant_tables() to leasewatch_web, leasewatch_worker, leasewatch_auth;

-- Empties one table of a tenant's rows, sealed ones too; returns how many there were. Whoever calls
-- it names the tenant by number and by slug, so that no number alone is enough. Refuses while one of
-- its nodes is connected with a key that is good.
create function leasewatch_remove_tenant_rows(tenant int, named text, target text) returns bigint
language plpgsql
security definer
set search_path = pg_catalog, public, pg_temp
as $$
declare
    removed bigint;
begin
    if not exists (select from tenant t where t.tenant_id = tenant and t.slug = named) then
        raise exception 'tenant % is not named %', tenant, named using errcode = 'LW004';
    end if;
    if not exists (select from leasewatch_tenant_tables() known where known = target) then
        raise exception '% holds no rows of tenants', target using errcode = 'LW004';
    end if;
    if exists (
        select from node_session s join node_key k on k.tenant_id = s.tenant_id and k.node_id = s.node_id
        where s.tenant_id = tenant and s.closed_at is null and k.revoked_at is null
    ) then
        raise exception 'nodes of tenant % are connected', named using errcode = 'LW005';
    end if;
    execute format('delete from %I where tenant_id = $1', target) using tenant;
    get diagnostics removed = row_count;
    return removed;
end
$$;
revoke all on function leasewatch_remove_tenant_rows(int, text, text) from public;
grant execute on function leasewatch_remove_tenant_rows(int, text, text) to leasewatch_worker;

reset role;
