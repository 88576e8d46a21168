// The official TypeScript clients against `metier mcp` over standard streams and HTTP: version 2 with its Skills
// extension, and version 1.
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const [metier, packages] = process.argv.slice(2);
const resolve = createRequire(join(packages, 'package.json')).resolve;
const load = (name) => import(pathToFileURL(resolve(name)));

const folder = mkdtempSync(join(tmpdir(), 'metier-mcp-'));
const project = join(folder, 'project');

function skill(name, files, frontmatter = '') {
    const text = `---\nname: ${name}\ndescription: The skill ${name}\n${frontmatter}---\nText of ${name}\n`;
    for (const [path, content] of Object.entries({ 'SKILL.md': text, ...files })) {
        const file = join(project, '.metier/skills', name, path);
        mkdirSync(dirname(file), { recursive: true });
        writeFileSync(file, content);
    }
}

function check(holds, what) {
    if (!holds) throw new Error(`failed: ${what}`);
    console.log(`  ${what}`);
}

async function rejects(promise) {
    return promise.then(() => false, () => true);
}

function sleepers() {
    const isMeant = (id) => {
        try {
            return readFileSync(`/proc/${id}/cmdline`, 'latin1').startsWith('sleep\x005433.1');
        } catch {
            return false;
        }
    };
    return readdirSync('/proc').filter((id) => /^\d+$/.test(id) && isMeant(id)).length;
}

async function until(holds, what) {
    for (const end = Date.now() + 30_000; !holds(); ) {
        if (Date.now() > end) throw new Error(`failed: ${what}`);
        await new Promise((next) => setTimeout(next, 20));
    }
    check(true, what);
}

// Starts the server over HTTP: its address, and how to end it.
async function startHttp(token) {
    const child = spawn(metier, [...server.args, '--http', '127.0.0.1:0'], {
        env: { ...env, METIER_MCP_TOKEN: token },
        stdio: ['ignore', 'inherit', 'pipe'],
    });
    for await (const line of createInterface({ input: child.stderr })) {
        if (line.startsWith('serving at ')) return { child, url: new URL(line.split(' ').at(-1)) };
    }
    throw new Error('the server did not start');
}

async function walk(client) {
    const tools = (await client.listTools()).tools;
    check(tools.some((tool) => tool.name === 'double' && tool.outputSchema), 'a typed tool is listed');
    const result = await client.callTool({ name: 'double', arguments: { n: 21 } });
    check(result.structuredContent?.n === 42, 'a call returns structured content');
    const refused = await client.callTool({ name: 'double', arguments: { n: 'x' } });
    check(refused.isError && refused.content[0].text.includes('invalid-input'), 'an invalid input is an error');
    const abort = new AbortController();
    setTimeout(() => abort.abort(), 200);
    const endless = client.callTool({ name: 'endless', arguments: {} }, ...callOptions(client, abort.signal));
    check(await rejects(endless), 'a call is cancelled');
    const tree = new AbortController();
    const sleeping = client.callTool({ name: 'sleeper', arguments: {} }, ...callOptions(client, tree.signal));
    await until(() => sleepers() === 2, 'a call has two processes');
    tree.abort();
    check(await rejects(sleeping), 'it is cancelled');
    await until(() => sleepers() === 0, 'a cancelled call leaves none');
    const read = await client.readResource({ uri: 'skill://double/SKILL.md' });
    check(read.contents[0].text.includes('Text of double'), 'a resource is read');
    const prompt = await client.getPrompt({ name: 'double', arguments: { task: 'do it' } });
    check(prompt.messages[0].content.text.endsWith('do it'), 'a prompt is returned');
}

// Answers the questions of a client that was made with `asking`: first no, then yes.
async function answerQuestions(client, transport, handle) {
    const written = join(project, 'out/a');
    rmSync(written, { force: true });
    const answers = [{ action: 'decline' }, { action: 'accept', content: { answer: 'once' } }];
    handle(async (request) => {
        check(request.params.message.includes('write:out: change files'), 'a question says what it is about');
        check(!existsSync(written), 'nothing has run before the answer');
        return answers.shift();
    });
    await client.connect(transport);
    const refused = await client.callTool({ name: 'writer', arguments: {} });
    check(refused.isError && !existsSync(written), 'a no is a no');
    const result = await client.callTool({ name: 'writer', arguments: {} });
    check(!result.isError && existsSync(written), 'a skill runs after a yes');
    await client.close();
}

// Answers what a skill asks the model of a client that was made with `sampling`.
async function answerSamples(client, transport, handle) {
    handle(async (request) => {
        check(request.params.messages[0].content.text === 'why?', 'the model is asked');
        return { role: 'assistant', model: 'm', content: { type: 'text', text: 'because' } };
    });
    await client.connect(transport);
    const result = await client.callTool({ name: 'sampler', arguments: {} });
    check(result.content[0].text === 'because', 'a skill gets what the model says');
    await client.close();
}

// The tasks of the revision 2025-11-25, which version 1 of the client has.
async function useTasks(client, schema) {
    const notices = [];
    client.setNotificationHandler(TaskStatusNotificationSchema, (notice) => { notices.push(notice.params); });
    await client.listTools();
    const call = { name: 'slow', arguments: {} };
    const states = [];
    for await (const message of client.experimental.tasks.callToolStream(call, schema, { task: { ttl: 60_000 } })) {
        states.push(message.type);
        if (message.type === 'result') check(message.result.structuredContent.n === 1, 'a task returns its result');
        if (message.type === 'error') throw message.error;
    }
    check(states[0] === 'taskCreated' && states.at(-1) === 'result', 'a call is a task that is polled');
    const stream = client.experimental.tasks.callToolStream({ name: 'endless', arguments: {} }, schema, { task: {} });
    const { taskId } = (await stream.next()).value.task;
    const listed = (await client.experimental.tasks.listTasks()).tasks;
    check(listed.some((task) => task.taskId === taskId && task.status === 'working'), 'tasks are listed');
    check((await client.experimental.tasks.cancelTask(taskId)).status === 'cancelled', 'a task is cancelled');
    check((await client.experimental.tasks.getTask(taskId)).status === 'cancelled', 'it stays cancelled');
    await until(() => notices.some((task) => task.taskId === taskId && task.status === 'cancelled'), 'the client is told');
    check(notices.some((task) => task.status === 'completed'), 'of each task');
}

const asking = { capabilities: { elicitation: {} } };
const sampling = { capabilities: { sampling: {} } };

// Version 1 has the schema of the result before the options.
function callOptions(client, signal) {
    return client.callTool.length === 3 || client.isVersion1 ? [undefined, { signal }] : [{ signal }];
}

skill('double', {
    'scripts/main.lua': 'return {n = input.n * 2}',
    'skill.yaml': 'inputs: {n: {type: integer, required: true}}\noutputs: {n: {type: integer, required: true}}\n',
    'references/a b.md': 'reference',
}, 'version: 1.0\nquoted: "1.0"\ndate: 2024-01-01\nhex: 0x1F\nempty: ~\nmetadata: {on: yes, n: "3"}\n');
skill('number', { 'scripts/main.lua': 'return 1' }, 'metadata: {version: 1.0}\n');
skill('endless', { 'scripts/main.lua': 'while true do end' });
skill('sampler', { 'scripts/main.lua': "return ctx.sample(nil, 'why?', 20)" }, 'allowed-tools: sample\n');
skill('slow', { 'scripts/main.sh': "sleep 1 && echo '{\"n\": 1}'" });
skill('writer', { 'scripts/main.lua': "ctx.write('out/a', 'x')" }, 'allowed-tools: write:out\n');
skill('sleeper', { 'scripts/main.sh': 'sleep 5433.1 & (sleep 5433.1) & wait\n' });
skill('Not_Valid', { 'scripts/main.lua': 'return 1' });
const env = { ...process.env, HOME: folder, METIER_DATA_DIR: join(folder, 'data') };
execFileSync(metier, ['trust', '--folder', '--yes', '.'], { cwd: project, env });
const server = { command: metier, args: ['mcp', '--project', project, '--allow', 'sample'], env };
const { Client } = await load('@modelcontextprotocol/client');
const { StdioClientTransport } = await load('@modelcontextprotocol/client/stdio');
const { StreamableHTTPClientTransport } = await load('@modelcontextprotocol/client');
const { SkillsClient } = await load('@modelcontextprotocol/client/ext/skills');
const { Client: Client1 } = await load('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport: Stdio1 } = await load('@modelcontextprotocol/sdk/client/stdio.js');
const { StreamableHTTPClientTransport: Http1 } = await load('@modelcontextprotocol/sdk/client/streamableHttp.js');
const { CallToolResultSchema, CreateMessageRequestSchema, ElicitRequestSchema, TaskStatusNotificationSchema } = await load(
    '@modelcontextprotocol/sdk/types.js',
);

async function walkAll(connect2, connect1) {
    for (const mode of ['legacy', 'auto']) {
        console.log(`version 2, mode ${mode}`);
        const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } });
        await client.connect(connect2());
        await walk(client);
        if (mode === 'auto') {
            const skills = new SkillsClient(client);
            check(skills.supported && skills.directoryRead, 'the Skills extension is there');
            const listed = (await skills.list()).skills;
            const names = listed.map((entry) => entry.frontmatter.name);
            check(names.includes('double') && !names.includes('Not_Valid') && !names.includes('number'), 'valid skills are listed');
            for (const entry of listed) {
                for (const file of entry.resources) await skills.read(entry, file.uri);
            }
            check(true, 'every file of every skill has its digest and size, and every frontmatter its types');
            const children = (await skills.readDirectory('skill://double/')).resources.map((child) => child.uri);
            check(children.includes('skill://double/references/'), 'a folder is read');
        }
        await client.close();
        const asked = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode }, ...asking });
        await answerQuestions(asked, connect2(), (answer) => asked.setRequestHandler('elicitation/create', answer));
        if (mode === 'legacy') {
            const sampled = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode }, ...sampling });
            await answerSamples(sampled, connect2(), (answer) => sampled.setRequestHandler('sampling/createMessage', answer));
        }
    }
    console.log('version 1');
    const client = new Client1({ name: 'test', version: '1' });
    client.isVersion1 = true;
    await client.connect(connect1());
    await walk(client);
    await useTasks(client, CallToolResultSchema);
    await client.close();
    const sampled = new Client1({ name: 'test', version: '1' }, sampling);
    await answerSamples(sampled, connect1(), (answer) => sampled.setRequestHandler(CreateMessageRequestSchema, answer));
    const asked = new Client1({ name: 'test', version: '1' }, asking);
    await answerQuestions(asked, connect1(), (answer) => asked.setRequestHandler(ElicitRequestSchema, answer));
}

try {
    console.log('standard streams');
    await walkAll(() => new StdioClientTransport(server), () => new Stdio1(server));
    console.log('HTTP');
    const token = 'a-token-of-the-clients-in-the-tests';
    const { child, url } = await startHttp(token);
    const options = { requestInit: { headers: { Authorization: `Bearer ${token}` } } };
    await walkAll(() => new StreamableHTTPClientTransport(url, options), () => new Http1(url, options));
    check((await fetch(url, { method: 'POST', body: '{}' })).status === 401, 'who has no token is not served');
    const ended = new Promise((end) => child.on('exit', end));
    child.kill('SIGTERM');
    check((await ended) === 0, 'the server ends');
} finally {
    rmSync(folder, { recursive: true, force: true });
}
