/**
 * A page of the docs as what a reader would do with it: one script of its blocks, from top to bottom.
 *
 *   ```python [worker.py]        a file of the reader's folder
 *   ```sh                        is typed into one shell; a line that ends in `# fails: WHY` must fail
 *   ```python, ```js             a program of the page's folder, run at once
 *   ```json, ```text             each line appears in what the block before has printed, in this order; `…` is anything
 *   ```mermaid                   a picture
 *   <!-- not run: WHY -->        the block below is only looked at
 *   <!-- run: COMMAND -->        what the reader has done already, or does elsewhere: a second terminal, a browser.
 *                                `url_of NAME` is the URL that svc deploy has printed for an endpoint, `free_port` a port
 */
import assert from "node:assert/strict";

export interface Step {
  /** The line of the page where it begins. */
  readonly line: number;
  readonly script: string;
  readonly expected: readonly string[];
}

export interface Page {
  readonly steps: readonly Step[];
  /** Blocks that are only looked at, with the reason. */
  readonly notRun: readonly { readonly line: number; readonly reason: string }[];
  /** Its commands start and stop a platform of their own. */
  readonly ownPlatform: boolean;
  /** They need an S3 server, whose bucket and keys are in TEST_S3_…. */
  readonly s3: boolean;
  /** They need an empty database, whose URL is in TEST_POSTGRES_URL. */
  readonly postgres: boolean;
}

const BLOCK = /^```(\w*)(?: \[([^\]]+)\])?\n([\s\S]*?)^```$|^<!-- (run|not run): ([\s\S]*?) -->$/gm;

export function readPage(text: string): Page {
  const steps: { line: number; script: string; expected: string[] }[] = [];
  const notRun: { line: number; reason: string }[] = [];
  let reason: string | undefined;
  for (const match of text.matchAll(BLOCK)) {
    const [, language, file, body, mark, said] = match;
    const line = text.slice(0, match.index).split("\n").length;
    if (mark === "not run") reason = said;
    else if (mark === "run") steps.push({ line, script: said!, expected: [] });
    else if (reason !== undefined) {
      notRun.push({ line, reason });
      reason = undefined;
    } else if (file !== undefined) steps.push({ line, script: writeFile(file, body!), expected: [] });
    else if (language === "sh") steps.push({ line, script: body!, expected: [] });
    else if (language === "python") steps.push({ line, script: heredoc("python3 -", body!), expected: [] });
    else if (language === "js") steps.push({ line, script: heredoc("node --input-type=module", body!), expected: [] });
    else if (language === "json" || language === "text") {
      assert.ok(steps.length > 0, `line ${line}: nothing before it prints this`);
      steps.at(-1)!.expected.push(...body!.split("\n").filter((each) => each.trim() !== ""));
    } else assert.equal(language, "mermaid", `line ${line}: say what the block is, or <!-- not run: why -->`);
  }
  const ownPlatform = text.includes("<!-- on a platform of its own -->");
  const has = (mark: string) => text.includes(`<!-- ${mark} -->`);
  return { steps, notRun, ownPlatform, s3: has("with an S3 server"), postgres: has("with a PostgreSQL server") };
}

const PREAMBLE = `curl() { command curl -sS "$@"; }
url_of() {
  svc status --json | python3 -c 'import json, sys; print([e["url"] for e in json.load(sys.stdin) if e["name"] == sys.argv[1]][0])' "$1"
}
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
`;

/** One program for bash. Before each step it prints `@@ LINE`, so that what it prints can be told apart. */
export function scriptOf(page: Page): string {
  const failing = (script: string) =>
    script.replace(/^(.+\S) +# fails: .*$/gm, 'if $1; then echo "line did not fail"; exit 1; fi');
  const steps = page.steps.map(({ line, script }) => `printf "\\n@@ ${line}\\n"\n${failing(script.trimEnd())}\n`);
  return PREAMBLE + steps.join("");
}

/** What is missing in `output` of what the page says is printed. */
export function missing(page: Page, output: string): string[] {
  const printed = new Map(
    output.split(/^@@ (?=\d+$)/m).map((part) => [Number.parseInt(part, 10), part.slice(part.indexOf("\n") + 1)]),
  );
  return page.steps.flatMap(({ line, expected }) => {
    let rest = printed.get(line) ?? "";
    for (const each of expected) {
      const parts = each
        .trim()
        .split("…")
        .map((part) => part.trim().replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
      const found = new RegExp(parts.join("[\\s\\S]*?").replace(/ +/g, " +")).exec(rest);
      if (found === null) return [`line ${line}: ${each.trim()}`];
      rest = rest.slice(found.index + found[0].length);
    }
    return [];
  });
}

const heredoc = (command: string, body: string) => `${command} <<'END-OF-BLOCK'\n${body}END-OF-BLOCK\n`;

const writeFile = (file: string, body: string) =>
  `mkdir -p "$(dirname '${file}')"\n${heredoc(`cat > '${file}'`, body)}`;
