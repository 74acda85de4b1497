set local role leasewatch_owner;

create table join_token (
    tenant_id int not null references tenant,
    token_id int generated always as identity,
    token_hash bytea not null unique check (octet_length(token_hash) = 32),
    kind text not null check (kind in ('single', 'fleet')),
    provider_id int not null references provider,
    node_ceiling int not null check (node_ceiling >= 1),
    joins int not null default 0 check (joins between 0 and node_ceiling),
    created_at bigint not null,
    created_by text not null check (length(created_by) between 1 and 120),
    expires_at bigint not null check (expires_at > created_at),
    revoked_at bigint,
    primary key (tenant_id, token_id),
    check (kind <> 'single' or node_ceiling = 1)
);
comment on table join_token is 'what lets a node with an unknown key join; the secret itself is kept nowhere';
comment on column join_token.token_hash is 'SHA-256 of a prefix and the secret, core::join';
comment on column join_token.kind is 'single: one node; fleet: up to node_ceiling';
comment on column join_token.node_ceiling is 'nodes that may join with it, those that took over another one included';
comment on column join_token.joins is 'nodes that joined with it';
comment on column join_token.created_by is 'who made it, for people; clean text';
comment on column join_token.revoked_at is 'ms; null while it was not taken back';
select leasewatch_protect('join_token');
grant select, insert, delete, update (joins, revoked_at) on join_token to leasewatch_ingest;

create table node_join (
    tenant_id int not null,
    token_id int not null,
    node_id int not null,
    key_id bytea not null check (octet_length(key_id) = 32),
    joined_at bigint not null,
    has_replaced boolean not null,
    primary key (tenant_id, token_id, key_id),
    foreign key (tenant_id, token_id) references join_token,
    foreign key (tenant_id, node_id) references node on delete cascade
);
comment on table node_join is 'each key that joined with a token';
comment on column node_join.has_replaced is 'true when the key took over a node that was there before';
create index node_join_time on node_join (tenant_id, token_id, joined_at);
select leasewatch_protect('node_join');
grant select, insert on node_join to leasewatch_ingest;

alter table node_key
    add column session_issued bigint not null default 0 check (session_issued >= 0),
    add column session_confirmed bigint not null default 0 check (session_confirmed >= 0);
comment on column node_key.session_issued is 'number of the last stream of this key; the node keeps it and shows it at the next one';
comment on column node_key.session_confirmed is 'the last number that the node is known to have kept';
comment on column node_key.revoked_at is 'ms; null while the key is accepted';
grant update (revoked_at, session_issued, session_confirmed) on node_key to leasewatch_ingest;
create index node_key_revoked on node_key (revoked_at) where revoked_at is not null;

create table contested_session (
    tenant_id int not null,
    node_id int not null,
    key_id bytea not null,
    session bigint not null,
    session_shown bigint not null,
    session_confirmed bigint not null,
    seen_at bigint not null,
    primary key (tenant_id, node_id, key_id, session),
    foreign key (tenant_id, node_id) references node on delete cascade
);
comment on table contested_session is 'streams that showed an older number than the key was given: two have the key';
comment on column contested_session.session is 'the number that this stream was given';
comment on column contested_session.session_shown is 'the number that it showed';
comment on column contested_session.session_confirmed is 'the last number that a user of the key was known to have kept';
select leasewatch_protect('contested_session');
grant select, insert on contested_session to leasewatch_ingest;

reset role;
