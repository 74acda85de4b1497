set local role leasewatch_owner;

create table tenant (
    tenant_id int generated always as identity primary key,
    slug text not null unique check (slug ~ '^[a-z0-9-]{1,40}$'),
    name text not null
);
comment on column tenant.slug is 'public name in URLs and statements';
comment on column tenant.name is 'what people see';
select leasewatch_protect('tenant');
grant select, insert on tenant to leasewatch_ingest;

-- Providers are global rows: who supplies nodes is not a tenant's secret, what they supply is.
create table provider (
    provider_id int generated always as identity primary key,
    slug text not null unique check (slug ~ '^[a-z0-9-]{1,40}$'),
    name text not null
);
comment on column provider.slug is 'public name in URLs and statements';
comment on column provider.name is 'what people see';
grant select on provider to leasewatch_web, leasewatch_worker, leasewatch_operator;
grant select, insert on provider to leasewatch_ingest;

insert into tenant (slug, name) values ('default', 'Default');
insert into provider (slug, name) values ('default', 'Unnamed provider');

reset role;
