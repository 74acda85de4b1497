set local role leasewatch_owner;

-- Own contracts. Those that come with the program are files; a tenant's rows stand beside them.
create table profile (
    tenant_id int not null references tenant,
    name text not null check (name ~ '^[a-z0-9-]{1,40}$'),
    version int not null check (version >= 1),
    body text not null check (length(body) between 1 and 65536),
    hash bytea not null check (octet_length(hash) = 32),
    written_at bigint not null,
    written_by text check (length(written_by) between 1 and 64),
    primary key (tenant_id, name, version)
);
comment on table profile is 'an own contract in one of its versions, which never changes';
comment on column profile.body is 'TOML as core::sla::profile reads it';
comment on column profile.hash is 'SHA-256 of the body';
comment on column profile.written_by is 'name of the user then; null: the command line';
select leasewatch_protect('profile');
select leasewatch_writable('profile');
grant insert on profile to leasewatch_web;

-- What a provider announced. It excludes time only when it came early enough; late, it is disputed.
create table notice (
    tenant_id int not null,
    notice_id int generated always as identity,
    lease_id int not null,
    starts_at bigint not null,
    ends_at bigint not null check (ends_at > starts_at),
    received_at bigint not null,
    body text not null check (length(body) between 1 and 8192),
    hash bytea not null check (octet_length(hash) = 32),
    written_at bigint not null,
    written_by text check (length(written_by) between 1 and 64),
    withdrawn_at bigint,
    primary key (tenant_id, notice_id),
    foreign key (tenant_id, lease_id) references lease
);
comment on table notice is 'maintenance that the provider of a lease announced';
comment on column notice.starts_at is 'ms; announced from here';
comment on column notice.received_at is 'ms; when it came; the lead time is starts_at - received_at';
comment on column notice.body is 'the text as it was received';
comment on column notice.hash is 'SHA-256 of the body';
comment on column notice.written_by is 'name of the user then; null: the command line';
comment on column notice.withdrawn_at is 'ms; a row that was wrong stays, and counts no longer';
select leasewatch_protect('notice');
select leasewatch_writable('notice');
grant insert, update (withdrawn_at) on notice to leasewatch_web;

-- The provider's own word for an outage: evidence of class E5.
create table provider_record (
    tenant_id int not null,
    record_id int generated always as identity,
    lease_id int not null,
    starts_at bigint not null,
    ends_at bigint not null check (ends_at > starts_at),
    cause text not null check (cause in ('connectivity', 'disk', 'reboot', 'gpu_lost',
        'gpu_replaced', 'gpu_count', 'hardware', 'fabric', 'throttle')),
    source text not null check (length(source) between 1 and 200),
    body text not null check (length(body) between 1 and 8192),
    hash bytea not null check (octet_length(hash) = 32),
    written_at bigint not null,
    written_by text check (length(written_by) between 1 and 64),
    withdrawn_at bigint,
    primary key (tenant_id, record_id),
    foreign key (tenant_id, lease_id) references lease
);
comment on table provider_record is 'an outage as the provider itself states it: its API, or its incident notice';
comment on column provider_record.cause is 'core::availability::DownCause';
comment on column provider_record.source is 'where it is written: an address, a ticket, an API call';
comment on column provider_record.body is 'the text as it was read';
comment on column provider_record.hash is 'SHA-256 of the body';
comment on column provider_record.written_by is 'name of the user then; null: the command line';
comment on column provider_record.withdrawn_at is 'ms; a row that was wrong stays, and counts no longer';
select leasewatch_protect('provider_record');
select leasewatch_writable('provider_record');
grant insert, update (withdrawn_at) on provider_record to leasewatch_web;

create table tenant_stop (
    tenant_id int not null,
    stop_id int generated always as identity,
    lease_id int not null,
    starts_at bigint not null,
    ends_at bigint not null check (ends_at > starts_at),
    kind text not null check (kind in ('stopped', 'maintenance', 'other')),
    clause text check (clause ~ '^[a-z0-9-]{1,40}$'),
    reason text check (length(reason) between 1 and 200),
    written_at bigint not null,
    written_by text check (length(written_by) between 1 and 64),
    withdrawn_at bigint,
    primary key (tenant_id, stop_id),
    foreign key (tenant_id, lease_id) references lease,
    check ((clause is not null) = (kind = 'other'))
);
comment on table tenant_stop is 'time that the tenant itself takes out of the account';
comment on column tenant_stop.kind is 'stopped: the instance was off; maintenance: the tenant''s own; other: a clause of the profile';
comment on column tenant_stop.clause is 'id of the exclusion in the profile';
comment on column tenant_stop.written_by is 'name of the user then; null: the command line';
comment on column tenant_stop.withdrawn_at is 'ms; a row that was wrong stays, and counts no longer';
select leasewatch_protect('tenant_stop');
select leasewatch_writable('tenant_stop');
grant insert, update (withdrawn_at) on tenant_stop to leasewatch_web;

-- The judgement beside the hour record: what of a slot's contracted hour was up, down, unknown or
-- excluded. Each change is a new revision; nobody may update or delete one. An hour that is no
-- longer contracted gets a revision in which everything is 0.
create table availability (
    tenant_id int not null,
    lease_id int not null,
    node_id int not null,
    slot_no smallint not null check (slot_no >= 0),
    hour int not null,
    revision int not null check (revision >= 1),
    contracted_ms int not null check (contracted_ms between 0 and 3600000),
    up_ms int not null check (up_ms >= 0),
    down_e1_ms int not null check (down_e1_ms >= 0),
    down_e2_ms int not null check (down_e2_ms >= 0),
    down_e3_ms int not null check (down_e3_ms >= 0),
    down_e4_ms int not null check (down_e4_ms >= 0),
    down_e5_ms int not null check (down_e5_ms >= 0),
    unknown_ms int not null check (unknown_ms >= 0),
    excluded_ms int not null check (excluded_ms >= 0),
    grain text not null check (grain in ('exact', 'minute', 'hour')),
    body bytea not null,
    records_hash bytea not null check (octet_length(records_hash) = 32),
    hash bytea not null check (octet_length(hash) = 32),
    previous_hash bytea check (octet_length(previous_hash) = 32),
    reason text not null check (reason in ('hours', 'terms', 'assignment', 'session', 'notice', 'evidence', 'asked')),
    written_at bigint not null,
    primary key (tenant_id, lease_id, node_id, slot_no, hour, revision),
    foreign key (tenant_id, lease_id) references lease,
    foreign key (tenant_id, node_id) references node,
    constraint law_s check (contracted_ms = up_ms + down_e1_ms + down_e2_ms + down_e3_ms
        + down_e4_ms + down_e5_ms + unknown_ms + excluded_ms),
    check ((previous_hash is null) = (revision = 1))
);
comment on table availability is 'states of contracted time of one slot and hour, by revision';
comment on column availability.slot_no is 'a contracted slot that was never seen has no row in slot';
comment on column availability.down_e1_ms is 'down by the strongest class of evidence: E1 signed by a living agent, E2 cut off, E3 another boot, E4 probes, E5 the provider''s record';
comment on column availability.grain is 'how exactly the hour records say where in the hour something happened';
comment on column availability.body is 'exact stretches, packed by store::availability';
comment on column availability.records_hash is 'SHA-256 over the hashes of the hour records that were judged';
comment on column availability.hash is 'SHA-256 over the names, the revision before and the body';
comment on column availability.previous_hash is 'hash of the revision before; null at revision 1';
comment on column availability.reason is 'what changed: hour records, terms, assignments, sessions, notices and stops, evidence';
create index availability_lease_hour on availability (tenant_id, lease_id, hour);
create index availability_down on availability (tenant_id, lease_id)
    where down_e1_ms + down_e2_ms + down_e3_ms + down_e4_ms + down_e5_ms > 0;
select leasewatch_protect('availability');
grant insert on availability to leasewatch_worker;

create table incident (
    tenant_id int not null,
    incident_id int generated always as identity,
    kind text not null check (kind in ('down')),
    lease_id int not null,
    node_id int not null,
    slot_no smallint check (slot_no >= 0),
    starts_at bigint not null,
    ends_at bigint not null check (ends_at > starts_at),
    class text not null check (class in ('E1', 'E2', 'E3', 'E4', 'E5')),
    cause text not null,
    attribution text not null check (attribution in ('tenant', 'provider', 'network', 'unknown')),
    evidence jsonb not null,
    written_at bigint not null,
    withdrawn_at bigint,
    primary key (tenant_id, incident_id),
    foreign key (tenant_id, lease_id) references lease,
    foreign key (tenant_id, node_id) references node
);
comment on table incident is 'a period in which something held; of kind down, an unbroken stretch of proven downtime';
comment on column incident.slot_no is 'null: every slot of the node that the lease covers';
comment on column incident.ends_at is 'ms; the last hour that was judged where it still holds';
comment on column incident.cause is 'core::availability::DownCause';
comment on column incident.evidence is 'hashes of the availability rows that show it, in order of time, as hex; of long ones the first and the last 32';
comment on column incident.withdrawn_at is 'ms; later data showed that it was not so';
create index incident_lease on incident (tenant_id, lease_id, starts_at);
select leasewatch_protect('incident');
grant insert, update (ends_at, evidence, withdrawn_at) on incident to leasewatch_worker;

create table verdict (
    tenant_id int not null,
    lease_id int not null,
    basis text not null check (basis in ('contract', 'quality')),
    objective text not null check (objective ~ '^[a-z0-9-]{1,40}$'),
    unit text not null check (length(unit) between 1 and 60),
    starts_at bigint not null,
    ends_at bigint not null check (ends_at > starts_at),
    revision int not null check (revision >= 1),
    is_over boolean not null,
    outcome text not null check (outcome in ('met', 'breached', 'indeterminate', 'not_applicable')),
    target_ppm int check (target_ppm between 0 and 1000000),
    whole_ms bigint not null check (whole_ms >= 0),
    allowed_ms bigint check (allowed_ms >= 0),
    proven_ms bigint not null check (proven_ms >= 0),
    possible_ms bigint not null check (possible_ms >= proven_ms),
    claimed_ms bigint not null check (claimed_ms >= 0),
    up_ms bigint not null,
    down_ms bigint not null,
    unknown_ms bigint not null,
    excluded_ms bigint not null,
    details jsonb not null,
    credit text check (credit ~ '^[0-9]+(\.[0-9]{1,9})?$'),
    currency text check (currency ~ '^[A-Z]{3}$'),
    credit_form text check (credit_form in ('money', 'voucher', 'hours')),
    profile text not null check (profile ~ '^[a-z0-9-]{1,40}$'),
    profile_version int not null check (profile_version >= 1),
    profile_hash bytea not null check (octet_length(profile_hash) = 32),
    is_reviewed boolean not null,
    hash bytea not null check (octet_length(hash) = 32),
    reason text not null,
    computed_at bigint not null,
    primary key (tenant_id, lease_id, basis, objective, unit, starts_at, ends_at, revision),
    foreign key (tenant_id, lease_id) references lease,
    check ((credit is null) = (currency is null)),
    check (is_over or revision = 1)
);
comment on table verdict is 'whether an objective was kept in a window. Of a window that is over each change is a revision; one that runs has a single row, which is replaced';
comment on column verdict.basis is 'contract: the provider''s profile; quality: own objectives. Never mixed';
comment on column verdict.unit is 'what is down or up as one: lease, a node''s id, or node/slot';
comment on column verdict.whole_ms is 'what downtime is divided by';
comment on column verdict.proven_ms is 'downtime as the contract counts it: 1 - proven / whole is the upper bound';
comment on column verdict.possible_ms is 'the same if all unknown time had been down: the lower bound';
comment on column verdict.claimed_ms is 'proven downtime that was claimed before, and is not in proven_ms';
comment on column verdict.details is 'outages [from, to, counted from, counted to] in ms with grounds; what is lacking; limits of the credit';
comment on column verdict.credit is 'decimal amount of currency; an estimate where the profile was not reviewed';
comment on column verdict.profile_hash is 'SHA-256 of the profile''s text';
comment on column verdict.hash is 'SHA-256 over everything but the time and reason of its computation';
comment on column verdict.reason is 'why it was judged, as in availability';
create index verdict_window on verdict (tenant_id, lease_id, starts_at);
select leasewatch_protect('verdict');
grant insert, update, delete on verdict to leasewatch_worker;

create function leasewatch_keep_verdict() returns trigger
language plpgsql
as $$
begin
    if old.is_over and (tg_op = 'UPDATE' or current_user <> 'leasewatch_owner') then
        raise exception 'the verdict of a window that is over never changes' using errcode = 'LW004';
    end if;
    return case when tg_op = 'UPDATE' then new else old end;
end
$$;
create trigger keep_verdict before update or delete on verdict
    for each row execute function leasewatch_keep_verdict();

-- What the tenant files with the provider. Where it stands follows from its steps.
create table claim (
    tenant_id int not null,
    claim_id int generated always as identity,
    lease_id int not null,
    objective text not null check (objective ~ '^[a-z0-9-]{1,40}$'),
    unit text not null check (length(unit) between 1 and 60),
    starts_at bigint not null,
    ends_at bigint not null check (ends_at > starts_at),
    verdict_hash bytea not null check (octet_length(verdict_hash) = 32),
    profile text not null,
    profile_version int not null,
    profile_hash bytea not null check (octet_length(profile_hash) = 32),
    intervals jsonb not null,
    asked text not null check (asked ~ '^[0-9]+(\.[0-9]{1,9})?$'),
    currency text not null check (currency ~ '^[A-Z]{3}$'),
    deadline_at bigint,
    written_at bigint not null,
    written_by text check (length(written_by) between 1 and 64),
    primary key (tenant_id, claim_id),
    foreign key (tenant_id, lease_id) references lease
);
comment on table claim is 'a claim as it was drafted from proven intervals';
comment on column claim.starts_at is 'ms; the window that was judged';
comment on column claim.verdict_hash is 'the verdict that it rests on';
comment on column claim.intervals is 'proven downtime that is claimed: [from, to] in ms';
comment on column claim.asked is 'decimal amount of currency';
comment on column claim.deadline_at is 'ms; last instant at which it is in time; null where the contract states none';
create index claim_lease on claim (tenant_id, lease_id);
select leasewatch_protect('claim');
select leasewatch_writable('claim');
grant insert on claim to leasewatch_web;

create table claim_step (
    tenant_id int not null,
    claim_id int not null,
    ordinal int not null check (ordinal >= 1),
    step text not null check (step in ('notify', 'file', 'accept', 'refuse')),
    at bigint not null,
    amount text check (amount ~ '^[0-9]+(\.[0-9]{1,9})?$'),
    answer text check (length(answer) between 1 and 2000),
    deadline_at bigint,
    written_at bigint not null,
    written_by text check (length(written_by) between 1 and 64),
    primary key (tenant_id, claim_id, ordinal),
    foreign key (tenant_id, claim_id) references claim,
    check ((amount is not null) = (step = 'accept')),
    check (step <> 'refuse' or answer is not null)
);
comment on column claim_step.at is 'ms; when it happened, as the tenant says';
comment on column claim_step.amount is 'decimal amount in the currency of the claim that the provider pays';
comment on column claim_step.answer is 'the provider''s words';
comment on column claim_step.deadline_at is 'ms; the deadline from here on, where the step moves it';
select leasewatch_protect('claim_step');
select leasewatch_writable('claim_step');
grant insert on claim_step to leasewatch_web;

-- A demo fleet goes with its leases and what was judged of them.
create or replace function leasewatch_remove_simulated(tenant int) returns int
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
        'claim_step', 'claim', 'verdict', 'incident', 'availability', 'notice', 'provider_record',
        'tenant_stop', 'judge_work', 'assignment', 'billing_session', 'lease_terms', 'lease',
        'node_label',
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

reset role;
