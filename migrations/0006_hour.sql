set local role leasewatch_owner;

-- Queue of stage 5, written in the transaction that stores segments.
create table hour_work (
    tenant_id int not null,
    node_id int not null,
    hour int not null,
    reason smallint not null check (reason between 1 and 3),
    primary key (tenant_id, node_id, hour),
    foreign key (tenant_id, node_id) references node
);
comment on column hour_work.reason is '1 data arrived; 2 the hour ended; 3 asked for again';
select leasewatch_protect('hour_work');
grant select, insert on hour_work to leasewatch_ingest;
grant select, insert, delete on hour_work to leasewatch_worker;
-- `on conflict do update` locks a row that waits already, and `for update skip locked` asks for the
-- right to update; no column that matters is given away.
grant update (reason) on hour_work to leasewatch_ingest, leasewatch_worker;

create table hour_record (
    tenant_id int not null,
    node_id int not null,
    slot_no smallint not null,
    hour int not null,
    gpu_uuid text not null,
    revision int not null check (revision >= 1),
    state smallint not null check (state in (1, 2)),
    origin text not null check (origin in ('measured', 'simulated', 'imported')),
    enrolled_ms int not null check (enrolled_ms between 0 and 3600000),
    measured_ms int not null check (measured_ms between 0 and enrolled_ms),
    busy_pct_ms bigint not null check (busy_pct_ms between 0 and measured_ms::bigint * 100),
    body bytea not null,
    hash bytea not null check (octet_length(hash) = 32),
    previous_hash bytea check (octet_length(previous_hash) = 32),
    written_at bigint not null,
    primary key (tenant_id, node_id, slot_no, hour, gpu_uuid, revision),
    foreign key (tenant_id, node_id, slot_no) references slot,
    check ((previous_hash is null) = (revision = 1))
) partition by range (hour);
comment on column hour_record.state is '1 provisional; 2 sealed';
comment on column hour_record.busy_pct_ms is 'sum of percent times milliseconds over the histogram';
comment on column hour_record.body is 'packed record of core::metering';
comment on column hour_record.hash is 'hash of the hour statement';
comment on column hour_record.previous_hash is 'hash of the revision before; null at revision 1';
create index hour_record_provisional on hour_record (hour) where state = 1;
select leasewatch_protect('hour_record');
grant insert, update, delete on hour_record to leasewatch_worker;

-- A policy would hide sealed rows from an update, and nobody would notice that nothing happened.
-- The trigger says so, to every role. Only the owner's own functions may delete (demo removal).
create function leasewatch_keep_sealed() returns trigger
language plpgsql
as $$
begin
    if old.state = 2 and (tg_op = 'UPDATE' or current_user <> 'leasewatch_owner') then
        raise exception 'hour % of node % slot % revision % is sealed',
            old.hour, old.node_id, old.slot_no, old.revision using errcode = 'LW001';
    end if;
    return case when tg_op = 'UPDATE' then new else old end;
end
$$;
create trigger keep_sealed before update or delete on hour_record
    for each row execute function leasewatch_keep_sealed();

create table hour_profile (
    tenant_id int not null,
    node_id int not null,
    slot_no smallint not null,
    hour int not null,
    gpu_uuid text not null,
    body bytea not null,
    primary key (tenant_id, node_id, slot_no, hour, gpu_uuid),
    foreign key (tenant_id, node_id, slot_no) references slot
) partition by range (hour);
comment on column hour_profile.body is 'minute profile of core::metering';
select leasewatch_protect('hour_profile');
grant insert, update, delete on hour_profile to leasewatch_worker;

-- For people and Grafana. security_invoker: the reader's policies hold, not the owner's.
create view hour_v with (security_invoker = true) as
select h.tenant_id, t.slug as tenant, p.slug as provider, encode(n.public_id, 'hex') as node,
    n.name as node_name, h.slot_no, h.gpu_uuid,
    to_timestamp(h.hour::bigint * 3600) as hour_start, h.revision,
    case h.state when 2 then 'sealed' else 'provisional' end as state, h.origin,
    h.enrolled_ms, h.measured_ms,
    case when h.measured_ms > 0 then h.busy_pct_ms::numeric / h.measured_ms end as busy_pct
from hour_record h
join node n on n.tenant_id = h.tenant_id and n.node_id = h.node_id
join tenant t on t.tenant_id = h.tenant_id
join provider p on p.provider_id = n.provider_id;
comment on column hour_v.busy_pct is 'time-weighted mean; null when nothing was measured';
grant select on hour_v to leasewatch_web, leasewatch_worker, leasewatch_operator;

reset role;
