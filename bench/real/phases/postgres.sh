#!/bin/sh
# PostgreSQL over phases: postgres.sh. One session sorts, aggregates and builds documents of several widths, and keeps a
# hundred prepared statements and a few open cursors of each phase; what is measured is its backend.
set -eu

bin=$(pg_config --bindir)
folder=$(mktemp -d "${TMPDIR:-/tmp}/freehold-phases.XXXXXX")
# The server refuses to run as root.
as=
if [ "$(id -u)" = 0 ]; then
    chown postgres "$folder"
    as="runuser -u postgres --"
fi
cd "$folder"
trap '$as "$bin/pg_ctl" -D "$folder/data" -m immediate stop > /dev/null 2>&1 || true; rm -rf "$folder"' EXIT

$as "$bin/initdb" -D "$folder/data" -A trust --no-sync > /dev/null
$as env LD_PRELOAD="$PHASES_LIBRARY" "$bin/pg_ctl" -D "$folder/data" -w -l "$folder/log" \
    -o "-c listen_addresses='' -k $folder -c shared_buffers=16MB -c work_mem=64MB -c fsync=off -c max_parallel_workers_per_gather=0 -c jit=off" \
    start > /dev/null < /dev/null
$as psql -h "$folder" -d postgres -q -A -t -f - < "$PHASES/postgres_begin.sql" > /dev/null
$as psql -h "$folder" -d postgres -q -A -t -f "$PHASES/postgres.sql"
