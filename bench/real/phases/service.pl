# A Perl service over phases: service.pl SIZE... It keeps a hash of strings by number. In each phase it drops nine in ten of the
# strings of the phase before, at random, and makes new ones of half to twice another size, until they hold PHASES_MIB.
use strict;
use warnings;
use List::Util 'shuffle';

my $phase_bytes = ($ENV{PHASES_MIB} // 64) * 1024 * 1024;
my $survive = $ENV{PHASES_SURVIVE} // 0.1;
my (%table, @latest);
my $number = 0;
$| = 1;
srand(1);
for my $size (@ARGV) {
    my @mixed = shuffle(@latest);
    delete @table{ splice(@mixed, int(@mixed * $survive)) };
    @latest = ();
    for (my $left = $phase_bytes; $left > 0; $number++) {
        my $n = int($size * 2**(2 * rand() - 1));
        $table{$number} = 'x' x $n;
        push @latest, $number;
        $left -= $n + 150;
    }
    print "phase\n";
    <STDIN>;
}
