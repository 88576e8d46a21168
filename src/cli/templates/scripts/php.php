#!/usr/bin/env php
<?php
// Lists the paths of the project that match a pattern.

// The input is JSON on standard input; there is none where the caller gave none.
$text = trim(stream_get_contents(STDIN));
$input = $text === '' ? [] : json_decode($text, true, 512, JSON_THROW_ON_ERROR);
$pattern = $input['pattern'] ?? '*';

// `metier ctx` calls a function of the host; `metier api` lists them.
exec('metier ctx glob ' . escapeshellarg($pattern), $lines, $code);
if ($code !== 0) {
    exit($code);
}
$files = json_decode(implode("\n", $lines), true, 512, JSON_THROW_ON_ERROR);

// What the script prints is its result.
echo json_encode(['pattern' => $pattern, 'count' => count($files), 'files' => $files]), "\n";
