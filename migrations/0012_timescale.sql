-- The second branch of the schema. With the extension `timescaledb` in this database, and as long
-- as they are empty, the tables of raw data become hypertables. It is decided here, once: an
-- extension that comes later changes nothing, and rows that are there stay where they are.

-- Chunks take the grants of their table and none of its policies. Nobody but the owner may look
-- into the schema that they are made in, so nobody but the owner can name one.
do $$
begin
    if exists (select from pg_extension where extname = 'timescaledb') then
        create schema leasewatch_chunk authorization leasewatch_owner;
    end if;
end
$$;

set local role leasewatch_owner;

-- As in 0008, but for a parent that makes its own chunks there is nothing to do.
create or replace function leasewatch_make_partition(parent regclass, suffix text, lower bigint, upper bigint)
returns int
language plpgsql
as $$
declare
    name constant text := parent::text || suffix;
begin
    if (select relkind from pg_class where oid = parent) <> 'p' then
        return 0;
    end if;
    -- Asked of the table, not of to_regclass: its cache may not know what a neighbour just made.
    if exists (select from pg_class where relname = name and relnamespace = 'public'::regnamespace) then
        return 0;
    end if;
    perform pg_advisory_xact_lock(7203991834071);
    if exists (select from pg_class where relname = name and relnamespace = 'public'::regnamespace) then
        return 0;
    end if;
    -- Made beside and attached: `create table .. partition of` would stop readers and writers.
    execute format(
        'create table public.%I (like %s including defaults including constraints including storage)',
        name, parent
    );
    execute format(
        'alter table %s attach partition public.%I for values from (%s) to (%s)',
        parent, name, lower, upper
    );
    execute format(
        'revoke all on public.%I from public, leasewatch_web, leasewatch_ingest, '
        'leasewatch_worker, leasewatch_auth, leasewatch_operator, leasewatch_login', name
    );
    return 1;
end
$$;

-- `create_hypertable` refuses a partitioned table, so each is made again without partitions. What
-- it looks like is read from the table that is there: no column is written down a second time.
do $$
declare
    home text;
    old record;
    columns text;
    statements text[];
    statement text;
begin
    if not exists (select from pg_extension where extname = 'timescaledb') then
        return;
    end if;
    lock table segment, segment_block, event in access exclusive mode;
    if exists (select from segment) or exists (select from segment_block) or exists (select from event) then
        drop schema leasewatch_chunk;
        return;
    end if;
    select nspname into home from pg_extension e join pg_namespace n on n.oid = e.extnamespace
        where extname = 'timescaledb';
    for old in
        select c.oid, c.relname as name, c.relacl, time_column, chunk_ms
        from (values
            ('segment'::regclass, 'ended_at', 86400000::bigint),
            ('segment_block', 'ended_at', 86400000),
            ('event', 'at', 2592000000)
        ) as raw (id, time_column, chunk_ms) join pg_class c on c.oid = raw.id
    loop
        -- Keys and indexes keep their names, so they can be made only when the old table is gone.
        select array_agg(made order by rank, made) into statements from (
            select 1, format('alter table %I add constraint %I %s', old.name, conname, pg_get_constraintdef(oid))
            from pg_constraint where conrelid = old.oid and contype in ('p', 'u', 'f')
            union all
            select 2, pg_get_indexdef(indexrelid) from pg_index where indrelid = old.oid
                and not exists (select from pg_constraint where conindid = indexrelid and conrelid = old.oid)
            union all
            select 3, format('grant %s on %I to %I', privilege_type, old.name, grantee::regrole::text)
            from aclexplode(old.relacl) where grantee <> grantor
        ) as parts (rank, made);
        execute format('create table leasewatch_plain (like %I including all excluding indexes)', old.name);
        execute format('drop table %I', old.name);
        execute format('alter table leasewatch_plain rename to %I', old.name);
        perform leasewatch_protect(old.name::regclass);
        foreach statement in array statements loop
            execute statement;
        end loop;
        -- `pg_stats` shows the values of a table to those who hold a right on it, policies of its
        -- parent or not. Grants on columns are not handed on to chunks.
        select string_agg(quote_ident(attname), ', ') into columns
            from pg_attribute where attrelid = old.name::regclass and attnum > 0;
        execute format('revoke select on %I from leasewatch_web', old.name);
        execute format('grant select (%s) on %I to leasewatch_web', columns, old.name);
        execute format(
            'select from %I.create_hypertable(%L::regclass, %L::name, chunk_time_interval => %s::bigint, '
            'associated_schema_name => ''leasewatch_chunk'', create_default_indexes => false)',
            home, old.name, old.time_column, old.chunk_ms
        );
    end loop;
end
$$;

reset role;
