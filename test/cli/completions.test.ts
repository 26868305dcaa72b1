import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { COMPLETION_SHELLS } from "../../src/cli/commands/completions.ts";
import { runProcess } from "../../src/lib/run-process.ts";
import { serve } from "../client/serve.ts";
import { sandbox } from "./run-svc.ts";
import { schemaServer } from "./schema-server.ts";

const BIN = fileURLToPath(new URL("../../bin/", import.meta.url));
const box = await sandbox();
const home = await mkdtemp(join(tmpdir(), "svc-completions-"));
after(() => rm(home, { recursive: true, force: true }));

const env = { PATH: `${BIN}:${process.env.PATH}`, HOME: home };
const missing = (shell: string) =>
  runProcess(shell, ["--version"], { env }).then(
    () => false,
    () => `no ${shell} on this machine`,
  );
const skip = { zsh: await missing("zsh"), fish: await missing("fish") };

/** What bash shows after Tab behind `words`, the last of which is being typed. */
async function bash(words: readonly string[], command = "svc", more: Record<string, string> = {}): Promise<string[]> {
  const script = `
    eval "$(svc completions bash)"
    [[ "$(complete -p svc)" == "complete -o default -F _svc svc" ]] || exit 9
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
    _svc && printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { code, stdout, stderr } = await runProcess("bash", ["-c", script, "bash", command, ...words], {
    env: { ...env, ...more },
  });
  assert.deepEqual([code, stderr], [0, ""]);
  return stdout.split("\n").filter((line) => line !== "");
}

describe("svc completions", () => {
  test("bash completes commands, their commands, flags and values", async () => {
    assert.deepEqual(await bash(["depl"]), ["deploy"]);
    assert.ok((await bash([""])).includes("status"));
    assert.deepEqual(await bash(["platform", "st"]), ["start", "stop", "status"]);
    assert.deepEqual(await bash(["deploy", "--app", "x", "--e"]), ["--env", "--exclude"]);
    assert.deepEqual(await bash(["platform", "start", "--durability", "f"]), ["full"]);
    assert.deepEqual(await bash(["completions", ""]), [...COMPLETION_SHELLS]);
  });

  test("the names of endpoints are completed, each once", async () => {
    const place = { app: "shop", environment: "production" };
    const { url } = await schemaServer([
      { id: "1", name: "hello", ...place },
      { id: "2", name: "help", ...place },
      { id: "3", name: "hello", app: "other", environment: "production" },
      { id: "4", name: "resize", ...place },
    ]);
    const named = { PLATFORM_URL: url, PLATFORM_API_KEY: "k", SVC_CONFIG_DIR: home };
    for (const words of [["logs"], ["status"], ["undeploy"], ["jobs", "list"], ["logs", "--app", "shop"]]) {
      assert.deepEqual(await bash([...words, "hel"], "svc", named), ["hello", "help"], words.join(" "));
    }
    assert.deepEqual(await bash(["undeploy", ""], "svc", named), ["list", "hello", "help", "resize"]);
    assert.deepEqual(await bash(["jobs", "r"], "svc", named), ["resize"]);
    assert.deepEqual(await bash(["logs", "resize", ""], "svc", named), []);
  });

  test("a platform that is away, silent, or wants another key leaves Tab quick and silent", async (t) => {
    const silent = createServer().listen(0, "127.0.0.1");
    await once(silent, "listening");
    t.after(() => silent.close());
    const refusing = await serve((_request, response) => void response.writeHead(401).end("{}"));
    const { port } = silent.address() as AddressInfo;
    for (const url of [`http://127.0.0.1:${port}`, "http://127.0.0.1:1", refusing, "no address"]) {
      // One that is silent would be waited for without end.
      const named = { PLATFORM_URL: url, PLATFORM_API_KEY: "k", SVC_CONFIG_DIR: home };
      assert.deepEqual(await bash(["logs", ""], "svc", named), []);
    }
  });

  test("with nothing to offer, or an svc that fails, bash is left to complete files", async () => {
    assert.deepEqual(await bash(["init", ""]), []);
    assert.deepEqual(await bash(["nonsense", "x", ""]), []);
    assert.deepEqual(await bash(["depl"], "/nowhere/svc"), []);
  });

  test("what is typed is data for the script, not a command", async () => {
    const mark = join(home, "mark");
    assert.deepEqual(await bash([`$(touch ${mark})`, `\`touch ${mark}\``, "x; y"]), []);
    assert.ok(!existsSync(mark));
  });

  test("the word before the cursor counts, also when more follows", async () => {
    const script = `eval "$(svc completions bash)"; COMP_WORDS=(svc pl start); COMP_CWORD=1; _svc; echo "\${COMPREPLY[@]}"`;
    const { stdout } = await runProcess("bash", ["-c", script], { env });
    assert.equal(stdout, "platform\n");
  });

  test("zsh gets completions with their descriptions", { skip: skip.zsh }, async () => {
    const file = join(home, "complete.zsh");
    await writeFile(
      file,
      `compdef() { print "compdef $@"; }
      _describe() { print -l "\${(@P)2}"; }
      _files() { print files; }
      eval "$(svc completions zsh)"
      words=(svc platform st); CURRENT=3; _svc
      words=(svc init ""); CURRENT=3; _svc`,
    );
    const { stdout, stderr } = await runProcess("zsh", ["-f", file], { env });
    assert.equal(stderr, "");
    assert.match(stdout, /^compdef _svc svc\nstart:Start .*\nstop:Stop .*\nstatus:Say .*\nfiles\n$/);
  });

  test("fish gets completions with their descriptions", { skip: skip.fish }, async () => {
    const script = "svc completions fish | source; complete -C 'svc platform st'; complete -C 'svc undeploy --a'";
    const { stdout } = await runProcess("fish", ["--no-config", "-c", script], { env });
    assert.match(stdout, /^start\tStart .*\nstatus\tSay .*\nstop\tStop .*\n--all\tRemove .*\n--app\tApp; .*\n$/);
  });

  test("another shell is refused with those there are; __complete is in no list", async () => {
    const { code, stdout, stderr } = await box.svc(["completions", "tcsh"]);
    assert.deepEqual([code, stdout], [2, ""]);
    assert.match(stderr, /SHELL cannot be "tcsh": it is bash, zsh, fish\.\n {2}Run svc completions --help\./);
    assert.doesNotMatch((await box.svc(["--help"])).stdout, /__complete/);
    assert.deepEqual(await box.svc(["__complete"]), { code: 0, stdout: "", stderr: "" });
  });
});
