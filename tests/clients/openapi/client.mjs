// Tools that `metier import openapi` makes of GitHub's published description, called by the official TypeScript client against a server
// that Prism makes of the same description. Prism refuses each request that does not fit it.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [metier, packages, prism, description] = process.argv.slice(2);
const resolve = createRequire(join(packages, 'package.json')).resolve;
const load = (name) => import(pathToFileURL(resolve(name)));
const { Client } = await load('@modelcontextprotocol/client');
const { StdioClientTransport } = await load('@modelcontextprotocol/client/stdio');

// A contract does not hold all operations of GitHub.
const TAGS = ['issues', 'pulls', 'activity', 'orgs'];
const MIN_CALLS = 200;
const START_SECONDS = 120;

const folder = mkdtempSync(join(tmpdir(), 'metier-openapi-'));
const project = join(folder, 'project');
mkdirSync(join(project, '.metier'), { recursive: true });
const secrets = TAGS.map((tag) => `${tag.toUpperCase()}_TOKEN`);
const env = { PATH: process.env.PATH, HOME: folder, ...Object.fromEntries(secrets.map((name) => [name, 'fake-token-of-a-test-of-github'])) };

async function freePort() {
    const server = createServer();
    await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
    const { port } = server.address();
    await new Promise((closed) => server.close(closed));
    return port;
}

async function waitFor(address) {
    for (let second = 0; second < START_SECONDS; second++) {
        const answer = await fetch(address).catch(() => undefined);
        if (answer) return;
        await new Promise((later) => setTimeout(later, 1000));
    }
    throw new Error(`Prism does not answer at ${address}`);
}

// A value that a schema allows, with what it requires and nothing else.
function example(schema) {
    const [type] = [schema.type].flat();
    const alternative = schema.oneOf?.[0] ?? schema.anyOf?.[0] ?? schema.allOf?.[0];
    if (schema.enum) return schema.enum[0];
    if (schema.default !== undefined) return schema.default;
    if (type === undefined && alternative) return example(alternative);
    switch (type) {
        case 'integer':
        case 'number':
            return schema.minimum ?? 1;
        case 'boolean':
            return true;
        case 'array':
            return Array.from({ length: schema.minItems ?? 0 }, () => example(schema.items ?? {}));
        case 'object':
            return requiredValues(schema);
        default:
            return exampleText(schema);
    }
}

function exampleText({ format, minLength, pattern }) {
    const texts = { 'date-time': '2026-01-02T03:04:05Z', date: '2026-01-02', uri: 'https://example.com/', email: 'a@example.com' };
    const digest = `sha256:${'0'.repeat(64)}`;
    if (pattern && new RegExp(pattern).test(digest)) return digest;
    return texts[format] ?? 'x'.repeat(minLength || 1);
}

function requiredValues({ properties = {}, required = [] }) {
    return Object.fromEntries(required.map((name) => [name, example(properties[name] ?? {})]));
}

async function toolsOf(client) {
    const found = [];
    for (let cursor; ; ) {
        const page = await client.listTools(cursor ? { cursor } : undefined);
        found.push(...page.tools);
        cursor = page.nextCursor;
        if (!cursor) return found;
    }
}

const port = await freePort();
const address = `http://127.0.0.1:${port}`;
const server = spawn(prism, ['mock', '--port', port, '--host', '127.0.0.1', description], { stdio: 'ignore' });
try {
    for (const tag of TAGS) {
        const command = ['import', 'openapi', description, '--only', `tag:${tag}`, '--name', tag, '--base-url', address, '--auth', 'bearer'];
        execFileSync(metier, [...command, '--project', project], { env, cwd: project, stdio: ['ignore', 'ignore', 'inherit'] });
    }
    execFileSync(metier, ['trust', '--yes', '--project', project], { env, stdio: ['ignore', 'ignore', 'inherit'] });
    await waitFor(address);
    const client = new Client({ name: 'openapi', version: '1' });
    const grants = ['net:127.0.0.1', ...secrets.map((name) => `secret:${name}`)];
    const args = ['mcp', '--project', project, ...grants.flatMap((grant) => ['--allow', grant])];
    await client.connect(new StdioClientTransport({ command: metier, args, env }));
    const tools = (await toolsOf(client)).filter(({ name }) => TAGS.some((tag) => name.startsWith(`${tag}_`)));
    const refused = [];
    for (const { name, inputSchema } of tools) {
        const result = await client.callTool({ name, arguments: requiredValues(inputSchema) });
        if (result.isError) refused.push(`${name}: ${result.content[0]?.text}`);
    }
    const answered = tools.length - refused.length;
    console.log(`  Prism answers ${answered} of ${tools.length} tools`);
    console.log(refused.map((line) => `    ${line.replaceAll('\n', ' ')}`).join('\n'));
    assert(answered >= MIN_CALLS, `at least ${MIN_CALLS} tools are answered`);
    await client.close();
} finally {
    server.kill();
    rmSync(folder, { recursive: true, force: true });
}
