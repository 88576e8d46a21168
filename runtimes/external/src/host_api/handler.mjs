// Calls the handler that a module exports: node handler.mjs DESCRIPTION MODULE [ARGUMENT...]
//
// DESCRIPTION is JSON: {skill, secrets, capabilities, timestamps}. The handler is an object or a class with a method `execute(ctx)`, which
// answers {success: true, data} or {success: false, error}, or with a promise of one. The data is printed as JSON; an error is the
// last line on standard error, and the exit code is 1.
import fs from 'node:fs';
import {createRequire, register} from 'node:module';
import {pathToFileURL} from 'node:url';

const metier = createRequire(import.meta.url)('./metier/index.js');
const {skill, secrets, capabilities, timestamps} = JSON.parse(process.argv[2]);
const module = process.argv[3];
const isConnected = process.env.METIER_API_FD !== undefined;

process.argv.splice(1, 3, module);
// The value alone goes to standard output.
process.stdout.write = process.stderr.write.bind(process.stderr);
register('./handler_hooks.mjs', import.meta.url);

try {
  const handler = instance(await import(pathToFileURL(module).href));
  const result = await handler.execute(context());
  if (result?.success === true) answer(result.data);
  else if (result?.success === false) fail(result.error ? text(result.error) : '');
  else fail('the handler answered neither {success: true, data} nor {success: false, error}');
} catch (error) {
  fail(text(error));
}

/** The default export with a method `execute`, or an instance of the first exported class with one. */
function instance(exported) {
  const isClass = (value) => typeof value === 'function' && typeof value.prototype?.execute === 'function';
  const own = exported.default;
  // In a CommonJS module the default export holds all others.
  const nested = own && typeof own === 'object' ? Object.values(own) : [];
  if (isClass(own)) return new own();
  if (typeof own?.execute === 'function') return own;
  const found = [...Object.values(exported), ...nested].find(isClass);
  if (!found) throw new Error('the module exports no object and no class with a method `execute`');
  return new found();
}

function context() {
  const ctx = {
    input: input(),
    secret,
    log: logger(),
    timezone: Intl.DateTimeFormat().resolvedOptions().timeZone,
  };
  for (const name of capabilities) ctx[name] = service(name);
  return ctx;
}

function input() {
  const given = isConnected ? metier.input : JSON.parse(fs.readFileSync(0, 'utf8').trim() || '{}');
  const fields = {...(given ?? {})};
  for (const name of timestamps) {
    if (typeof fields[name] === 'string' && fields[name].trim()) fields[name] = inUtc(name, fields[name].trim());
  }
  return fields;
}

/** A point in time in UTC; one without an offset is in the time zone of this process. */
function inUtc(name, written) {
  const time = /^\d{4}-\d{2}-\d{2}(?:([T ])\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(Z|[+-]\d{2}:?\d{2})?)?$/i.exec(written);
  // A date alone would be midnight in UTC.
  const date = time && new Date(time[1] ? written.replace(' ', 'T') : `${written}T00:00`);
  if (!date || Number.isNaN(date.getTime())) {
    throw new Error(
      `the input ${name} is ${JSON.stringify(written)}, which is no date and time: write it in ISO 8601 with an offset, such as ` +
        '2026-03-01T09:00:00+01:00',
    );
  }
  return date.toISOString();
}

/** A secret of the manifest; upper and lower case are one. */
function secret(name) {
  const declared = secrets.find((known) => known.toLowerCase() === String(name).toLowerCase());
  if (declared === undefined) throw new Error(`secret '${name}' is not declared in the manifest of ${skill}`);
  try {
    const value = metier.ctx.secret(declared);
    if (value) return value;
  } catch (error) {
    throw new Error(`secret '${declared}' is not set in the environment of this run: ${error.message}`);
  }
  throw new Error(`secret '${declared}' is not set in the environment of this run: it is empty`);
}

/** `log.error({err}, 'text')` or `log.error('text')`, with the levels of pino. */
function logger() {
  const log = {child: () => log, level: 'trace', isLevelEnabled: () => true};
  const levels = {trace: 'trace', debug: 'debug', info: 'info', warn: 'warn', error: 'error', fatal: 'error'};
  for (const [name, level] of Object.entries(levels)) {
    log[name] = (first, ...rest) => {
      const isText = typeof first === 'string';
      const words = isText ? [first, ...rest.map(text)] : [...rest.map(text), details(first)];
      const message = words.filter(Boolean).join(' ');
      if (isConnected) metier.ctx.log(level, message);
      else console.error(`${level}: ${message}`);
    };
  }
  log.silent = () => {};
  return log;
}

function details(object) {
  if (object instanceof Error) return text(object);
  try {
    return JSON.stringify(object, (_, part) => {
      if (part instanceof Error) return text(part);
      return typeof part === 'bigint' ? String(part) : part;
    });
  } catch {
    return String(object);
  }
}

/** A service of the host: the tool of its name, with the method that is called, if any, and its arguments. */
function service(name) {
  return new Proxy(async (...args) => metier.ctx.tool(name, {arguments: args}), {
    // A promise is told by its `then`, and this is none.
    get: (_, method) =>
      typeof method === 'string' && method !== 'then'
        ? async (...args) => metier.ctx.tool(name, {method, arguments: args})
        : undefined,
  });
}

function answer(data) {
  let printed;
  try {
    printed = JSON.stringify(data ?? null, (_, part) => {
      if (typeof part === 'number' && !Number.isFinite(part)) throw new TypeError(`${part} has no JSON form`);
      if (['function', 'symbol', 'bigint'].includes(typeof part)) {
        throw new TypeError(`a ${typeof part} has no JSON form`);
      }
      return part;
    });
  } catch (error) {
    fail(`the data of the answer cannot be written as JSON: ${error.message}`);
  }
  print(1, printed);
  process.exit(0);
}

function fail(message) {
  print(2, `${message.replace(/\s*[\r\n]+\s*/g, ' ').trim() || 'the handler failed and says nothing about it'}\n`);
  process.exit(1);
}

function text(value) {
  if (value instanceof Error) {
    const cause = value.cause instanceof Error ? `: ${value.cause.message}` : '';
    return `${value.message || value.name}${cause}`;
  }
  return typeof value === 'string' ? value : details(value) ?? String(value);
}

function print(fd, written) {
  const data = Buffer.from(written);
  for (let at = 0; at < data.length;) {
    try {
      at += fs.writeSync(fd, data, at);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }
}
