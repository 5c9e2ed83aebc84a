#!/usr/bin/env bash
# PHP-FPM behind nginx, with four workers that end after ten requests each, under load. Extensions that the script uses are
# loaded with RTLD_DEEPBIND.
. "$(dirname "$0")/common.sh"
fpm=$(find /usr/sbin -name 'php-fpm*' 2>/dev/null | sort -V | tail -n 1)
[ -n "$fpm" ] || skip "no php-fpm (package php-fpm)"
need nginx nginx-light
need python3 python3
. "$(dirname "$0")/servers.sh"
here=$(dirname "$0")
mkdir "$work/pages" "$work/temporary"
cat >"$work/pages/page.php" <<'PHP'
<?php
$rows = [];
for ($i = 0; $i < 800; $i++) $rows["k$i"] = ['i' => $i, 'text' => str_repeat(md5((string)$i), $i % 30), 'sub' => range(0, $i % 10)];
uasort($rows, fn($a, $b) => strcmp($a['text'], $b['text']) ?: $a['i'] <=> $b['i']);
$json = json_encode($rows);
echo strlen($json), ' ', md5($json), "\n";
echo count(json_decode($json, true)), "\n";
echo md5(preg_replace_callback('/([0-9]+)([a-f]*)/', fn($m) => $m[2] . $m[1], substr($json, 0, 300000))), "\n";
echo md5(serialize(unserialize(serialize($rows)))), "\n";
$buffer = '';
for ($i = 0; $i < 50000; $i++) $buffer .= chr($i % 251);
echo strlen($buffer), ' ', crc32($buffer), ' ', strlen(implode(',', str_split($buffer, 7))), "\n";
if (function_exists('gzcompress')) echo md5(gzuncompress(gzcompress($json, 6))), "\n";
if (function_exists('mb_strtoupper')) echo md5(mb_strtoupper($json)), "\n";
if (class_exists('DOMDocument')) {
    $d = new DOMDocument();
    $root = $d->appendChild($d->createElement('r'));
    for ($i = 0; $i < 2000; $i++) $root->appendChild($d->createElement('e', "$i"))->setAttribute('n', "$i");
    $again = new DOMDocument();
    $again->loadXML($d->saveXML());
    echo (new DOMXPath($again))->evaluate('sum(//e[@n>1000])'), "\n";
}
if (class_exists('PDO') && in_array('sqlite', PDO::getAvailableDrivers())) {
    $db = new PDO('sqlite::memory:');
    $db->exec('create table t(a, b)');
    $put = $db->prepare('insert into t values(?, ?)');
    for ($i = 0; $i < 500; $i++) $put->execute([$i, md5("$i")]);
    foreach ($db->query('select count(*), sum(a), max(b) from t') as $row) echo implode(' ', array_unique($row)), "\n";
}
echo strlen(file_get_contents('php://input')), ' ', count($_GET), "\n";
PHP

port=$(free_port)
socket=$(mktemp -u /tmp/freehold-php-XXXXXX)
cat >"$work/fpm.conf" <<CONF
[global]
daemonize = no
error_log = $work/fpm.log
[www]
listen = $socket
pm = static
pm.max_children = 4
pm.max_requests = 10
$([ "$(id -u)" != 0 ] || printf 'user = root\ngroup = root\n')
CONF
cat >"$work/nginx.conf" <<CONF
daemon off;
user $(id -un) $(id -gn);
pid $work/nginx.pid;
error_log $work/error.log;
events { worker_connections 256; }
http {
    access_log off;
    client_body_temp_path $work/temporary; proxy_temp_path $work/temporary; fastcgi_temp_path $work/temporary;
    uwsgi_temp_path $work/temporary; scgi_temp_path $work/temporary;
    server {
        listen 127.0.0.1:$port;
        location / { include /etc/nginx/fastcgi_params; fastcgi_param SCRIPT_FILENAME $work/pages/page.php; fastcgi_pass unix:$socket; }
    }
}
CONF
rounds=3
[ "$long" != long ] || rounds=300
# nginx is there before PHP is, and says 502 then.
is_up() { python3 "$here/load.py" "$port" 1 1 / | grep -q "^/ 200 "; }
start "" "$work/server.nginx" nginx -p "$work" -c "$work/nginx.conf"
front=$server
trap 'end_server KILL; kill "$front" 2>/dev/null || true; wait "$front" 2>/dev/null || true; rm -f "$socket"' EXIT
served() {
    local root=
    [ "$(id -u)" != 0 ] || root=-R
    start "$2" "$work/server.$1" "$fpm" -F $root -y "$work/fpm.conf"
    until_ready "$work/server.$1" is_up
    [ -z "$2" ] || in_server
    timeout 600 python3 "$here/load.py" "$port" 5 $rounds / '/?a=1&b=2' /post >"$work/fpm.$1" ||
        { tail -n 20 "$work/fpm.log" "$work/error.log"; die "a load failed $1"; }
    end_server QUIT
    if grep -E 'exited on signal' "$work/fpm.log"; then die "a worker ended badly"; fi
}
served without ""
served with "$library"
same_answers fpm
