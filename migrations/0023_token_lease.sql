set local role leasewatch_owner;

-- A token may say which lease the nodes that join with it are rented by.
alter table join_token
    add column lease_id int,
    add foreign key (tenant_id, lease_id) references lease on delete set null (lease_id);
comment on column join_token.lease_id is 'lease that GPUs of nodes which join with it are assigned to; null: none';

-- What GPUs a node has is known only once it has delivered something.
alter table node_join add column assigned_at bigint;
comment on column node_join.assigned_at is 'ms; when its GPUs were assigned to the lease of its token; null: not yet, or the token names none';
create index node_join_unassigned on node_join (tenant_id, token_id) where assigned_at is null;
select leasewatch_writable('node_join');
grant update (assigned_at) on node_join to leasewatch_web;

grant select on lease, lease_terms to leasewatch_ingest;

reset role;
