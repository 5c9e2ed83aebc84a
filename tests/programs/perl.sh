#!/usr/bin/env bash
# Perl: hashes, strings that grow, regular expressions, sorting, fork.
. "$(dirname "$0")/common.sh"
need perl perl
active perl -e '1'
cat >"$work/work.pl" <<'PERL'
use strict; use warnings;
my (%words, @lines); my $seed = 42;
sub next_number { $seed = ($seed * 1103515245 + 12345) % 2147483648; return $seed >> 8; }
for my $i (1 .. 120000) {
    my $word = join '', map { chr(97 + next_number() % 26) } 1 .. 2 + next_number() % 9;
    $words{$word}++; push @{$words{"list" . ($i % 50)}{list}}, $word if 0;
    push @lines, "$i:$word" x (1 + $i % 5);
}
my $text = join "\n", @lines; my $count = () = $text =~ /([aeiou]{2,}\d*)/g;
$text =~ s/(\w)(\w)/$2$1/g;
my @sorted = sort { $words{$b} <=> $words{$a} || $a cmp $b } keys %words;
print scalar(@sorted), " $count ", length($text), " $sorted[0] $sorted[-1]\n";
for my $child (1 .. 8) { my $pid = fork(); if (!$pid) { my @a = map { "x" x $_ } 1 .. 2000; exit(@a == 2000 ? 0 : 1); } waitpid $pid, 0; print "child $?\n"; }
PERL
same perl perl "$work/work.pl"
say "$(tail -n 1 "$work/perl.with")"
