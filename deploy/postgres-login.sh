#!/bin/sh
# Run by PostgreSQL's image when it makes its database: the role that the server logs in as. The
# server's migrations find it and give it its memberships; it owns nothing and has no other right.
# It is the last thing that is made, so the health check looks for it.
set -eu

psql --no-psqlrc --set ON_ERROR_STOP=1 --set password="$LEASEWATCH_DATABASE_PASSWORD" \
  --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
create role leasewatch_login login noinherit password :'password';
SQL
