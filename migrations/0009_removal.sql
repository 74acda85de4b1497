set local role leasewatch_owner;

-- Takes a demo fleet away: every node of a tenant with everything that hangs on it. Refuses as soon
-- as one of them is not simulated, so that no measured or imported fact can leave this way.
create function leasewatch_remove_simulated(tenant int) returns int
language plpgsql
security definer
set search_path = pg_catalog, public, pg_temp
as $$
declare
    target text;
    removed int;
begin
    if exists (select from node where tenant_id = tenant and origin <> 'simulated') then
        raise exception 'tenant % has nodes that are not simulated', tenant using errcode = 'LW003';
    end if;
    foreach target in array array[
        'hour_profile', 'hour_record', 'hour_work', 'event', 'segment_block', 'segment',
        'dropped_range', 'equivocation', 'chain_cursor', 'node_session', 'gpu', 'slot', 'node_key'
    ] loop
        execute format('delete from %I where tenant_id = $1', target) using tenant;
    end loop;
    delete from node where tenant_id = tenant;
    get diagnostics removed = row_count;
    return removed;
end
$$;
revoke all on function leasewatch_remove_simulated(int) from public;
grant execute on function leasewatch_remove_simulated(int) to leasewatch_worker;

reset role;
