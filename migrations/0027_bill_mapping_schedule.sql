set local role leasewatch_owner;

create table bill_mapping (
    tenant_id int not null references tenant,
    provider_id int not null references provider,
    mapping text not null check (length(mapping) between 1 and 4096),
    written_at bigint not null,
    written_by text check (length(written_by) between 1 and 64),
    primary key (tenant_id, provider_id)
);
comment on table bill_mapping is 'how the columns of a provider''s bills were last read';
comment on column bill_mapping.mapping is 'field=column, one a line, as `bills import --map` takes it';
comment on column bill_mapping.written_at is 'ms; the last import with it';
comment on column bill_mapping.written_by is 'name of the user then; null: the command line';
select leasewatch_protect('bill_mapping');
select leasewatch_writable('bill_mapping');
grant insert, update (mapping, written_at, written_by) on bill_mapping to leasewatch_web;

create table billing_schedule (
    tenant_id int not null,
    schedule_id int generated always as identity,
    lease_id int not null,
    rule text not null check (length(rule) between 1 and 1000),
    zone text not null check (length(zone) between 1 and 64),
    starts_at bigint not null,
    ends_at bigint check (ends_at > starts_at),
    expanded_to bigint not null,
    written_at bigint not null,
    written_by text check (length(written_by) between 1 and 64),
    withdrawn_at bigint,
    primary key (tenant_id, schedule_id),
    foreign key (tenant_id, lease_id) references lease
);
comment on table billing_schedule is 'a weekly rule by which an instance runs; its stretches become rows of billing_session';
comment on column billing_schedule.rule is 'core::lease::Schedule as it is written';
comment on column billing_schedule.zone is 'IANA name of the zone that its times are in: that of the lease when it was written';
comment on column billing_schedule.starts_at is 'ms; no session before';
comment on column billing_schedule.ends_at is 'ms; no session from here on; null: as long as the lease';
comment on column billing_schedule.expanded_to is 'ms; stretches that begin before this have become sessions';
comment on column billing_schedule.written_by is 'name of the user then; null: the command line';
comment on column billing_schedule.withdrawn_at is 'ms; another one has taken its place, or it ended';
create unique index billing_schedule_lease on billing_schedule (tenant_id, lease_id) where withdrawn_at is null;
select leasewatch_protect('billing_schedule');
select leasewatch_writable('billing_schedule');
grant insert, update (ends_at, expanded_to, withdrawn_at) on billing_schedule to leasewatch_web;
grant update (expanded_to) on billing_schedule to leasewatch_worker;

alter table billing_session
    add column external_id text check (length(external_id) between 1 and 200),
    add column schedule_id int,
    add foreign key (tenant_id, schedule_id) references billing_schedule;
comment on column billing_session.external_id is 'the provider''s id of it, by which it is sent again; null: it has none';
comment on column billing_session.schedule_id is 'the rule that it follows from; null: it was entered by itself';
create unique index billing_session_external on billing_session (tenant_id, lease_id, external_id)
    where withdrawn_at is null;
grant insert on billing_session to leasewatch_worker;

reset role;
