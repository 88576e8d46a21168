// The built-in skills for services in the official TypeScript client: all of their tools are listed once their settings are there, and
// calls reach a server on this machine in the place of the services.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
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

const folder = mkdtempSync(join(tmpdir(), 'metier-services-'));
const project = join(folder, 'project');
mkdirSync(join(project, '.metier'), { recursive: true });

function check(holds, what) {
    if (!holds) throw new Error(`failed: ${what}`);
    console.log(`  ${what}`);
}

const answers = {
    'GET /repos/octocat/hello-world/issues/7': { number: 7, title: 'One of many', labels: [], node_id: 'x' },
    'GET /api/0/organizations/acme/issues/7/': { id: '7', title: 'TypeError', project: { slug: 'web' } },
    'GET /rest/v1/orders?limit=100&select=%2A': [{ id: 1 }],
    'POST /slack': 'ok',
    'POST /discord': '',
    'POST /query?output_format_pretty_row_numbers=0': '{"n":1}\n{"n":2}\n',
};
const requests = [];
const service = createServer((request, response) => {
    const named = `${request.method} ${request.url}`;
    requests.push(named);
    const answer = answers[named];
    response.statusCode = answer === undefined ? 404 : 200;
    response.end(typeof answer === 'string' ? answer : JSON.stringify(answer ?? { message: `no answer for ${named}` }));
});
await new Promise((ready) => service.listen(0, '127.0.0.1', ready));
const here = `http://127.0.0.1:${service.address().port}`;

const settings = {
    GITHUB_API_URL: here,
    SENTRY_BASE_URL: here,
    SENTRY_ORG: 'acme',
    SUPABASE_URL: here,
    BETTERSTACK_QUERY_ENDPOINT: `${here}/query`,
};
const secrets = {
    GITHUB_TOKEN: 'fake-github',
    SENTRY_AUTH_TOKEN: 'fake-sentry',
    SUPABASE_SERVICE_ROLE_KEY: 'fake-supabase',
    BETTERSTACK_API_TOKEN: 'fake-betterstack',
    BETTERSTACK_QUERY_USERNAME: 'fake-reader',
    BETTERSTACK_QUERY_PASSWORD: 'fake-password',
    SLACK_WEBHOOK_URL: `${here}/slack`,
    DISCORD_WEBHOOK_URL: `${here}/discord`,
    LINEAR_API_KEY: 'fake-linear',
    DD_API_KEY: 'fake-datadog',
    DD_APP_KEY: 'fake-application',
};
const grants = [
    'net:127.0.0.1',
    ...Object.keys(settings).map((name) => `env:${name}`),
    ...Object.keys(secrets).map((name) => `secret:${name}`),
];
const env = { PATH: process.env.PATH, HOME: folder, ...settings, ...secrets };
const args = ['mcp', '--project', project, ...grants.flatMap((grant) => ['--allow', grant])];
const names = ['github', 'linear', 'slack', 'sentry', 'datadog', 'notification', 'supabase', 'betterstack'];

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
    const bare = await toolNames({ PATH: process.env.PATH, HOME: folder });
    const isOfService = (name) => names.some((service) => name.startsWith(`${service}_`));
    check(!bare.found.some(isOfService), 'no service is offered that nobody set up');
    await bare.client.close();

    const { client, found } = await toolNames(env);
    const counts = names.map((service) => found.filter((name) => name.startsWith(`${service}_`)).length);
    check(counts.join() === '8,8,2,4,3,3,9,4', `the eight services list 41 tools: ${counts}`);
    const call = async (name, input) => {
        const result = await client.callTool({ name, arguments: input });
        const text = result.content[0]?.text ?? '';
        return { text, isError: Boolean(result.isError), value: result.structuredContent ?? text };
    };
    const calls = [
        ['github_get_issue', { repo: 'octocat/hello-world', number: 7 }, 'One of many'],
        ['sentry_get_issue', { issueId: '7' }, 'TypeError'],
        ['supabase_query', { table: 'orders' }, '"id"'],
        ['slack_send_message', { text: 'hello' }, 'ok'],
        ['notification_notify_discord', { content: 'hello' }, 'ok'],
        ['betterstack_query', { query: 'SELECT 1 AS n', source_id: 1, table: 't1_app' }, '"n"'],
    ];
    for (const [name, input, words] of calls) {
        const { text, isError } = await call(name, input);
        check(!isError && text.includes(words), `${name} answers: ${text.slice(0, 60).replaceAll('\n', ' ')}`);
    }
    check(requests.length === calls.length, `each call is one request: ${requests}`);
    for (const [name, input, host] of [
        ['linear_list_teams', {}, 'api.linear.app'],
        ['datadog_list_monitors', {}, 'api.datadoghq.com'],
    ]) {
        const { text, isError } = await call(name, input);
        check(isError && text.includes(host), `${name} needs the grant of ${host}`);
    }
    await client.close();
} finally {
    service.close();
    rmSync(folder, { recursive: true, force: true });
}
