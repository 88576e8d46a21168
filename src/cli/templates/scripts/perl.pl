#!/usr/bin/env perl
# Lists the paths of the project that match a pattern.
use strict;
use warnings;
use JSON::PP;

# The input is JSON on standard input; there is none where the caller gave none.
my $text = do { local $/; <STDIN> } // '';
my $input = $text =~ /\S/ ? decode_json($text) : {};
my $pattern = $input->{pattern} // '*';

# `metier ctx` calls a function of the host; `metier api` lists them.
open(my $ctx, '-|', 'metier', 'ctx', 'glob', $pattern) or die "failed to start metier: $!\n";
my $files = do { local $/; <$ctx> };
close($ctx) or exit($? >> 8 || 1);
$files = decode_json($files);

# What the script prints is its result.
print encode_json({ pattern => $pattern, count => scalar @$files, files => $files }), "\n";
