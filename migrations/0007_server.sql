set local role leasewatch_owner;

-- The server's own recording. A stretch that is not here is `observer_down` in every hour.
create table server_liveness (
    started_at bigint primary key,
    ended_at bigint not null check (ended_at > started_at)
);
comment on table server_liveness is 'stretches in which the server was recording, about one row a minute';
grant select on server_liveness to leasewatch_web, leasewatch_ingest, leasewatch_operator;
grant select, insert, update on server_liveness to leasewatch_worker;

create table job_status (
    job text primary key,
    started_at bigint not null,
    finished_at bigint check (finished_at >= started_at),
    outcome text not null check (outcome in ('running', 'ok', 'failed')),
    message text,
    items bigint not null check (items >= 0)
);
comment on table job_status is 'last run of each job';
comment on column job_status.items is 'pieces of work done in that run';
grant select on job_status to leasewatch_operator;
grant select, insert, update on job_status to leasewatch_worker;

reset role;
