"""The official Python SDK against `metier mcp` over standard streams and HTTP, in both kinds of revision. Each failed check ends it."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

from typing import Any, Literal

import anyio
import httpx2
from mcp.client.client import Client
from mcp.client.extension import ClientExtension, ResultClaim
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import (
    CallToolResult, CreateMessageResult, ElicitResult, EmptyResult, Request, RequestParams, Result, TextContent,
)

CONTRACT = """
inputs: {text: {type: string, required: true}}
outputs: {words: {type: integer, required: true}}
"""


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def skill(project, name, files, more=""):
    folder = project / ".metier/skills" / name
    write(folder / "SKILL.md", f"---\nname: {name}\ndescription: The skill {name}\n{more}---\nText of {name}\n")
    for path, text in files.items():
        write(folder / path, text)


def check(holds, what):
    if not holds:
        sys.exit(f"failed: {what}")
    print(f"  {what}")


def sleepers():
    found = 0
    for entry in pathlib.Path("/proc").iterdir():
        try:
            found += (entry / "cmdline").read_bytes().startswith(b"sleep\x005432.1")
        except OSError:
            pass
    return found


async def until(holds, what):
    with anyio.fail_after(30):
        while not holds():
            await anyio.sleep(0.02)
    check(True, what)


async def walk(connect, project, mode, number):
    print(f"mode {mode}")
    async with Client(connect(), mode=mode) as client:
        check(client.protocol_version == {"legacy": "2025-11-25"}.get(mode, "2026-07-28"), client.protocol_version)
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        check("count" in tools and tools["count"].output_schema, "a typed tool is listed")
        result = await client.call_tool("count", {"text": "one two three"})
        check(result.structured_content == {"words": 3} and not result.is_error, "a call returns structured content")
        refused = await client.call_tool("count", {"text": 1})
        check(refused.is_error and "invalid-input" in refused.content[0].text, "an invalid input is an error")
        denied = await client.call_tool("writer", {})
        check(denied.is_error and "metier allow writer write:out" in denied.content[0].text, "a permission is refused")

        reports = []

        async def progress(done, total, message):
            reports.append((done, total, message))

        await client.call_tool("steps", {}, progress_callback=progress)
        check([report[2] for report in reports] == ["one", "two"], "progress is reported")

        text = (await client.read_resource("skill://count/SKILL.md")).contents[0].text
        check("Text of count" in text, "a resource is read")
        large = await client.call_tool("large", {})
        link = next(block for block in large.content if block.type == "resource_link")
        whole = (await client.read_resource(str(link.uri))).contents[0].text
        check(len(whole) == 100_000, "a large result is read by its link")
        prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
        check("count" in prompts, "a prompt is listed")
        prompt = await client.get_prompt("count", {"task": "do it"})
        check(prompt.messages[0].content.text.endswith("do it"), "a prompt is returned")

        async with anyio.create_task_group() as group:
            scope = anyio.CancelScope()

            async def cancelled_call():
                with scope:
                    await client.call_tool("sleeper", {})

            group.start_soon(cancelled_call)
            await until(lambda: sleepers() == 2, "a call has two processes")
            scope.cancel()
        await until(lambda: sleepers() == 0, "a cancelled call leaves none")

        async with anyio.create_task_group() as group:
            answers = []

            async def one(words):
                result = await client.call_tool("count", {"text": "word " * words})
                answers.append(result.structured_content["words"] == words)

            for words in range(200):
                group.start_soon(one, words)
        check(len(answers) == 200 and all(answers), "200 calls at a time are answered")

        if mode != "legacy":
            async with client.listen(tools_list_changed=True) as events:
                name = f"added-{number}"
                check(name not in {tool.name for tool in (await client.list_tools()).tools}, "a skill is not there yet")
                skill(project, name, {"scripts/main.lua": "return 1"})
                with anyio.fail_after(30):
                    async for _ in events:
                        break
            check(name in {tool.name for tool in (await client.list_tools()).tools}, "a new skill is announced")


async def answer_questions(connect, project, mode):
    print(f"questions, mode {mode}")
    written = project / "out/a"
    written.unlink(missing_ok=True)
    asked = []
    answers = iter([ElicitResult(action="decline"), ElicitResult(action="accept", content={"answer": "once"})])

    async def ask(_, params):
        asked.append(params.message)
        check(not written.exists(), "nothing has run before the answer")
        return next(answers)

    async with Client(connect(), mode=mode, elicitation_callback=ask) as client:
        refused = await client.call_tool("writer", {})
        check(refused.is_error and "denied" in refused.content[0].text and not written.exists(), "a no is a no")
        result = await client.call_tool("writer", {})
        check(not result.is_error and written.exists(), "a skill runs after a yes")
        check(all("write:out: change files at or below out" in message for message in asked), "a question says what it is about")


class TaskHandle(Result):
    result_type: Literal["task"] = "task"
    task_id: str
    status: str


class TaskState(Result):
    task_id: str
    status: str
    status_message: str | None = None
    result: dict[str, Any] | None = None


class TaskParams(RequestParams):
    task_id: str
    input_responses: dict[str, Any] | None = None


class TaskRequest(Request[TaskParams, str]):
    name_param = "taskId"


class TaskQuestions(TaskState):
    input_requests: dict[str, Any] = {}


class Tasks(ClientExtension):
    """The extension as a client of the SDK adds it: it polls a task, and answers what the task asks."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self, answers):
        self.answers = answers
        self.states = []

    def claims(self):
        return [ResultClaim(result_type="task", model=TaskHandle, resolve=self.resolve)]

    async def resolve(self, task, ctx):
        with anyio.fail_after(30):
            while True:
                state = await task_request(ctx.session, "tasks/get", TaskQuestions, task_id=task.task_id)
                self.states.append(state)
                if state.status == "completed":
                    return CallToolResult.model_validate(state.result)
                if state.status == "cancelled":
                    sys.exit("failed: a task was cancelled")
                responses = {key: self.answers(request) for key, request in state.input_requests.items()}
                if responses:
                    await task_request(ctx.session, "tasks/update", EmptyResult, task_id=task.task_id, input_responses=responses)
                await anyio.sleep(0.05)


async def task_request(session, method, result, **params):
    return await session.send_request(TaskRequest(method=method, params=TaskParams(**params)), result)


async def use_tasks(connect, project):
    print("tasks")
    gate = project / "out/go"
    gate.unlink(missing_ok=True)
    questions = []

    def answer(request):
        questions.append(request["method"])
        return {"role": "assistant", "model": "m", "content": {"type": "text", "text": "because"}}

    async def never(_, __):
        sys.exit("failed: a request of the server in a revision that has none")

    tasks = Tasks(answer)
    async with Client(connect(), extensions=[tasks], sampling_callback=never) as client:
        result = await client.call_tool("sampler", {})
        check(result.content[0].text == "because" and questions == ["sampling/createMessage"], "a task asks the model")
        check(any(state.status == "input_required" for state in tasks.states), "it says that it needs an answer")
        results = []

        async def wait():
            results.append(await client.call_tool("gate", {}))

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            while not any(state.status_message == "1 of 2: waiting" for state in tasks.states):
                await anyio.sleep(0.05)
            check(not results, "a task reports its progress while it runs")
            gate.touch()
        check(results[0].structured_content == {"went": True}, "a task returns the result of its call")
        gate.unlink()
        task = await client.session.call_tool("sleeper", {}, allow_claimed=True)
        await until(lambda: sleepers() == 2, "a task has two processes")
        await task_request(client.session, "tasks/cancel", EmptyResult, task_id=task.task_id)
        await until(lambda: sleepers() == 0, "a cancelled task leaves none")
        with anyio.fail_after(30):
            while (await task_request(client.session, "tasks/get", TaskState, task_id=task.task_id)).status != "cancelled":
                await anyio.sleep(0.02)
        check(True, "a cancelled task says so")


async def come_back(connect, project):
    print("a task after a reconnect")
    gate = project / "out/go"
    gate.unlink(missing_ok=True)
    async with Client(connect(), extensions=[Tasks(None)]) as client:
        task = await client.session.call_tool("gate", {}, allow_claimed=True)
    check(task.status == "working", "a client leaves its task")
    async with Client(connect(), extensions=[Tasks(None)]) as client:
        state = await task_request(client.session, "tasks/get", TaskState, task_id=task.task_id)
        check(state.status == "working", "the task goes on without a connection")
        gate.touch()
        with anyio.fail_after(30):
            while state.status != "completed":
                await anyio.sleep(0.05)
                state = await task_request(client.session, "tasks/get", TaskState, task_id=task.task_id)
        check(state.result["structuredContent"] == {"went": True}, "whoever comes back gets its result")


async def answer_samples(connect):
    print("sampling, mode legacy")

    async def sample(_, params):
        check(params.messages[0].content.text == "why?" and params.max_tokens == 20, "the model is asked")
        return CreateMessageResult(role="assistant", model="m", content=TextContent(type="text", text="because"))

    async with Client(connect(), mode="legacy", sampling_callback=sample) as client:
        result = await client.call_tool("sampler", {})
        check(result.content[0].text == "because", "a skill gets what the model says")


async def main(metier):
    with tempfile.TemporaryDirectory() as folder:
        project = pathlib.Path(folder) / "project"
        skill(project, "count", {
            "scripts/main.lua": "local n = 0 for _ in string.gmatch(input.text, '%S+') do n += 1 end return {words = n}",
            "skill.yaml": CONTRACT,
        })
        skill(project, "writer", {"scripts/main.lua": "ctx.write('out/a', 'x')"}, "allowed-tools: write:out\n")
        skill(project, "steps", {"scripts/main.lua": "ctx.progress('one', 1, 2) ctx.progress('two', 2, 2) return 1"})
        skill(project, "large", {"scripts/main.lua": "return string.rep('x', 100000)"})
        skill(project, "sleeper", {"scripts/main.sh": "sleep 5432.1 & (sleep 5432.1) & wait"})
        skill(project, "sampler", {"scripts/main.lua": "return ctx.sample(nil, 'why?', 20)"}, "allowed-tools: sample\n")
        skill(project, "gate", {
            "scripts/main.lua": "ctx.progress('waiting', 1, 2) while not pcall(ctx.stat, 'out/go') do end return {went = true}",
        })
        environment = {**os.environ, "HOME": folder, "METIER_DATA_DIR": os.path.join(folder, "data")}
        subprocess.run([metier, "trust", "--folder", "--yes", "."], cwd=project, env=environment, check=True,
                       stdout=subprocess.DEVNULL)
        arguments = ["mcp", "--project", str(project)]
        server = StdioServerParameters(command=metier, args=arguments, env=environment)
        print("standard streams")
        await all_walks(lambda: stdio_client(server), project, 1)
        further = ["--allow", "sample", "--task-after", "1"]
        sampling = StdioServerParameters(command=metier, args=[*arguments, *further], env=environment)
        await answer_samples(lambda: stdio_client(sampling))
        await use_tasks(lambda: stdio_client(sampling), project)
        token = "a-token-of-the-clients-in-the-tests"
        http = subprocess.Popen([metier, *arguments, *further, "--http", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True,
                                env={**environment, "METIER_MCP_TOKEN": token})
        try:
            url = next(line for line in http.stderr if line.startswith("serving at ")).split()[-1]
            print("HTTP")
            headers = {"Authorization": f"Bearer {token}"}
            async with httpx2.AsyncClient(headers=headers, timeout=60) as http_client:
                connect = lambda: streamable_http_client(url, http_client=http_client)
                await all_walks(connect, project, 2)
                await answer_samples(connect)
                await use_tasks(connect, project)
                await come_back(connect, project)
            async with httpx2.AsyncClient() as stranger:
                check((await stranger.post(url, json={})).status_code == 401, "who has no token is not served")
        finally:
            http.terminate()
        check(http.wait(10) == 0, "the server ends")


async def all_walks(connect, project, number):
    for mode in ["legacy", "auto"]:
        await walk(connect, project, mode, number)
        await answer_questions(connect, project, mode)
    started = time.monotonic()
    async with Client(connect()) as client:
        for _ in range(1000):
            await client.call_tool("count", {"text": "one"})
    print(f"1,000 calls in a row: {time.monotonic() - started:.2f} s")


anyio.run(main, sys.argv[1])
