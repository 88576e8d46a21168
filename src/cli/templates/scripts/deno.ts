#!/usr/bin/env -S deno run --allow-all
// Lists the paths of the project that match a pattern.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

// The input is JSON on standard input; there is none where the caller gave none.
const text: string = readFileSync(0, 'utf8');
const input: { pattern?: string } = text.trim() === '' ? {} : JSON.parse(text);
const pattern = input.pattern ?? '*';

// `metier ctx` calls a function of the host; `metier api` lists them.
const answer = execFileSync('metier', ['ctx', 'glob', pattern], { encoding: 'utf8' });
const files: string[] = JSON.parse(answer);

// What the script prints is its result.
console.log(JSON.stringify({ pattern, count: files.length, files }));
