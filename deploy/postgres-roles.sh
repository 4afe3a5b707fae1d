#!/bin/sh
# Run once by the database's image, on an empty volume: the owner of the books, the role that the service works as, and
# the database. The service never logs in as the superuser.
set -eu
: "${GPU_BILLING_DATABASE_PASSWORD:?}"

psql --no-psqlrc --set=ON_ERROR_STOP=1 --set=password="$GPU_BILLING_DATABASE_PASSWORD" \
    --username="${POSTGRES_USER:-postgres}" --dbname=postgres <<'SQL'
CREATE ROLE gpu_billing LOGIN PASSWORD :'password';
CREATE ROLE gpu_billing_app NOLOGIN;
GRANT gpu_billing_app TO gpu_billing;
CREATE DATABASE gpu_billing OWNER gpu_billing;
REVOKE CONNECT ON DATABASE gpu_billing FROM PUBLIC;
SQL
