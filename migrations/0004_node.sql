set local role leasewatch_owner;

create table node (
    tenant_id int not null references tenant,
    node_id int generated always as identity,
    public_id bytea not null unique check (octet_length(public_id) = 16),
    provider_id int not null references provider,
    name text not null check (length(name) between 1 and 120),
    origin text not null check (origin in ('measured', 'simulated', 'imported')),
    enrolled_at bigint not null,
    retired_at bigint check (retired_at >= enrolled_at),
    first_seen_at bigint not null,
    primary key (tenant_id, node_id)
);
comment on column node.public_id is 'first 16 bytes of SHA-256 of the key that the node joined with';
comment on column node.origin is 'where its data comes from; one for the life of a node';
comment on column node.enrolled_at is 'ms; measured time is counted from here';
comment on column node.retired_at is 'ms; null while the node is expected to report';
comment on column node.first_seen_at is 'ms of the server clock';
select leasewatch_protect('node');
grant select, insert on node to leasewatch_ingest;
grant update (enrolled_at, retired_at) on node to leasewatch_ingest, leasewatch_worker;

create table node_key (
    tenant_id int not null,
    node_id int not null,
    key_id bytea not null unique check (octet_length(key_id) = 32),
    public_key bytea not null check (octet_length(public_key) = 32),
    added_at bigint not null,
    revoked_at bigint,
    primary key (tenant_id, node_id, key_id),
    foreign key (tenant_id, node_id) references node
);
comment on column node_key.key_id is 'SHA-256 of the public key';
comment on column node_key.public_key is 'Ed25519, RFC 8032';
select leasewatch_protect('node_key');
grant select, insert on node_key to leasewatch_ingest;

create table slot (
    tenant_id int not null,
    node_id int not null,
    slot_no smallint not null check (slot_no >= 0),
    bus_id text not null,
    first_seen_at bigint not null,
    primary key (tenant_id, node_id, slot_no),
    unique (tenant_id, node_id, bus_id),
    foreign key (tenant_id, node_id) references node
);
comment on column slot.slot_no is 'number within the node, bound to a place at first sight';
comment on column slot.bus_id is 'PCI bus id as NVML prints it';
select leasewatch_protect('slot');
grant select, insert on slot to leasewatch_ingest;

create table gpu (
    tenant_id int not null,
    node_id int not null,
    uuid text not null,
    slot_no smallint not null,
    name text,
    catalogue_key text,
    inventory json,
    first_seen_at bigint not null,
    last_seen_at bigint not null,
    primary key (tenant_id, node_id, uuid),
    foreign key (tenant_id, node_id, slot_no) references slot
);
comment on column gpu.uuid is 'NVML UUID';
comment on column gpu.slot_no is 'where it was seen last';
comment on column gpu.name is 'as NVML reports it; null before its inventory arrived';
comment on column gpu.catalogue_key is 'entry of the catalogue; null when the name is not in it';
comment on column gpu.inventory is 'last gpu_seen event; null before one arrived';
select leasewatch_protect('gpu');
grant select, insert, update on gpu to leasewatch_ingest;

create table node_session (
    tenant_id int not null,
    node_id int not null,
    opened_at bigint not null,
    closed_at bigint check (closed_at >= opened_at),
    agent_version text not null,
    primary key (tenant_id, node_id, opened_at),
    foreign key (tenant_id, node_id) references node
);
comment on table node_session is 'when a node had a stream open, by the server clock';
comment on column node_session.closed_at is 'ms; null while the stream is open';
create index node_session_open on node_session (opened_at) where closed_at is null;
select leasewatch_protect('node_session');
grant select, insert, update on node_session to leasewatch_ingest, leasewatch_worker;

reset role;
