set local role leasewatch_owner;

-- Lets pages of a tenant change rows of that tenant, and of no other: the policies hold for what is
-- found and for what is written. On top of `leasewatch_protect`.
create function leasewatch_writable(target regclass) returns void
language plpgsql
as $$
declare
    own constant text :=
        '(tenant_id = nullif(current_setting(''leasewatch.tenant'', true), '''')::int)';
begin
    execute format('create policy web_insert on %s for insert to leasewatch_web with check %s', target, own);
    execute format('create policy web_update on %s for update to leasewatch_web using %s with check %s', target, own, own);
    execute format('create policy web_delete on %s for delete to leasewatch_web using %s', target, own);
end
$$;
revoke all on function leasewatch_writable(regclass) from public;

create table lease (
    tenant_id int not null references tenant,
    lease_id int generated always as identity,
    name text not null check (name ~ '^[a-z0-9-]{1,40}$'),
    provider_id int not null references provider,
    created_at bigint not null,
    primary key (tenant_id, lease_id),
    unique (tenant_id, name)
);
comment on table lease is 'a rental; what its contract says is the last row of lease_terms';
comment on column lease.name is 'public name within the tenant';
select leasewatch_protect('lease');
select leasewatch_writable('lease');
grant insert, update (name) on lease to leasewatch_web;

-- Terms are corrected, never changed: what a verdict was judged by stays readable.
create table lease_terms (
    tenant_id int not null,
    lease_id int not null,
    revision int not null check (revision >= 1),
    starts_at bigint not null,
    ends_at bigint check (ends_at > starts_at),
    terms jsonb not null,
    written_at bigint not null,
    written_by text check (length(written_by) between 1 and 64),
    reason text check (length(reason) between 1 and 200),
    primary key (tenant_id, lease_id, revision),
    foreign key (tenant_id, lease_id) references lease
);
comment on column lease_terms.starts_at is 'ms; contracted from here';
comment on column lease_terms.ends_at is 'ms; null while it runs';
comment on column lease_terms.terms is 'core::lease::LeaseTerms as `apply -f` writes it';
comment on column lease_terms.written_by is 'name of the user then; null: the command line';
comment on column lease_terms.reason is 'why they were corrected; null at revision 1 and where nobody said';
select leasewatch_protect('lease_terms');
select leasewatch_writable('lease_terms');
grant insert on lease_terms to leasewatch_web;

create table billing_session (
    tenant_id int not null,
    session_id int generated always as identity,
    lease_id int not null,
    starts_at bigint not null,
    ends_at bigint check (ends_at > starts_at),
    source text not null check (source in ('csv', 'api', 'schedule', 'hand')),
    written_at bigint not null,
    written_by text check (length(written_by) between 1 and 64),
    withdrawn_at bigint,
    primary key (tenant_id, session_id),
    foreign key (tenant_id, lease_id) references lease
);
comment on table billing_session is 'a stretch that is billed of a pay-as-you-go lease';
comment on column billing_session.ends_at is 'ms; null while it runs';
comment on column billing_session.written_by is 'name of the user then; null: the command line';
comment on column billing_session.withdrawn_at is 'ms; a row that was wrong stays, and counts no longer';
create index billing_session_lease on billing_session (tenant_id, lease_id, starts_at);
select leasewatch_protect('billing_session');
select leasewatch_writable('billing_session');
grant insert, update (ends_at, withdrawn_at) on billing_session to leasewatch_web;

create table assignment (
    tenant_id int not null,
    assignment_id int generated always as identity,
    lease_id int not null,
    node_id int not null,
    slot_no smallint not null check (slot_no >= 0),
    starts_at bigint not null,
    ends_at bigint check (ends_at > starts_at),
    written_at bigint not null,
    written_by text check (length(written_by) between 1 and 64),
    withdrawn_at bigint,
    reason text check (length(reason) between 1 and 200),
    primary key (tenant_id, assignment_id),
    foreign key (tenant_id, lease_id) references lease,
    foreign key (tenant_id, node_id) references node
);
comment on table assignment is 'which lease covers which slot, from when to when; early, late or corrected';
comment on column assignment.slot_no is 'a slot that was never seen has no row in slot';
comment on column assignment.ends_at is 'ms; null: as long as the lease';
comment on column assignment.written_by is 'name of the user then; null: the command line';
comment on column assignment.withdrawn_at is 'ms; a row that was corrected stays, and counts no longer';
comment on column assignment.reason is 'why it was withdrawn';
create index assignment_lease on assignment (tenant_id, lease_id);
create index assignment_node on assignment (tenant_id, node_id);
select leasewatch_protect('assignment');
select leasewatch_writable('assignment');
grant insert, update (ends_at, withdrawn_at, reason) on assignment to leasewatch_web;

create table node_label (
    tenant_id int not null,
    node_id int not null,
    name text not null check (length(name) between 1 and 60),
    value text not null check (length(value) between 1 and 60),
    primary key (tenant_id, node_id, name),
    foreign key (tenant_id, node_id) references node
);
comment on table node_label is 'what costs can be grouped by; labels of a lease stand in its terms';
select leasewatch_protect('node_label');
select leasewatch_writable('node_label');
grant insert, update (value), delete on node_label to leasewatch_web;

-- Queue of stage 6: whose availability is to be judged anew, written with what changed it.
create table judge_work (
    tenant_id int not null,
    lease_id int not null,
    from_hour int not null,
    to_hour int not null check (to_hour > from_hour),
    reason text not null check (reason in ('hours', 'terms', 'assignment', 'session', 'notice', 'evidence', 'asked')),
    primary key (tenant_id, lease_id, reason),
    foreign key (tenant_id, lease_id) references lease
);
comment on table judge_work is 'one row per lease and reason; a second change widens it';
comment on column judge_work.from_hour is 'first hour that may have changed';
comment on column judge_work.to_hour is 'the hour after the last one';
select leasewatch_protect('judge_work');
select leasewatch_writable('judge_work');
grant insert, update (from_hour, to_hour) on judge_work to leasewatch_web;
grant select, insert, update, delete on judge_work to leasewatch_worker;

reset role;
