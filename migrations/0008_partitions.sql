set local role leasewatch_owner;

-- Makes the partition `[lower, upper)` of a table if it is missing, and keeps everybody but the
-- owner from naming it: a partition has no policies, so a grant on it would be a way around them.
create function leasewatch_make_partition(parent regclass, suffix text, lower bigint, upper bigint)
returns int
language plpgsql
as $$
declare
    name constant text := parent::text || suffix;
begin
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
revoke all on function leasewatch_make_partition(regclass, text, bigint, bigint) from public;

-- Makes what rows of `[from_ms, to_ms)` need: days of segments and blocks, months of events and
-- hours. At most 100 days a call, since each new table holds its locks until commit; call it in a
-- transaction of its own. Returns how many partitions were made.
create function leasewatch_ensure_partitions(from_ms bigint, to_ms bigint) returns int
language plpgsql
security definer
set search_path = pg_catalog, public, pg_temp
as $$
declare
    first_day constant bigint := from_ms / 86400000;
    last_day constant bigint := (to_ms - 1) / 86400000;
    lower_at bigint;
    upper_at bigint;
    month date;
    lower_hour bigint;
    upper_hour bigint;
    suffix text;
    made int := 0;
begin
    if from_ms < 946684800000 or to_ms > 7258118400000 or to_ms <= from_ms then
        raise exception 'partitions are made for times between 2000 and 2200 only'
            using errcode = 'LW002';
    end if;
    if last_day - first_day >= 100 then
        raise exception 'at most 100 days a call, asked for %', last_day - first_day + 1
            using errcode = 'LW002';
    end if;
    for day in first_day .. last_day loop
        suffix := to_char(date '1970-01-01' + day::int, '"_d"YYYYMMDD');
        lower_at := day * 86400000::bigint;
        upper_at := lower_at + 86400000;
        made := made
            + leasewatch_make_partition('segment', suffix, lower_at, upper_at)
            + leasewatch_make_partition('segment_block', suffix, lower_at, upper_at);
    end loop;
    month := date_trunc('month', date '1970-01-01' + first_day::int)::date;
    while month <= date '1970-01-01' + last_day::int loop
        suffix := to_char(month, '"_m"YYYYMM');
        lower_hour := (month - date '1970-01-01') * 24;
        upper_hour := ((month + interval '1 month')::date - date '1970-01-01') * 24;
        made := made
            + leasewatch_make_partition('event', suffix, lower_hour * 3600000, upper_hour * 3600000)
            + leasewatch_make_partition('hour_record', suffix, lower_hour, upper_hour)
            + leasewatch_make_partition('hour_profile', suffix, lower_hour, upper_hour);
        month := (month + interval '1 month')::date;
    end loop;
    return made;
end
$$;
revoke all on function leasewatch_ensure_partitions(bigint, bigint) from public;
grant execute on function leasewatch_ensure_partitions(bigint, bigint)
    to leasewatch_ingest, leasewatch_worker;

reset role;
