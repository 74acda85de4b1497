set local role leasewatch_owner;

-- What a claim's text is written from stays as it was when the claim was drafted.
alter table claim add column facts jsonb;
comment on column claim.facts is 'core::sla::claim_facts; null: drafted before there was a text';

-- A claim can be given up, and a step says what belongs to it, such as the number of a ticket.
alter table claim_step drop constraint claim_step_step_check;
alter table claim_step add constraint claim_step_step_check
    check (step in ('notify', 'file', 'accept', 'refuse', 'withdraw'));
alter table claim_step add column note text check (length(note) between 1 and 400);
comment on column claim_step.note is 'what the tenant writes beside: a ticket''s number, to whom it went';

-- Every page shows the nearest deadline, so what is owed has to be found without a search.
create index verdict_owed on verdict (tenant_id, ends_at)
    where basis = 'contract' and (outcome = 'breached' or (target_ppm is null and proven_ms > 0));

reset role;
