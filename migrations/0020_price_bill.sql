set local role leasewatch_owner;

-- Price tables and facts about providers are global rows, as providers are: what a provider offers
-- is no tenant's secret. Operators write them.
create table price_table (
    price_table_id int generated always as identity primary key,
    file_name text not null check (length(file_name) between 1 and 200),
    provider_id int references provider,
    schema text check (schema in ('cloud-gpus', 'skypilot', 'skypilot-storage', 'skypilot-zone')),
    currency text not null check (currency ~ '^[A-Z]{3}$'),
    row_count int not null check (row_count >= 0),
    duplicates int not null check (duplicates >= 0),
    per_gpu_differs int not null check (per_gpu_differs >= 0),
    imported_at bigint not null,
    imported_by text check (length(imported_by) between 1 and 64),
    withdrawn_at bigint
);
comment on table price_table is 'a file of offers, as it was read';
comment on column price_table.provider_id is 'null: the table names a provider in each row';
comment on column price_table.schema is 'core::cost::price_table::Schema; null: read by names of columns';
comment on column price_table.row_count is 'rows below the header';
comment on column price_table.duplicates is 'rows that say what another one says';
comment on column price_table.per_gpu_differs is 'offers whose own figure per GPU is more than a cent off';
comment on column price_table.imported_by is 'name of the user then; null: nobody was signed in';
comment on column price_table.withdrawn_at is 'ms; its offers count no longer';

create table price_offer (
    price_table_id int not null references price_table,
    line int not null check (line >= 1),
    provider_name text check (length(provider_name) between 1 and 120),
    instance text check (length(instance) between 1 and 120),
    region text check (length(region) between 1 and 120),
    gpu_name text not null check (length(gpu_name) between 1 and 120),
    gpu_key text,
    gpu_count int not null check (gpu_count >= 1),
    on_demand text check (on_demand ~ '^[0-9]+\.[0-9]{2,9}$'),
    spot text check (spot ~ '^[0-9]+\.[0-9]{2,9}$'),
    primary key (price_table_id, line),
    check (on_demand is not null or spot is not null)
);
comment on column price_offer.provider_name is 'as the table has it; null: the provider of the table';
comment on column price_offer.gpu_key is 'key of the catalogue where the name can mean one product alone';
comment on column price_offer.on_demand is 'the instance for one hour, in the currency of the table; null: not offered so';
comment on column price_offer.spot is 'the same until it is wanted back; null: not offered so';

create table price_refused (
    price_table_id int not null references price_table,
    line int not null check (line >= 1),
    reason text not null,
    primary key (price_table_id, line)
);
comment on table price_refused is 'rows of a price table that were refused';

create table provider_fact (
    provider_fact_id int generated always as identity primary key,
    provider_id int not null references provider,
    kind text not null check (kind in ('legal_name', 'licence', 'certificate', 'own_rooms', 'panel_granularity_s',
        'hourly_history', 'out_of_band', 'network_curves', 'replacement_h', 'dcgm_compatible')),
    value_text text check (length(value_text) between 1 and 200),
    value_bool boolean,
    value_int bigint check (value_int >= 0),
    source text not null check (length(source) between 1 and 400),
    as_of bigint not null,
    written_at bigint not null,
    written_by text check (length(written_by) between 1 and 64),
    withdrawn_at bigint,
    check (num_nonnulls(value_text, value_bool, value_int) = 1)
);
comment on table provider_fact is 'what somebody read or asked of a provider; dated, with its source, never measured';
comment on column provider_fact.kind is 'core::provider_fact::FactKind, which says which value it has';
comment on column provider_fact.source is 'where it was read, or who said so';
comment on column provider_fact.as_of is 'ms; when it was true';
comment on column provider_fact.withdrawn_at is 'ms; a row that was wrong stays, and counts no longer';
create index provider_fact_provider on provider_fact (provider_id, kind, as_of);

grant select on price_table, price_offer, price_refused, provider_fact
    to leasewatch_web, leasewatch_worker, leasewatch_operator, leasewatch_ingest;
grant insert on price_table, price_offer, price_refused, provider_fact to leasewatch_ingest;
grant update (withdrawn_at) on price_table, provider_fact to leasewatch_ingest;

create table bill (
    tenant_id int not null references tenant,
    bill_id int generated always as identity,
    provider_id int not null references provider,
    file_name text not null check (length(file_name) between 1 and 200),
    with_tax boolean not null,
    imported_at bigint not null,
    imported_by text check (length(imported_by) between 1 and 64),
    withdrawn_at bigint,
    primary key (tenant_id, bill_id)
);
comment on table bill is 'a provider''s bill, as it was read; what differs is computed when it is looked at';
comment on column bill.with_tax is 'its amounts and rates include tax';
comment on column bill.withdrawn_at is 'ms; it was imported wrongly, and counts no longer';
select leasewatch_protect('bill');
select leasewatch_writable('bill');
grant insert, update (withdrawn_at) on bill to leasewatch_web;

create table bill_line (
    tenant_id int not null,
    bill_id int not null,
    line int not null check (line >= 1),
    key text not null check (length(key) between 1 and 200),
    starts_at bigint not null,
    ends_at bigint not null check (ends_at > starts_at),
    quantity text check (quantity ~ '^[0-9]+\.[0-9]{2,9}$'),
    unit text check (unit in ('gpu_hour', 'hour', 'second', 'day', 'month', 'other')),
    rate text check (rate ~ '^-?[0-9]+\.[0-9]{2,9}$'),
    amount text not null check (amount ~ '^-?[0-9]+\.[0-9]{2,9}$'),
    currency text not null check (currency ~ '^[A-Z]{3}$'),
    primary key (tenant_id, bill_id, line),
    foreign key (tenant_id, bill_id) references bill,
    check ((quantity is null) = (unit is null))
);
comment on column bill_line.line is 'in the file, from 1';
comment on column bill_line.key is 'what it bills, as the provider names it';
comment on column bill_line.quantity is 'how much of the unit; null: the bill does not say';
comment on column bill_line.rate is 'price of one unit, in the currency; null: the bill does not say';
select leasewatch_protect('bill_line');
select leasewatch_writable('bill_line');
grant insert on bill_line to leasewatch_web;

create table bill_refused (
    tenant_id int not null,
    bill_id int not null,
    line int not null check (line >= 1),
    reason text not null,
    primary key (tenant_id, bill_id, line),
    foreign key (tenant_id, bill_id) references bill
);
comment on table bill_refused is 'lines of a bill that were refused; what is compared lacks them';
select leasewatch_protect('bill_refused');
select leasewatch_writable('bill_refused');
grant insert on bill_refused to leasewatch_web;

create table ticket (
    tenant_id int not null references tenant,
    ticket_id int generated always as identity,
    provider_id int not null references provider,
    subject text not null check (length(subject) between 1 and 200),
    number text check (length(number) between 1 and 120),
    opened_at bigint not null,
    answered_at bigint check (answered_at >= opened_at),
    fixed_at bigint check (fixed_at >= opened_at),
    replaced_at bigint check (replaced_at >= opened_at),
    answer text check (length(answer) between 1 and 2000),
    reason text check (length(reason) between 1 and 400),
    written_at bigint not null,
    written_by text check (length(written_by) between 1 and 64),
    primary key (tenant_id, ticket_id)
);
comment on table ticket is 'what the tenant asked of a provider, and what came of it';
comment on column ticket.number is 'the provider''s number of it';
comment on column ticket.answered_at is 'ms; the first answer that was no receipt; null while there is none';
comment on column ticket.fixed_at is 'ms; null while it is not mended';
comment on column ticket.replaced_at is 'ms; when hardware was replaced; null where none was';
comment on column ticket.answer is 'what the provider said';
comment on column ticket.reason is 'why it happened, as the provider gave it';
select leasewatch_protect('ticket');
select leasewatch_writable('ticket');
grant insert, update (number, answered_at, fixed_at, replaced_at, answer, reason) on ticket to leasewatch_web;

reset role;
