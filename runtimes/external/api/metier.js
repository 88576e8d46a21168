// The host API of metier for scripts in Node 18 and later.
//
//     const {ctx, input} = require('metier');
//
//     const text = ctx.read_file('README.md');
//
// Every function of `metier api` is a method of `ctx`, under each of its names; it answers at once, and what it refuses
// throws MetierError. `input` is the input of the run. One thread of one process may call.
'use strict';

const fs = require('fs');
const {isMainThread} = require('worker_threads');

const FUNCTIONS = JSON.parse({{functions}});

/** What the host refused: kind, as in 'denied', message, and help or null. */
class MetierError extends Error {
  constructor(kind, message, help = null) {
    super(message);
    this.name = 'MetierError';
    this.kind = kind;
    this.help = help;
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
      // A request that was broken off may still be answered.
      if (answer.id !== id) continue;
      if (!('error' in answer)) return answer.ok;
      const {kind, message, help} = answer.error;
      const error = new MetierError(kind, message, help);
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

// JSON.stringify turns what has no JSON form into null or drops it.
function text(request) {
  try {
    return JSON.stringify(request, (key, value) => {
      if (typeof value === 'number' && !Number.isFinite(value)) throw new TypeError(`${value} has no JSON form`);
      if (['function', 'symbol', 'bigint'].includes(typeof value)) {
        throw new TypeError(`a ${typeof value} has no JSON form`);
      }
      return value;
    });
  } catch (error) {
    throw new MetierError('invalid-argument', `ctx.${request.call}: ${error.message}`);
  }
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

// Tells the host which of its errors the script ends for; Node says so on its own.
process.on('uncaughtExceptionMonitor', (error) => {
  if (!ids.has(error)) return;
  const places = (error.stack || '').split('\n').filter((frame) => frame.includes(process.argv[1]));
  const place = places.length ? /:(\d+):\d+\)?$/.exec(places[0]) : null;
  try {
    ask('fail', [ids.get(error), 1, place ? Number(place[1]) : null]);
  } catch { /* The host knows the exit code at least. */ }
});

let given;
module.exports = {
  ctx: Object.freeze(ctx),
  MetierError,
  get input() {
    given ??= {value: ask('input', [])};
    return given.value;
  },
};
