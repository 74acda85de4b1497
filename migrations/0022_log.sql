set local role leasewatch_owner;

-- The log of each tenant and provider: what the server committed to, in order. A row of these tables
-- is only ever added. Nobody in use has the right to change or delete one; loose hashes leave when
-- the owner's function below has put all 256 of them into a tile.
create table log (
    tenant_id int not null references tenant,
    log_id int generated always as identity,
    provider_id int not null references provider,
    generation int not null check (generation >= 1),
    origin text not null check (length(origin) between 1 and 200),
    first_statement bytea,
    opened_at bigint not null,
    primary key (tenant_id, log_id),
    unique (tenant_id, provider_id, generation),
    check ((first_statement is null) = (generation = 1))
);
comment on table log is 'a log of core::evidence::log; the highest generation goes on, the others ended';
comment on column log.origin is 'its name, by which its checkpoints are signed';
comment on column log.first_statement is 'canonical JSON of its log_break, which is its first leaf';
select leasewatch_protect('log');
grant insert on log to leasewatch_worker;

create table log_leaf (
    tenant_id int not null,
    log_id int not null,
    level smallint not null check (level between 0 and 7),
    place bigint not null check (place >= 0),
    hash bytea not null check (octet_length(hash) = 32),
    primary key (tenant_id, log_id, level, place),
    foreign key (tenant_id, log_id) references log
);
comment on table log_leaf is 'hashes that no tile holds yet, fewer than 256 of a level';
comment on column log_leaf.level is '0: leaves; n: roots of the tiles of level n - 1';
comment on column log_leaf.place is 'its number among those of its level, from 0';
select leasewatch_protect('log_leaf');
grant insert on log_leaf to leasewatch_worker;

create table log_tile (
    tenant_id int not null,
    log_id int not null,
    level smallint not null check (level between 0 and 7),
    place bigint not null check (place >= 0),
    hashes bytea not null check (octet_length(hashes) = 8192),
    primary key (tenant_id, log_id, level, place),
    foreign key (tenant_id, log_id) references log
);
-- Hashes do not compress.
alter table log_tile alter column hashes set storage external;
comment on table log_tile is '256 hashes of a level, from place * 256 on';
comment on column log_tile.place is 'its number among the tiles of its level, from 0';
select leasewatch_protect('log_tile');

create table log_minute (
    tenant_id int not null,
    log_id int not null,
    at bigint not null check (at % 60000 = 0),
    statement bytea not null,
    heads bytea not null check (octet_length(heads) % 32 = 0),
    primary key (tenant_id, log_id, at),
    foreign key (tenant_id, log_id) references log
);
alter table log_minute alter column heads set storage external;
comment on table log_minute is 'minute statements, each a leaf, with the leaves of their own trees';
comment on column log_minute.statement is 'canonical JSON bytes';
comment on column log_minute.heads is 'leaf hashes of heads by node and sequence, 32 bytes each';
select leasewatch_protect('log_minute');
grant insert on log_minute to leasewatch_worker;

create table log_checkpoint (
    tenant_id int not null,
    log_id int not null,
    size bigint not null check (size >= 1),
    root bytea not null check (octet_length(root) = 32),
    at bigint not null,
    note text not null check (length(note) between 1 and 16384),
    primary key (tenant_id, log_id, size),
    foreign key (tenant_id, log_id) references log
);
comment on table log_checkpoint is 'states of a log that the server signed';
comment on column log_checkpoint.size is 'leaves';
comment on column log_checkpoint.at is 'ms of the server clock';
comment on column log_checkpoint.note is 'the signed note';
select leasewatch_protect('log_checkpoint');
grant insert on log_checkpoint to leasewatch_worker;

-- Puts the 256 hashes of a tile, which must all be there, into one row; returns them.
create function leasewatch_fold_tile(of_tenant int, of_log int, of_level int, of_place bigint) returns bytea
language plpgsql
security definer
set search_path = pg_catalog, public, pg_temp
as $$
declare
    folded bytea;
    found int;
begin
    select string_agg(hash, ''::bytea order by place), count(*) into folded, found from log_leaf
    where tenant_id = of_tenant and log_id = of_log and level = of_level
        and place >= of_place * 256 and place < (of_place + 1) * 256;
    if found <> 256 then
        raise exception 'tile % of level % of log % has % hashes', of_place, of_level, of_log, found
            using errcode = 'LW006';
    end if;
    insert into log_tile (tenant_id, log_id, level, place, hashes)
    values (of_tenant, of_log, of_level, of_place, folded);
    delete from log_leaf
    where tenant_id = of_tenant and log_id = of_log and level = of_level
        and place >= of_place * 256 and place < (of_place + 1) * 256;
    return folded;
end
$$;
revoke all on function leasewatch_fold_tile(int, int, int, bigint) from public;
grant execute on function leasewatch_fold_tile(int, int, int, bigint) to leasewatch_worker;

-- Queues of the publishing job, written in the transactions that make what is to be published.
create table log_work (
    tenant_id int not null references tenant,
    work_id bigint generated always as identity,
    provider_id int not null references provider,
    kind text not null,
    hash bytea not null check (octet_length(hash) = 32),
    primary key (tenant_id, work_id)
);
comment on table log_work is 'statements that are not in their log yet';
comment on column log_work.kind is 'of the statement, for people';
comment on column log_work.hash is 'leaf hash of the statement';
select leasewatch_protect('log_work');
grant insert on log_work to leasewatch_ingest;
grant insert, delete on log_work to leasewatch_worker;

create table head_work (
    tenant_id int not null,
    node_id int not null,
    chain_id bytea not null check (octet_length(chain_id) = 16),
    sequence bigint not null check (sequence >= 1),
    ended_at bigint not null,
    received_at bigint not null,
    primary key (tenant_id, node_id, chain_id, sequence),
    foreign key (tenant_id, node_id) references node on delete cascade
);
comment on table head_work is 'heads that are in no minute of their log yet';
comment on column head_work.ended_at is 'ms; as in segment, to find it';
comment on column head_work.received_at is 'ms of the server clock; says to which minute it belongs';
select leasewatch_protect('head_work');
grant insert on head_work to leasewatch_ingest;
grant insert, delete on head_work to leasewatch_worker;

-- What was stored before there were logs is published too.
insert into log_work (tenant_id, provider_id, kind, hash)
select s.tenant_id, n.provider_id, s.kind, sha256('\x00'::bytea || s.statement)
from identity_statement s join node n using (tenant_id, node_id)
order by s.at, s.node_id, s.kind, s.key_id;
insert into log_work (tenant_id, provider_id, kind, hash)
select h.tenant_id, n.provider_id, 'hour', h.hash
from hour_record h join node n using (tenant_id, node_id)
where h.state = 2
order by h.written_at, h.hour, h.node_id, h.slot_no, h.gpu_uuid, h.revision;
insert into head_work (tenant_id, node_id, chain_id, sequence, ended_at, received_at)
select tenant_id, node_id, chain_id, sequence, ended_at, received_at from segment;

reset role;
