set local role leasewatch_owner;

create table chain_cursor (
    tenant_id int not null,
    node_id int not null,
    chain_id bytea not null check (octet_length(chain_id) = 16),
    sequence bigint not null check (sequence >= 1),
    head_hash bytea not null check (octet_length(head_hash) = 32),
    first_at bigint not null,
    ended_at bigint not null,
    primary key (tenant_id, node_id, chain_id),
    foreign key (tenant_id, node_id) references node
);
comment on table chain_cursor is 'up to where a chain is stored or covered by a drop';
comment on column chain_cursor.sequence is 'last sequence that is durable or dropped';
comment on column chain_cursor.head_hash is 'hash of the head at that sequence';
comment on column chain_cursor.first_at is 'ms; start of the first segment of the chain';
comment on column chain_cursor.ended_at is 'ms; end of the last';
select leasewatch_protect('chain_cursor');
grant select, insert, update on chain_cursor to leasewatch_ingest;

-- The head of a segment, column by column. Its JSON is regenerated from these, byte for byte.
create table segment (
    tenant_id int not null,
    node_id int not null,
    chain_id bytea not null check (octet_length(chain_id) = 16),
    sequence bigint not null check (sequence >= 1),
    started_at bigint not null,
    ended_at bigint not null check (ended_at >= started_at),
    epoch_id bytea not null check (octet_length(epoch_id) = 8),
    life_unit_id bytea not null check (octet_length(life_unit_id) = 16),
    cadence_ms int not null check (cadence_ms > 0),
    origin text not null check (origin in ('measured', 'simulated', 'imported')),
    gpu_count int not null check (gpu_count between 0 and 65535),
    block_count int not null check (block_count between 0 and 65535),
    root bytea not null check (octet_length(root) = 32),
    previous bytea check (octet_length(previous) = 32),
    clock_wall_at bigint not null,
    clock_boot_ms bigint not null,
    clock_offset_ms bigint,
    clock_bound_ms bigint,
    clock_source text not null,
    checkpoint_size bigint,
    checkpoint_root bytea check (octet_length(checkpoint_root) = 32),
    agent_version text not null,
    agent_digest bytea check (octet_length(agent_digest) = 32),
    head_hash bytea not null check (octet_length(head_hash) = 32),
    signature bytea not null check (octet_length(signature) = 64),
    received_at bigint not null,
    primary key (tenant_id, node_id, ended_at, chain_id, sequence),
    foreign key (tenant_id, node_id) references node,
    check ((previous is null) = (sequence = 1)),
    check ((checkpoint_size is null) = (checkpoint_root is null))
) partition by range (ended_at);
create index segment_sequence on segment (tenant_id, node_id, chain_id, sequence);
comment on column segment.gpu_count is 'devices that NVML showed at the end of the segment';
comment on column segment.root is 'Merkle root over the hashes of the blocks';
comment on column segment.previous is 'hash of the head before; null at sequence 1';
comment on column segment.clock_wall_at is 'ms of the wall clock at the clock reading';
comment on column segment.clock_boot_ms is 'ms since boot at the same instant';
comment on column segment.clock_offset_ms is 'server clock minus the node''s wall clock; null when not known';
comment on column segment.clock_bound_ms is 'half of the round trip; null when not known';
comment on column segment.head_hash is 'leaf hash of the statement';
comment on column segment.received_at is 'ms of the server clock at commit';
select leasewatch_protect('segment');
grant select, insert on segment to leasewatch_ingest;

create table segment_block (
    tenant_id int not null,
    node_id int not null,
    slot_no smallint not null check (slot_no >= -2),
    started_at bigint not null,
    ended_at bigint not null check (ended_at >= started_at),
    chain_id bytea not null,
    sequence bigint not null,
    gpu_uuid text check ((gpu_uuid is null) = (slot_no < 0)),
    body bytea not null,
    primary key (tenant_id, node_id, slot_no, ended_at, chain_id, sequence),
    foreign key (tenant_id, node_id) references node
) partition by range (ended_at);
alter table segment_block alter column body set storage external;
comment on column segment_block.slot_no is 'slot of a gpu; -1 the host; -2 events';
comment on column segment_block.started_at is 'ms; start of its segment';
comment on column segment_block.ended_at is 'ms; end of its segment';
comment on column segment_block.body is 'the exact bytes whose hash is in the tree; packed already, so never compressed again';
select leasewatch_protect('segment_block');
grant select, insert on segment_block to leasewatch_ingest;

create table event (
    tenant_id int not null,
    node_id int not null,
    at bigint not null,
    chain_id bytea not null,
    sequence bigint not null,
    ordinal int not null check (ordinal >= 0),
    gpu_uuid text,
    kind text not null,
    body json not null,
    primary key (tenant_id, node_id, at, chain_id, sequence, ordinal),
    foreign key (tenant_id, node_id) references node
) partition by range (at);
comment on column event.at is 'ms of the node''s clock';
comment on column event.ordinal is 'position within its segment';
comment on column event.body is 'the canonical object of the events block; json, not jsonb, which would respell it';
create index event_recent on event (tenant_id, at);
select leasewatch_protect('event');
grant select, insert on event to leasewatch_ingest;

create table equivocation (
    tenant_id int not null,
    node_id int not null,
    chain_id bytea not null,
    sequence bigint not null,
    head_hash bytea not null check (octet_length(head_hash) = 32),
    seen_at bigint not null,
    primary key (tenant_id, node_id, chain_id, sequence, head_hash),
    foreign key (tenant_id, node_id) references node
);
comment on table equivocation is 'a second, different head for a sequence that is stored; the first one stays';
select leasewatch_protect('equivocation');
grant select, insert on equivocation to leasewatch_ingest;

create table dropped_range (
    tenant_id int not null,
    node_id int not null,
    chain_id bytea not null check (octet_length(chain_id) = 16),
    first_sequence bigint not null check (first_sequence >= 1),
    last_sequence bigint not null check (last_sequence >= first_sequence),
    started_at bigint not null,
    ended_at bigint not null check (ended_at >= started_at),
    reason text not null check (reason in ('quota', 'refused', 'corrupt', 'fsync', 'lost')),
    statement bytea not null,
    signature bytea not null check (octet_length(signature) = 64),
    primary key (tenant_id, node_id, chain_id, first_sequence),
    foreign key (tenant_id, node_id) references node
);
comment on table dropped_range is 'sequences that will never come, as the node signed it';
comment on column dropped_range.statement is 'canonical JSON bytes';
select leasewatch_protect('dropped_range');
grant select, insert on dropped_range to leasewatch_ingest;

reset role;
