// The built-in skills for services in the official TypeScript client: all of their tools are listed once their settings are there, and
// each of them is called with a recorded case, whose requests reach a server on this machine in the place of the service.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [metier, packages] = process.argv.slice(2);
const resolve = createRequire(join(packages, 'package.json')).resolve;
const load = (name) => import(pathToFileURL(resolve(name)));
const { Client } = await load('@modelcontextprotocol/client');
const { StdioClientTransport } = await load('@modelcontextprotocol/client/stdio');

const toolCounts = { github: 8, linear: 8, slack: 2, sentry: 4, datadog: 3, notification: 3, supabase: 9, betterstack: 4 };
const skillNames = Object.keys(toolCounts);

const folder = mkdtempSync(join(tmpdir(), 'metier-services-'));
const project = join(folder, 'project');
mkdirSync(join(project, '.metier', 'skills'), { recursive: true });

function check(holds, what) {
    assert(holds, what);
    console.log(`  ${what}`);
}

// What follows the origin of a URL.
const pathOf = (url) => url.replace(/^[a-z]+:\/\/[^/?]+/, '').replace(/^(?!\/)/, '/');
const methodAndPath = (method, url) => `${method} ${pathOf(url)}`;

// Answers the requests of one call at a time, as its case says.
const received = [];
let answers = {};
const service = createServer(async (request, response) => {
    let body = '';
    for await (const part of request) body += part;
    received.push({ request: methodAndPath(request.method, request.url), headers: request.headers, body });
    const named = Object.entries(answers).find(([key]) => {
        const [method, url] = key.includes(' ') ? key.split(' ') : [request.method, key];
        return methodAndPath(method, url) === methodAndPath(request.method, request.url);
    });
    const answer = Array.isArray(named?.[1]) ? named[1].shift() : named?.[1];
    response.writeHead(answer ? (answer.status ?? 200) : 404, answer?.headers);
    response.end(answer?.body ?? JSON.stringify(answer?.json ?? { message: 'no answer' }));
});
await new Promise((ready) => service.listen(0, '127.0.0.1', ready));
const here = `http://127.0.0.1:${service.address().port}`;

// A skill whose address is fixed has that of the server in its place.
for (const name of ['linear', 'slack', 'datadog', 'betterstack']) {
    const copy = join(project, '.metier', 'skills', name);
    cpSync(join('skills', name), copy, { recursive: true });
    const definition = readFileSync(join(copy, 'skill.yaml'), 'utf8');
    const moved = definition.replace(/base_url: https:\/\/[^/\s]+/, `base_url: ${here}`);
    assert.notEqual(moved, definition);
    writeFileSync(join(copy, 'skill.yaml'), moved);
}

const settings = {
    GITHUB_API_URL: here,
    SENTRY_BASE_URL: here,
    SENTRY_ORG: 'acme',
    SUPABASE_URL: here,
    BETTERSTACK_QUERY_ENDPOINT: here,
};
const addresses = ['BETTERSTACK_QUERY_ENDPOINT', 'SUPABASE_URL'];
const secrets = {};

// For each tool the first case that ends well with these settings, and with the secrets of the cases before it.
function chooseCases(skill) {
    const folder = join('skills', skill, 'cases');
    const cases = readdirSync(folder).sort().map((file) => JSON.parse(readFileSync(join(folder, file), 'utf8')));
    const chosen = new Map();
    for (const one of cases) {
        const { config = {}, secrets: ownSecrets = {}, http = {} } = one.given ?? {};
        const endsWell = one.tool && one.expect.error === undefined && one.expect.value !== undefined;
        const hasSettings = Object.entries(config).every(([name, value]) => addresses.includes(name) || settings[name] === value);
        const hasSecrets = Object.entries(ownSecrets).every(([name, value]) => [undefined, moved(value)].includes(secrets[name]));
        const isHere = !Object.keys(one.input).some((name) => name.endsWith('url')) && Object.keys(http).length > 0;
        if (!endsWell || !hasSettings || !hasSecrets || !isHere || chosen.has(one.tool)) continue;
        chosen.set(one.tool, one);
        for (const [name, value] of Object.entries(ownSecrets)) secrets[name] = moved(value);
    }
    return [...chosen.values()].map((one) => ({ ...one, skill }));
}

// The secrets that are addresses.
function moved(value) {
    return value.startsWith('https://') ? here + pathOf(value) : value;
}

const cases = skillNames.flatMap(chooseCases);
const grants = [
    'net:127.0.0.1',
    ...Object.keys(settings).map((name) => `env:${name}`),
    ...Object.keys(secrets).map((name) => `secret:${name}`),
];
const bareEnv = { PATH: process.env.PATH, HOME: folder };
const env = { ...bareEnv, ...settings, ...secrets };
const args = ['mcp', '--project', project, ...grants.flatMap((grant) => ['--allow', grant])];

// A value that is no object is wrapped, since the protocol has no other structured content.
function valueOf({ structuredContent, content }) {
    if (structuredContent === undefined) return content[0]?.text ?? '';
    const isWrapped = Object.keys(structuredContent).join() === 'result';
    return isWrapped ? structuredContent.result : structuredContent;
}

async function toolNames(env) {
    const client = new Client({ name: 'services', version: '1' });
    await client.connect(new StdioClientTransport({ command: metier, args, env }));
    const found = [];
    for (let cursor; ; ) {
        const page = await client.listTools(cursor ? { cursor } : undefined);
        found.push(...page.tools.map((tool) => tool.name));
        cursor = page.nextCursor;
        if (!cursor) return { client, found };
    }
}

try {
    execFileSync(metier, ['trust', '--yes', '--project', project], { env: bareEnv });
    const bare = await toolNames(bareEnv);
    const isOfService = (name) => skillNames.some((service) => name.startsWith(`${service}_`));
    check(!bare.found.some(isOfService), 'no service is offered that nobody set up');
    await bare.client.close();

    const { client, found } = await toolNames(env);
    for (const [skill, count] of Object.entries(toolCounts)) {
        check(found.filter((name) => name.startsWith(`${skill}_`)).length === count, `${skill} lists ${count} tools`);
    }
    for (const { skill, tool, input, given, expect } of cases) {
        answers = structuredClone(given.http);
        received.length = 0;
        const result = await client.callTool({ name: `${skill}_${tool}`, arguments: input });
        const text = result.content[0]?.text ?? '';
        assert(!result.isError, `${skill}_${tool}: ${text}`);
        assert.deepEqual(valueOf(result), expect.value);
        for (const [at, { method, url, json }] of (expect.requests ?? []).entries()) {
            const [receivedMethod, receivedPath] = received[at].request.split(' ');
            assert.equal(receivedMethod, method ?? receivedMethod);
            assert.equal(receivedPath, url === undefined ? receivedPath : pathOf(url));
            if (json !== undefined) assert.deepEqual(JSON.parse(received[at].body), json);
        }
        check(received.length > 0, `${skill}_${tool}: ${received.map(({ request }) => request).join(', ')}`);
    }
    const called = new Set(cases.map(({ skill, tool }) => `${skill}_${tool}`));
    check(called.size === 41 && found.filter(isOfService).every((name) => called.has(name)), 'each of the 41 tools was called');
    await client.close();
} finally {
    service.close();
    rmSync(folder, { recursive: true, force: true });
}
