#!/usr/bin/env bash
# PHP opens each extension with RTLD_DEEPBIND, which gives it another malloc than the program: blocks of both kinds cross the
# border at once. The extensions that are installed are used; their strings, trees and rows come and go.
. "$(dirname "$0")/common.sh"
need php php-cli
active php -r 'exit(0);'
cat >"$work/work.php" <<'PHP'
<?php
mt_srand(7);
$live = [];
$sum = 0;
for ($i = 0; $i < 300000; $i++) {
    $at = mt_rand(0, 20000);
    if (isset($live[$at])) $sum = ($sum + strlen($live[$at])) % 1000000007;
    $live[$at] = str_repeat('x', mt_rand(0, 300)) . $i;
}
echo $sum, " ", count($live), "\n";
if (extension_loaded('mbstring')) {
    $text = '';
    for ($i = 0; $i < 2000; $i++) $text .= mb_strtoupper("straße $i ");
    echo md5(mb_convert_encoding($text, 'UTF-16LE', 'UTF-8')), "\n";
}
if (extension_loaded('dom')) {
    for ($round = 0; $round < 20; $round++) {
        $document = new DOMDocument();
        $document->loadXML('<a>' . str_repeat('<b x="1">text<c/></b>', 1000) . '</a>');
        foreach (iterator_to_array($document->getElementsByTagName('c')) as $node) $node->parentNode->removeChild($node);
        $sum = strlen($document->saveXML());
    }
    echo $sum, "\n";
}
if (extension_loaded('pdo_sqlite')) {
    $db = new PDO('sqlite::memory:');
    $db->exec('create table t (a integer, b text)');
    $insert = $db->prepare('insert into t values (?, ?)');
    for ($i = 0; $i < 5000; $i++) $insert->execute([$i, str_repeat('y', $i % 200)]);
    echo implode(' ', $db->query('select sum(a), sum(length(b)) from t')->fetch(PDO::FETCH_NUM)), "\n";
}
if (extension_loaded('openssl')) echo strlen(openssl_encrypt(str_repeat('z', 100000), 'aes-128-ctr', 'k', 0, str_repeat("\0", 16))), "\n";
$pieces = [];
for ($i = 0; $i < 50000; $i++) $pieces[] = (string)$i;
sort($pieces, SORT_STRING);
echo md5(implode(',', $pieces)), " ", preg_match_all('/\d+/', implode(',', $pieces)), "\n";
PHP
same php php "$work/work.php"
