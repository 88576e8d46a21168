// The host API of metier for scripts in Node 18 and later.
//
//     const {ctx, input} = require('metier');
//
//     const text = ctx.read_file('README.md');
//
// Every function of `metier api` is a method of `ctx`, under each of its names; it answers at once, and what it refuses
// throws MetierError. `input` is the input of the run. One thread of one process may call.
//
// A script whose skill says `worker: json-lines` answers run after run:
//
//     serve((input) => input.text.length);
'use strict';

const fs = require('fs');
const {isMainThread} = require('worker_threads');

const FUNCTIONS = JSON.parse({{functions}});

/** What the host refused: kind, as in 'denied', message, and help or null; output is what the process of a skill wrote. */
class MetierError extends Error {
  constructor(kind, message, help = null, output = null) {
    super(message);
    this.name = 'MetierError';
    this.kind = kind;
    this.help = help;
    this.output = output;
  }
}

const ids = new WeakMap();
let last = 0;
let rest = Buffer.alloc(0);

function ask(call, args) {
  const id = ++last;
  const fd = descriptor();
  try {
    give(fd, Buffer.from(text({id, call, args, doubles: true}) + '\n'));
    for (;;) {
      const answer = JSON.parse(line(fd));
      // A request that was broken off may still be answered; one whose id could not be read is this one.
      if (answer.id !== id && !(answer.id === null && 'error' in answer)) continue;
      if (!('error' in answer)) return answer.ok;
      const {kind, message, help, output} = answer.error;
      const error = new MetierError(kind, message, help, output);
      ids.set(error, id);
      throw error;
    }
  } catch (error) {
    throw error.code ? new MetierError('unavailable', `the host does not answer: ${error.message}`) : error;
  }
}

function descriptor() {
  const number = process.env.METIER_API_FD;
  if (number === undefined) {
    throw new MetierError('unavailable', 'the host API is there for scripts that metier runs in a sandbox');
  }
  if (!isMainThread) throw new MetierError('unavailable', 'ctx is there for the main thread');
  try {
    if (fs.fstatSync(Number(number)).isSocket()) return Number(number);
  } catch { /* It is closed. */ }
  throw new MetierError('unavailable', `descriptor ${number} does not lead to the host`);
}

function text(request) {
  try {
    return exact(request);
  } catch (error) {
    throw new MetierError('invalid-argument', `ctx.${request.call}: ${error.message}`);
  }
}

// JSON.stringify turns what has no JSON form into null or drops it.
function exact(value) {
  return JSON.stringify(value, (key, part) => {
    if (typeof part === 'number' && !Number.isFinite(part)) throw new TypeError(`${part} has no JSON form`);
    if (['function', 'symbol', 'bigint'].includes(typeof part)) {
      throw new TypeError(`a ${typeof part} has no JSON form`);
    }
    return part;
  });
}

function give(fd, data) {
  for (let given = 0; given < data.length;) given += patiently(() => fs.writeSync(fd, data, given));
}

function line(fd) {
  const parts = [];
  for (;;) {
    const end = rest.indexOf(10);
    if (end >= 0) {
      parts.push(rest.subarray(0, end));
      rest = rest.subarray(end + 1);
      return Buffer.concat(parts).toString();
    }
    parts.push(rest);
    const more = Buffer.allocUnsafe(65536);
    const count = patiently(() => fs.readSync(fd, more));
    if (count === 0) throw new MetierError('unavailable', 'the host has hung up');
    rest = more.subarray(0, count);
  }
}

// Another process may have told the descriptor not to wait.
function patiently(attempt) {
  for (;;) {
    try {
      return attempt();
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }
}

const ctx = {};
for (const {name, aliases} of FUNCTIONS) {
  for (const known of [name, ...aliases]) ctx[known] = (...args) => ask(name, args);
}

let given;

/**
 * Answers each run with `handler(input)`, or with what that promises, until there are no more. What it throws fails the run
 * and not the next ones. `process.argv` has the arguments of the run; `console.log` goes to standard error, since answers go
 * to standard output.
 */
async function serve(handler) {
  process.stdout.write = process.stderr.write.bind(process.stderr);
  process.stdin.setEncoding('utf8');
  let lines = '';
  for await (const part of process.stdin) {
    lines += part;
    for (let end = lines.indexOf('\n'); end >= 0; end = lines.indexOf('\n')) {
      const request = lines.slice(0, end);
      lines = lines.slice(end + 1);
      const answer = await answered(handler, request);
      give(1, Buffer.from(answer + '\n'));
    }
  }
}

async function answered(handler, text) {
  const {id, input, args} = JSON.parse(text);
  try {
    process.argv.splice(2, Infinity, ...args);
    // The host knows which integers a double would round.
    given = {value: /\d{16}/.test(text) ? ask('input', []) : input};
    return exact({id, ok: (await handler(given.value)) ?? null});
  } catch (error) {
    console.error(error);
    if (ids.has(error)) fail(error);
    const message = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    return JSON.stringify({id, error: {message}});
  }
}

// Tells the host which of its errors the script ends for; Node says so on its own.
process.on('uncaughtExceptionMonitor', (error) => {
  if (ids.has(error)) fail(error);
});

function fail(error) {
  const places = (error.stack || '').split('\n').filter((frame) => frame.includes(process.argv[1]));
  const place = places.length ? /:(\d+):\d+\)?$/.exec(places[0]) : null;
  try {
    ask('fail', [ids.get(error), 1, place ? Number(place[1]) : null]);
  } catch { /* The host knows the exit code at least. */ }
}

module.exports = {
  ctx: Object.freeze(ctx),
  MetierError,
  serve,
  get input() {
    given ??= {value: ask('input', [])};
    return given.value;
  },
};
