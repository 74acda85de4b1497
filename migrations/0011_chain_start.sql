set local role leasewatch_owner;

create table chain_start (
    tenant_id int not null,
    node_id int not null,
    chain_id bytea not null check (octet_length(chain_id) = 16),
    at bigint not null,
    reason text not null check (reason in ('joined', 'lost_state', 'refused')),
    statement bytea not null,
    signature bytea not null check (octet_length(signature) = 64),
    received_at bigint not null,
    primary key (tenant_id, node_id, chain_id),
    -- A start says nothing without its node; what may be removed at all is decided there.
    foreign key (tenant_id, node_id) references node on delete cascade
);
comment on table chain_start is 'that and why a chain begins, as the node signed it; chains of before 0011 have a cursor and no start';
comment on column chain_start.at is 'ms; by the node''s clock, or by the server''s where the node knew its own to be wrong';
comment on column chain_start.statement is 'canonical JSON bytes';
comment on column chain_start.received_at is 'ms of the server clock at commit';
create index chain_start_at on chain_start (tenant_id, node_id, at);
select leasewatch_protect('chain_start');
grant select, insert on chain_start to leasewatch_ingest;

reset role;
