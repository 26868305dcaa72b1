/** `svc run --debug` with a client of the Debug Adapter Protocol, as an editor is one. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import path from "node:path";
import type { Duplex } from "node:stream";
import { type TestContext, test } from "node:test";
import { keepLaunch } from "../../src/dev/debug.ts";
import { DebugLink } from "../../src/dev/debug-link.ts";
import { CTRL_C, openPseudoTerminal } from "../cli/pseudo-terminal.ts";
import { startSvcRun } from "../dev/svc-run.ts";
import { eventually } from "../eventually.ts";
import { SVC } from "../program.ts";
import { project, startPlatform } from "./platform.ts";

const HELLO = `from svc import Endpoint


@Endpoint(name="hello", execution_timeout_ms=5000)
def hello(name: str = "you") -> str:
    words = f"hello {name}"
    if name == "alone?":
        import debugpy
        return str(not debugpy.is_client_connected())
    if name == "break":
        breakpoint()
    return words
`;
const OTHER = 'from svc import Endpoint\n\n@Endpoint(name="other")\ndef other(): ...\n';
const BREAK_LINE = 12;

interface Message {
  readonly type: "response" | "event" | "request";
  readonly request_seq?: number;
  readonly event?: string;
  readonly success?: boolean;
  readonly message?: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into any answer
  readonly body?: any;
}

class DebugClient {
  readonly #socket: Socket;
  readonly #seen: Message[] = [];
  readonly #waiting = new Set<() => void>();
  #seq = 0;

  private constructor(socket: Socket) {
    this.#socket = socket;
    let buffer = Buffer.alloc(0);
    socket.on("data", (chunk) => {
      buffer = Buffer.concat([buffer, chunk]);
      for (;;) {
        const head = /^Content-Length: (\d+)\r\n\r\n/.exec(buffer.toString("latin1"));
        if (head === null || buffer.length < head[0].length + Number(head[1])) break;
        const end = head[0].length + Number(head[1]);
        this.#seen.push(JSON.parse(buffer.subarray(head[0].length, end).toString()));
        buffer = buffer.subarray(end);
      }
      for (const look of this.#waiting) look();
    });
    socket.on("close", () => {
      for (const look of this.#waiting) look();
    });
  }

  static async attach(t: TestContext, port: number): Promise<DebugClient> {
    const socket = connect(port, "127.0.0.1");
    t.after(() => socket.destroy());
    await once(socket, "connect");
    // A debugger that ends just then resets it: whoever waits hears that it is closed.
    socket.on("error", () => {});
    const client = new DebugClient(socket);
    await client.ask("initialize", {
      adapterID: "test",
      linesStartAt1: true,
      columnsStartAt1: true,
      pathFormat: "path",
    });
    const attached = client.ask("attach", { justMyCode: true });
    await client.event("initialized");
    return Object.assign(client, { attached });
  }

  /** Answered after the configuration is done. */
  readonly attached: Promise<unknown> = Promise.resolve();

  async ask(command: string, args: object = {}) {
    const seq = ++this.#seq;
    const text = JSON.stringify({ seq, type: "request", command, arguments: args });
    this.#socket.write(`Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
    const answer = await this.#next(({ type, request_seq }) => type === "response" && request_seq === seq);
    assert.ok(answer.success, `${command}: ${answer.message}`);
    return answer.body;
  }

  async event(name: string) {
    return (await this.#next(({ event }) => event === name)).body;
  }

  #next(is: (message: Message) => boolean): Promise<Message> {
    return new Promise((resolve, reject) => {
      const look = () => {
        const at = this.#seen.findIndex(is);
        if (at < 0 && !this.#socket.destroyed) return;
        this.#waiting.delete(look);
        if (at >= 0) resolve(this.#seen.splice(at, 1)[0]!);
        else reject(new Error("The debugger closed the connection."));
      };
      this.#waiting.add(look);
      look();
    });
  }

  end(): void {
    this.#socket.destroy();
  }
}

async function variableAt(client: DebugClient, threadId: number) {
  const { stackFrames } = await client.ask("stackTrace", { threadId, startFrame: 0, levels: 1 });
  const [frame] = stackFrames;
  const { result } = await client.ask("evaluate", { expression: "words", frameId: frame.id, context: "watch" });
  return { file: frame.source.path, line: frame.line, words: result };
}

test("svc run --debug: an editor attaches, stops at a line of the project's own file, sees a variable, goes on; breakpoint() waits for it; a save gives a new worker", async (t) => {
  const platform = await startPlatform(t);
  const cwd = project(
    t,
    {
      "hello.py": HELLO,
      "other.py": OTHER,
      ".vscode/launch.json": '{\n    "configurations": [{ "name": "mine" }]\n}\n',
    },
    "shop",
  );
  const file = path.join(cwd, "hello.py");
  const unclear = await platform.svc(["run", "--debug"], { cwd });
  assert.equal(unclear.code, 2);
  assert.match(unclear.stderr, /--debug needs to know which endpoint\.\n {2}One of: hello, other\./);
  const far = await platform.svc(["run", "--debug", "hello"], { cwd, env: { PLATFORM_URL: "http://192.0.2.1:7" } });
  assert.match(far.stderr, /--debug needs a platform on this machine/);

  const server = await startSvcRun(t, platform, cwd, ["--debug", "hello"]);
  const port = Number(/The debugger of hello is at localhost:(\d+) /.exec(server.output())?.[1]);
  assert.deepEqual(JSON.parse(readFileSync(path.join(cwd, ".vscode/launch.json"), "utf8")).configurations, [
    { name: "mine" },
    { name: "svc: hello", type: "debugpy", request: "attach", connect: { host: "localhost", port }, justMyCode: true },
  ]);
  const call = async (name: string) => {
    const response = await fetch(`${server.url}/hello/runsync`, {
      method: "POST",
      body: JSON.stringify({ input: { name } }),
    });
    return (await response.json()) as { readonly status: string; readonly output: unknown };
  };

  const editor = await DebugClient.attach(t, port);
  const { breakpoints } = await editor.ask("setBreakpoints", {
    source: { path: file },
    breakpoints: [{ line: BREAK_LINE }],
  });
  assert.deepEqual([breakpoints[0].verified, breakpoints[0].line], [true, BREAK_LINE]);
  await editor.ask("configurationDone");
  await editor.attached;
  const stopped = call("Ann");
  const { threadId } = await editor.event("stopped");
  assert.deepEqual(await variableAt(editor, threadId), { file, line: BREAK_LINE, words: "'hello Ann'" });
  await editor.ask("continue", { threadId });
  assert.equal((await stopped).output, "hello Ann");
  editor.end();

  // Nobody is attached: breakpoint() says where, and waits.
  await eventually(async () => assert.equal((await call("alone?")).output, "True"));
  const waits = call("break");
  await eventually(() =>
    assert.match(server.output(), new RegExp(`breakpoint\\(\\) waits for a debugger at localhost:${port}`)),
  );
  const late = await DebugClient.attach(t, port);
  await late.ask("configurationDone");
  const at = await late.event("stopped");
  const seen = await variableAt(late, at.threadId);
  assert.deepEqual([seen.file, seen.words], [file, "'hello break'"]);
  await late.ask("continue", { threadId: at.threadId });
  assert.equal((await waits).output, "hello break");
  late.end();

  // A save: the new worker listens once the one before has gone.
  writeFileSync(file, HELLO.replace("hello {name}", "bye {name}"));
  assert.equal((await call("Ann")).output, "bye Ann");
  const again = await eventually(() => DebugClient.attach(t, port));
  await again.ask("setBreakpoints", { source: { path: file }, breakpoints: [{ line: BREAK_LINE }] });
  await again.ask("configurationDone");
  const third = call("Bob");
  const stop = await again.event("stopped");
  assert.equal((await variableAt(again, stop.threadId)).words, "'bye Bob'");
  again.end();
  assert.equal((await third).output, "bye Bob");
});

/** Whether somebody listens at the port of this machine. */
function answers(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  const came = new Promise<boolean>((resolve) => {
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
  });
  return came.finally(() => socket.destroy());
}

test("Who knows no token gets neither the terminal nor a worker's life; of two who ask, one has the terminal", async (t) => {
  let talking: Duplex | undefined;
  const link = await DebugLink.open((stream) => {
    talking = stream;
  });
  t.after(() => link.close());
  const { port, token } = link.address;
  const says = async (line: string) => {
    const socket = connect(port, "127.0.0.1").setEncoding("utf8");
    t.after(() => socket.destroy());
    socket.write(line);
    const said = new Promise<string>((resolve) => {
      socket
        .on("error", () => {})
        .on("data", resolve)
        .on("close", () => resolve(""));
    });
    return { socket, said: await said };
  };
  for (const line of [
    "\n",
    "ask\n",
    `${"0".repeat(32)} ask\n`,
    `${token} else\n`,
    `${token} ask`,
    "x".repeat(100_000),
  ]) {
    assert.equal((await says(line)).said, "", line.slice(0, 50));
  }
  const first = await says(`${token} ask\n`);
  assert.equal(first.said, "yes\n");
  assert.equal((await says(`${token} ask\n`)).said, "no\n");
  first.socket.destroy();
  await once(talking!, "close");
  assert.equal((await says(`${token} ask\n`)).said, "yes\n");
  const life = connect(port, "127.0.0.1").resume();
  const over = new Promise((resolve) => life.on("error", () => {}).once("close", resolve));
  life.write(`${token} life\n`);
  await once(life, "connect");
  link.close();
  await over;
});

test("svc run --debug on a terminal says how to attach, breakpoint() is a prompt there, and Ctrl+C ends it, also at one: nothing of it stays", async (t) => {
  const platform = await startPlatform(t);
  const cwd = project(t, { "hello.py": HELLO }, "shop");
  const env = {
    PATH: process.env.PATH!,
    HOME: process.env.HOME!,
    PLATFORM_URL: platform.url,
    PLATFORM_API_KEY: platform.key,
    SVC_CONFIG_DIR: path.join(platform.dir, "config"),
  };
  const terminal = openPseudoTerminal([SVC, "run", "--debug", "--port", "0"], { cwd, env });
  t.after(terminal.close);
  await terminal.shows(/Listening on http:\/\/localhost:\d+, .*Ctrl\+C stops it/);
  const port = Number(
    /The debugger of hello is at localhost:(\d+) \(Debug Adapter Protocol\)\./.exec(terminal.text)?.[1],
  );
  assert.match(terminal.text, /In VS Code start "svc: hello" under Run and Debug; \.vscode\/launch\.json has it\./);
  const [url] = /http:\/\/localhost:\d+/.exec(terminal.text)!;
  const call = () => fetch(`${url}/hello/runsync`, { method: "POST", body: '{"input":{"name":"break"}}' });
  const stopped = call();
  await terminal.shows(/> hello\.py\(\d+\)hello\(\)\n-> return words\n\(Pdb\) $/);
  terminal.type("words += '!'\np words\n");
  await terminal.shows(/'hello break!'\n\(Pdb\) $/);
  terminal.type("c\n");
  assert.equal(((await (await stopped).json()) as { output: string }).output, "hello break!");
  const second = call().catch(() => undefined);
  await terminal.shows(
    /\(Pdb\) [\s\S]*\(Pdb\) [\s\S]*\(Pdb\) [\s\S]*> hello\.py\(\d+\)hello\(\)\n-> return words\n\(Pdb\) $/,
  );
  terminal.type(CTRL_C);
  assert.equal(await terminal.ended, 0, terminal.text);
  assert.match(terminal.text, /Removed: live-hello\n/);
  assert.ok(terminal.raw.lastIndexOf("\x1b[?25h") >= terminal.raw.lastIndexOf("\x1b[?25l"), "the cursor is there");
  assert.deepEqual(await platform.endpoints(), []);
  await second;
  // Less than a worker has that is drained while it runs something.
  await eventually(async () => assert.equal(await answers(port), false, "the debugger has gone"), 20_000);
});

test("a file of configurations that is no plain JSON, or of another shape, stays as it is", async (t) => {
  const cwd = project(t, { "launch.json": "" });
  const file = path.join(cwd, "launch.json");
  const launch = { name: "svc: a", request: "attach" };
  for (const text of ['{\n  // mine\n  "configurations": []\n}\n', "[]", '{"configurations": 3}']) {
    writeFileSync(file, text);
    assert.equal(await keepLaunch(file, launch), false, text);
    assert.equal(readFileSync(file, "utf8"), text);
  }
  writeFileSync(file, '{ "inputs": [1], "configurations": [{ "name": "svc: a", "port": 1 }, { "name": "b" }] }');
  assert.equal(await keepLaunch(file, launch), true);
  const kept = { version: "0.2.0", inputs: [1], configurations: [launch, { name: "b" }] };
  assert.deepEqual(JSON.parse(readFileSync(file, "utf8")), kept);
});

test("breakpoint() without a debugger fails its job with what gives it one", async (t) => {
  const platform = await startPlatform(t);
  const cwd = project(t, { "hello.py": HELLO });
  assert.equal((await platform.svc(["deploy"], { cwd })).code, 0);
  const { url } = (await platform.endpoints()).find(({ name }) => name === "hello")!;
  const { json } = await platform.call(`${url}/runsync`, { body: { input: { name: "break" } } });
  assert.equal(json.status, "FAILED");
  assert.match(json.error, /breakpoint\(\) needs a debugger.*svc run --debug/);
});
