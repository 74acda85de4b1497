set local role leasewatch_owner;

-- Users, sessions, tokens and links are for the role `auth` alone. Secrets are stored as SHA-256,
-- passwords as argon2id: whoever reads these tables can become nobody.

create table app_user (
    user_id int generated always as identity primary key,
    name text not null unique check (name ~ '^[a-z0-9._@+-]{1,64}$'),
    password_hash text,
    language text check (language in ('en', 'zh-CN')),
    is_operator boolean not null,
    created_at bigint not null,
    disabled_at bigint
);
comment on column app_user.name is 'what is typed to sign in; small letters';
comment on column app_user.password_hash is 'argon2id as a PHC string; null: only a link signs in';
comment on column app_user.language is 'of the interface; null: what the browser asks for';
comment on column app_user.is_operator is 'sees and changes every tenant';
comment on column app_user.disabled_at is 'ms; null while sessions, tokens and the password are good';
grant select, insert, update on app_user to leasewatch_auth;

create table user_session (
    session_id int generated always as identity primary key,
    session_hash bytea not null unique check (octet_length(session_hash) = 32),
    user_id int not null references app_user,
    created_at bigint not null,
    seen_at bigint not null,
    expires_at bigint not null,
    address text,
    browser text
);
comment on column user_session.session_id is 'what its owner names it by; opens nothing';
comment on column user_session.session_hash is 'SHA-256 of the cookie''s 32 bytes';
comment on column user_session.seen_at is 'ms; to the minute';
comment on column user_session.expires_at is 'ms; the end, however busy it is';
comment on column user_session.address is 'where it began; null when not known';
comment on column user_session.browser is 'how the browser called itself; null when it did not';
create index user_session_user on user_session (user_id);
grant select, insert, update, delete on user_session to leasewatch_auth;

create table api_token (
    token_id int generated always as identity primary key,
    token_hash bytea not null unique check (octet_length(token_hash) = 32),
    user_id int not null references app_user,
    name text not null check (length(name) between 1 and 80),
    is_operator boolean not null,
    created_at bigint not null,
    expires_at bigint not null,
    used_at bigint,
    revoked_at bigint
);
comment on table api_token is 'acts for its user, and never with more than the user has at that moment';
comment on column api_token.is_operator is 'asks for every tenant; otherwise api_token_grant says which';
comment on column api_token.used_at is 'ms, to the minute; null before the first use';
create index api_token_user on api_token (user_id);
grant select, insert, update on api_token to leasewatch_auth;

create table user_link (
    link_id int generated always as identity primary key,
    link_hash bytea not null unique check (octet_length(link_hash) = 32),
    purpose text not null check (purpose in ('setup', 'invite', 'reset', 'sign_in')),
    user_id int references app_user,
    is_operator boolean not null,
    created_by int references app_user,
    created_at bigint not null,
    expires_at bigint not null,
    used_at bigint,
    check ((user_id is null) = (purpose in ('setup', 'invite')))
);
comment on table user_link is 'addresses that work once';
comment on column user_link.user_id is 'whom it is for; null: it makes a user';
comment on column user_link.is_operator is 'the user that it makes is an operator';
comment on column user_link.created_by is 'null: the command line or the first start';
comment on column user_link.used_at is 'ms; null while it can be used';
grant select, insert, update on user_link to leasewatch_auth;

create table membership (
    tenant_id int not null references tenant,
    user_id int not null references app_user,
    role text not null check (role in ('admin', 'viewer')),
    primary key (tenant_id, user_id)
);
comment on table membership is 'what a user who is no operator may see and change';

create table api_token_grant (
    tenant_id int not null references tenant,
    token_id int not null references api_token,
    role text not null check (role in ('admin', 'viewer')),
    primary key (tenant_id, token_id)
);

create table user_link_grant (
    tenant_id int not null references tenant,
    link_id int not null references user_link,
    role text not null check (role in ('admin', 'viewer')),
    primary key (tenant_id, link_id)
);
comment on table user_link_grant is 'memberships of the user that an invitation makes';

-- They name a tenant, so they are protected like everything that does, and then closed to all but
-- `auth`: who belongs to a tenant is no page of that tenant.
do $$
declare
    target regclass;
begin
    foreach target in array array['membership', 'api_token_grant', 'user_link_grant']::regclass[] loop
        perform leasewatch_protect(target);
        execute format('revoke all on %s from leasewatch_web, leasewatch_worker, leasewatch_operator', target);
        execute format('create policy auth_all on %s to leasewatch_auth using (true) with check (true)', target);
        execute format('grant select, insert, update, delete on %s to leasewatch_auth', target);
    end loop;
end
$$;

create policy auth_read on tenant for select to leasewatch_auth using (true);
grant select on tenant to leasewatch_auth;

reset role;
