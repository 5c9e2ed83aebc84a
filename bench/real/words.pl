# Hashes of arrays of strings, built, sorted, joined and thrown away.
use strict;
use warnings;
my $sum = 0;
for my $round (1 .. 5) {
    my %by_key;
    for my $i (1 .. 200_000) {
        push @{ $by_key{ "key" . ($i * 7919 % 20011) } }, "value $i of round $round";
    }
    my @lines = map { "$_=" . join(";", @{ $by_key{$_} }) } sort keys %by_key;
    my %letters;
    $letters{$_}++ for map { length } @lines;
    my $text = join "\n", @lines;
    my @words = $text =~ /(\d+)/g;
    $sum = ($sum * 31 + @words + length($text) + keys %letters) % 1000000007;
}
print "$sum\n";
