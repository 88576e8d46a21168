// What scripts for Node do all day. A line for each thing that does not work.
const assert = require('assert');
const fs = require('fs');
const os = require('os');
const path = require('path');
const { promisify } = require('util');
const child = require('child_process');
const { Worker, isMainThread, parentPort } = require('worker_threads');

const CHECKS = {
  files() {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'x-'));
    fs.writeFileSync(path.join(folder, 'a'), 'x');
    fs.renameSync(path.join(folder, 'a'), path.join(folder, 'b'));
    fs.cpSync(folder, folder + '-copy', { recursive: true });
    assert.equal(fs.readFileSync(path.join(folder + '-copy', 'b'), 'utf8'), 'x');
    fs.rmSync(folder, { recursive: true });
  },
  async promised() {
    await fs.promises.writeFile(path.join(os.homedir(), 'p'), 'x');
    assert.equal((await fs.promises.stat(path.join(os.homedir(), 'p'))).size, 1);
  },
  machine() {
    assert(os.cpus().length > 0, 'no processors');
    try {
      assert(os.userInfo().username);
    } catch (error) {
      // As in many containers, and there is no name outside either.
      assert(error.code === 'ERR_SYSTEM_ERROR' && child.spawnSync('id', ['-un']).status !== 0, error);
    }
    assert(os.totalmem() && os.hostname());
    assert(process.memoryUsage().rss && process.cwd());
  },
  async commands() {
    assert.equal(child.execSync('echo a | tr a b').toString(), 'b\n');
    assert.equal((await promisify(child.execFile)(process.execPath, ['-p', '6 * 7'])).stdout, '42\n');
    const cat = child.spawn('cat');
    cat.stdin.end('x');
    assert.equal((await cat.stdout.toArray()).join(''), 'x');
  },
  async forks() {
    const forked = child.fork(__filename, ['forked']);
    const said = await new Promise((done, failed) => forked.on('message', done).on('error', failed));
    assert.equal(said, 'hello');
  },
  async workers() {
    const worker = new Worker(__filename);
    const said = await new Promise((done, failed) => worker.on('message', done).on('error', failed));
    assert.equal(said, 'hello');
  },
  async packed() {
    const zlib = require('zlib');
    assert.equal((await promisify(zlib.gunzip)(zlib.gzipSync('x'))).toString(), 'x');
  },
  async crypto() {
    const crypto = require('crypto');
    assert.equal(crypto.createHash('sha256').update('x').digest().length, 32);
    assert.equal((await promisify(crypto.scrypt)('a', 'b', 16)).length, 16);
    assert(require('tls').rootCertificates.length > 0);
  },
  wasm() {
    const memory = new WebAssembly.Memory({ initial: 1 });
    assert.equal(memory.buffer.byteLength, 65536);
  },
  async streams() {
    const { pipeline } = require('stream/promises');
    await pipeline(fs.createReadStream('/etc/passwd'), fs.createWriteStream('/dev/null'));
    assert.equal(fs.readFileSync(0).length, 0);
  },
  async modules() {
    assert((await import('node:path')).join);
    assert(require('http').createServer && new URL('http://x/').host === 'x');
  },
};

async function main() {
  for (const [name, check] of Object.entries(CHECKS)) {
    try {
      await check();
    } catch (error) {
      console.log(name, String(error));
    }
  }
  console.log(Object.keys(CHECKS).length, 'checks');
}

if (!isMainThread) parentPort.postMessage('hello');
else if (process.argv[2] === 'forked') process.send('hello', () => process.exit());
else main();
