set local role leasewatch_owner;

create table identity_statement (
    tenant_id int not null,
    node_id int not null,
    kind text not null check (kind in ('enrollment', 'rotation', 'revocation')),
    key_id bytea not null check (octet_length(key_id) = 32),
    at bigint not null,
    statement bytea not null,
    signature bytea not null check (octet_length(signature) = 64),
    signer bytea not null check (octet_length(signer) = 32),
    primary key (tenant_id, node_id, kind, key_id),
    -- A statement says nothing without its node; what may be removed at all is decided there.
    foreign key (tenant_id, node_id) references node on delete cascade
);
comment on table identity_statement is 'what the server signed about the keys of a node; acts of before 0015 have none';
comment on column identity_statement.key_id is 'SHA-256 of the public key that joined, took over, or was revoked';
comment on column identity_statement.at is 'ms of the server clock';
comment on column identity_statement.statement is 'canonical JSON bytes, core::evidence::identity';
comment on column identity_statement.signer is 'public identity key of the server that signed it';
select leasewatch_protect('identity_statement');
grant select, insert on identity_statement to leasewatch_ingest;

reset role;
