#!/usr/bin/env bash
# nginx with four workers under load: files of many sizes, compressed and not, with a reload in the middle, which ends the
# workers and starts others.
. "$(dirname "$0")/common.sh"
need nginx nginx-light
need python3 python3
. "$(dirname "$0")/servers.sh"
here=$(dirname "$0")
mkdir "$work/pages" "$work/temporary"
seq 1 300000 >"$work/text"
paths=
for size in 0 1 300 4000 70000 1500000; do
    head -c $size "$work/text" >"$work/pages/$size.txt"
    paths="$paths /$size.txt"
done
port=$(free_port)
cat >"$work/nginx.conf" <<CONF
daemon off;
worker_processes 4;
user $(id -un) $(id -gn);
pid $work/nginx.pid;
error_log $work/error.log;
events { worker_connections 256; }
http {
    access_log off;
    client_body_temp_path $work/temporary; proxy_temp_path $work/temporary; fastcgi_temp_path $work/temporary;
    uwsgi_temp_path $work/temporary; scgi_temp_path $work/temporary;
    gzip on; gzip_types text/plain; gzip_min_length 200; gzip_comp_level 3;
    default_type text/plain;
    server { listen 127.0.0.1:$port; root $work/pages; location /through/ { proxy_pass http://127.0.0.1:$port/; } }
}
CONF
rounds=4
[ "$long" != long ] || rounds=400
load() {
    # The words are paths.
    # shellcheck disable=SC2086
    timeout 600 python3 "$here/load.py" "$port" 8 $rounds $paths /through/70000.txt /through/4000.txt /none >"$1"
}
is_up() { python3 "$here/load.py" "$port" 1 1 /1.txt; }
served() {
    start "$2" "$work/server.$1" nginx -p "$work" -c "$work/nginx.conf"
    until_ready "$work/server.$1" is_up
    [ -z "$2" ] || in_server
    load "$work/nginx.$1" || { tail -n 20 "$work/error.log"; die "a load failed $1"; }
    kill -HUP "$server"
    load "$work/again.$1" || { tail -n 20 "$work/error.log"; die "a load failed after the reload, $1"; }
    end_server QUIT
    if grep -E 'exited on signal|emerg|alert' "$work/error.log"; then die "a worker ended badly"; fi
}
served without ""
served with "$library"
same_answers nginx
same_answers again
