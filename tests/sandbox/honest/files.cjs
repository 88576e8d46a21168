// Reads, writes, lists and removes files.
const fs = require('node:fs');

process.stdout.write(fs.readFileSync('own'));
fs.mkdirSync('out/deep/er', { recursive: true });
fs.writeFileSync('out/deep/er/new', 'new\n');
process.stdout.write(fs.readFileSync('out/deep/er/new'));
console.log(fs.readdirSync('.').sort().join(' '));
fs.rmSync('out/deep', { recursive: true });
console.log(fs.existsSync('out/deep') ? 'still there' : 'removed');
