-- Roles belong to the cluster, so other databases may be making the same ones at this moment.
do $$
declare
    name text;
begin
    foreach name in array array[
        'leasewatch_owner', 'leasewatch_web', 'leasewatch_ingest', 'leasewatch_worker',
        'leasewatch_auth', 'leasewatch_operator', 'leasewatch_login'
    ] loop
        begin
            if not exists (select from pg_roles where rolname = name) then
                execute format('create role %I nologin noinherit', name);
            end if;
        exception when duplicate_object or unique_violation then
            null;
        end;
    end loop;
end
$$;

-- Memberships: the login may become each of the five, and nothing else. `tuple concurrently
-- updated` (internal_error) is what two databases see that grant the same thing at once.
do $$
declare
    name text;
begin
    for attempt in 1..20 loop
        begin
            if not (select rolcanlogin from pg_roles where rolname = 'leasewatch_login') then
                alter role leasewatch_login login;
            end if;
            foreach name in array array[
                'leasewatch_web', 'leasewatch_ingest', 'leasewatch_worker', 'leasewatch_auth',
                'leasewatch_operator'
            ] loop
                if not pg_has_role('leasewatch_login', name, 'member') then
                    execute format('grant %I to leasewatch_login', name);
                end if;
            end loop;
            if not pg_has_role(session_user, 'leasewatch_owner', 'member') then
                execute format('grant leasewatch_owner to %I', session_user);
            end if;
            exit;
        exception when unique_violation or internal_error then
            if attempt = 20 then
                raise;
            end if;
            perform pg_sleep(0.05);
        end;
    end loop;
end
$$;

grant usage, create on schema public to leasewatch_owner;
-- The preflight check compares the schema with what the program knows.
grant select on _sqlx_migrations to leasewatch_operator;
