set local role leasewatch_owner;

-- Makes a table with a tenant_id readable for the web role within one tenant only. What the other
-- roles may do is said by grants; their policies let every row through.
create function leasewatch_protect(target regclass) returns void
language plpgsql
as $$
begin
    execute format('alter table %s enable row level security', target);
    execute format('alter table %s force row level security', target);
    execute format('create policy owner_all on %s to leasewatch_owner using (true) with check (true)', target);
    execute format(
        'create policy web_tenant on %s for select to leasewatch_web using '
        '(tenant_id = nullif(current_setting(''leasewatch.tenant'', true), '''')::int)',
        target
    );
    execute format('create policy ingest_all on %s to leasewatch_ingest using (true) with check (true)', target);
    execute format('create policy worker_all on %s to leasewatch_worker using (true) with check (true)', target);
    execute format('create policy operator_read on %s for select to leasewatch_operator using (true)', target);
    execute format('grant select on %s to leasewatch_web, leasewatch_worker, leasewatch_operator', target);
end
$$;
revoke all on function leasewatch_protect(regclass) from public;

reset role;
