set local role leasewatch_owner;

-- Sums of what a lease had of each node in each hour, written with the judgement of the hour and
-- always whole: what is judged anew is replaced. Pages add them up, so that a month needs no hour
-- record.
create table lease_hour (
    tenant_id int not null,
    lease_id int not null,
    hour int not null,
    node_id int not null,
    contracted_ms bigint not null check (contracted_ms > 0),
    effective_pct_ms bigint not null check (effective_pct_ms >= 0),
    degraded_pct_ms bigint not null check (degraded_pct_ms >= 0),
    waiting_pct_ms bigint not null check (waiting_pct_ms >= 0),
    idle_free_pct_ms bigint not null check (idle_free_pct_ms >= 0),
    idle_held_pct_ms bigint not null check (idle_held_pct_ms >= 0),
    idle_unsplit_pct_ms bigint not null check (idle_unsplit_pct_ms >= 0),
    unavailable_pct_ms bigint not null check (unavailable_pct_ms >= 0),
    unknown_pct_ms bigint not null check (unknown_pct_ms >= 0),
    excluded_pct_ms bigint not null check (excluded_pct_ms >= 0),
    delivered_pct_ms bigint not null check (delivered_pct_ms >= 0),
    healthy_pct_ms bigint not null check (healthy_pct_ms between 0 and delivered_pct_ms),
    phantom_pct_ms bigint not null check (phantom_pct_ms >= 0),
    stall_ms bigint not null check (stall_ms >= 0),
    attributable_ms bigint not null check (attributable_ms >= 0),
    unadjusted_pct_ms bigint not null check (unadjusted_pct_ms >= 0),
    node_ms int not null check (node_ms between 0 and 3600000),
    origin text check (origin in ('measured', 'simulated', 'imported')),
    clocks_mhz int[] not null,
    memory_peaks_mib int[] not null,
    primary key (tenant_id, lease_id, hour, node_id),
    foreign key (tenant_id, lease_id) references lease,
    foreign key (tenant_id, node_id) references node,
    constraint adds_up check (contracted_ms * 100 = effective_pct_ms + degraded_pct_ms
        + waiting_pct_ms + idle_free_pct_ms + idle_held_pct_ms + idle_unsplit_pct_ms
        + unavailable_pct_ms + unknown_pct_ms + excluded_pct_ms)
);
comment on table lease_hour is 'contracted time of a lease, node and hour by what it was used for, all slots together';
comment on column lease_hour.contracted_ms is 'ms of all its slots together';
comment on column lease_hour.effective_pct_ms is 'percent x ms, as all of that name; the parts are core::cost::Part and add up to contracted time';
comment on column lease_hour.delivered_pct_ms is 'measured on a GPU of the model in the contract';
comment on column lease_hour.healthy_pct_ms is 'of it, time without a fatal condition';
comment on column lease_hour.phantom_pct_ms is 'measured as busy, counted as idle_free';
comment on column lease_hour.stall_ms is 'ms that look like a job that hangs';
comment on column lease_hour.attributable_ms is 'ms, at least, throttled for a reason that the provider answers for';
comment on column lease_hour.unadjusted_pct_ms is 'effective time under such a reason whose clock is not known';
comment on column lease_hour.node_ms is 'ms of the slot that was delivered longest';
comment on column lease_hour.origin is 'the least trustworthy of its hour records; null: nothing was measured';
comment on column lease_hour.clocks_mhz is 'by slot, from 0: median SM clock of minutes under full load; null: none';
comment on column lease_hour.memory_peaks_mib is 'by slot, from 0: most memory in use; null: not read';
select leasewatch_protect('lease_hour');
grant insert, delete on lease_hour to leasewatch_worker;

-- What a GPU's clock is compared with over thirty days, without reading its minutes.
alter table hour_profile add column load_clock_mhz int check (load_clock_mhz > 0);
comment on column hour_profile.load_clock_mhz is 'median SM clock of minutes under full load, MHz; null: none, or written before 0028';

-- Hours of a lease in which something is down or excluded are few among those that are not.
create index availability_lost on availability (tenant_id, lease_id, hour)
    where contracted_ms > up_ms + unknown_ms;

-- What was judged before gets its sums.
insert into judge_work (tenant_id, lease_id, from_hour, to_hour, reason)
select tenant_id, lease_id, min(hour), max(hour) + 1, 'asked' from availability
where contracted_ms > 0 group by tenant_id, lease_id
on conflict (tenant_id, lease_id, reason) do update set
    from_hour = least(judge_work.from_hour, excluded.from_hour),
    to_hour = greatest(judge_work.to_hour, excluded.to_hour);

-- A demo fleet goes with everything that hangs on it. Tables are found, not listed, so that none is
-- forgotten; what stays belongs to people and to the tenant, and is listed. A log only grows: what was
-- published of the fleet stays published.
create or replace function leasewatch_remove_simulated(tenant int) returns int
language plpgsql
security definer
set search_path = pg_catalog, public, pg_temp
as $$
declare
    target text;
    removed int := 0;
begin
    if exists (select from node where tenant_id = tenant and origin <> 'simulated') then
        raise exception 'tenant % has nodes that are not simulated', tenant using errcode = 'LW003';
    end if;
    update join_token set lease_id = null where tenant_id = tenant;
    for target in select known from leasewatch_tenant_tables() known where known not in (
        'tenant', 'membership', 'api_token_grant', 'user_link_grant', 'join_token', 'profile', 'audit_entry',
        'log', 'log_leaf', 'log_tile', 'log_minute', 'log_checkpoint'
    ) loop
        execute format('delete from %I where tenant_id = $1', target) using tenant;
        if target = 'node' then
            get diagnostics removed = row_count;
        end if;
    end loop;
    return removed;
end
$$;

reset role;
