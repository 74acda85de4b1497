set local role leasewatch_owner;

-- A lease names who supplies it, often before any node of that provider has joined. Whoever may
-- make a join string could name a new provider already.
grant insert (slug, name) on provider to leasewatch_web;

reset role;
