# verify_dkim.pl NAME RECORD < message: what Perl's Mail::DKIM says of the message's signature, e.g. `pass`.
# Asks no DNS: RECORD is what the TXT record called NAME says; no other name has one.
use strict;
use warnings;
use Mail::DKIM::Verifier;
use Net::DNS;

my ($name, $record) = @ARGV;
{
    no warnings 'redefine';
    *Mail::DKIM::DNS::query_async = sub {
        my ($asked, $type, %options) = @_;
        my @found;
        if (lc $asked eq lc $name && $type eq 'TXT') {
            push @found, Net::DNS::RR->new(name => $name, type => 'TXT', txtdata => [unpack '(a255)*', $record]);
        }
        my $answer = $options{Callbacks}{Success}->(@found);
        return sub { $answer };
    };
}
my $verifier = Mail::DKIM::Verifier->new;
binmode STDIN;
while (read STDIN, my $octets, 65536) {
    $verifier->PRINT($octets);
}
$verifier->CLOSE;
print $verifier->result_detail, "\n";
