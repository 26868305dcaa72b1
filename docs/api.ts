/**
 * The pages of the reference that are made from the code: `npm run api` writes them, and a test compares.
 */
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { declareClient } from "../packaging/package.ts";
import { runProcess } from "../src/lib/run-process.ts";

const ROOT = path.resolve(import.meta.dirname, "..");

/** Page → its text. */
export async function madePages(): Promise<Record<string, string>> {
  return {
    "docs/reference/python-api.md": await pythonApi(),
    "docs/reference/typescript-api.md": await typescriptApi(),
  };
}

async function pythonApi(): Promise<string> {
  const env = { PATH: process.env.PATH, PYTHONPATH: path.join(ROOT, "python/src"), PYTHONDONTWRITEBYTECODE: "1" };
  const { code, stdout, stderr } = await runProcess("python3", ["docs/python_api.py"], { cwd: ROOT, env });
  if (code !== 0) throw new Error(stderr);
  return stdout;
}

const INTRODUCTION = `# The TypeScript API

What \`import { … } from "svc/client"\` gives, made from the code's own declarations. How it is used stands in
[call from TypeScript](../build/typescript.md) and in [calling endpoints](calling.md#from-typescript).
`;

async function typescriptApi(): Promise<string> {
  const out = mkdtempSync(path.join(tmpdir(), "svc-api-"));
  try {
    await declareClient(out);
    const files = globSync("**/*.d.ts", { cwd: out }).map((file) => readFileSync(path.join(out, file), "utf8"));
    const entry = readFileSync(path.join(out, "src/client/endpoint.d.ts"), "utf8");
    const declared = files.flatMap((text) => [...declarations(text)]);
    const names = [...entry.matchAll(/^export (?:declare )?(?:class|interface) (\w+)/gm)].map((match) => match[1]!);
    for (const [, list] of entry.matchAll(/^export (?:type )?\{ ([^}]+) \} from/gm))
      names.push(...list!.split(", ").map((name) => name.replace("type ", "")));
    const sections = names.map((name) => {
      const [, text] = declared.find(([each]) => each === name) ?? [];
      if (text === undefined) throw new Error(`no declaration of ${name}`);
      return `\n## ${name}\n\n\`\`\`ts\n${text}\n\`\`\`\n`;
    });
    return INTRODUCTION + sections.join("");
  } finally {
    rmSync(out, { recursive: true });
  }
}

const DECLARATION =
  /^((?:\/\*\*(?:(?!\*\/)[\s\S])*\*\/\n)?)export (?:declare )?(?=(?:abstract )?(?:class|interface) (\w+)|(?:type|const) (\w+))((?:(?:abstract )?(?:class|interface)[\s\S]*?^\}|(?:type|const)[\s\S]*?;)$)/gm;

/** Each exported declaration of a file with the comment before it, without what is private. */
function* declarations(text: string): Generator<[string, string]> {
  for (const [, comment, big, small, body] of text.matchAll(DECLARATION)) {
    const shown = body!
      .replace(/^ *(#private|private .*);\n/gm, "")
      .replace(/^(?: {4})+/gm, (spaces) => " ".repeat(spaces.length / 2));
    const of = /typeof (\w+)/.exec(shown)?.[1];
    const values =
      of === undefined ? undefined : new RegExp(`^export declare (const ${of}[^;]*;)$`, "m").exec(text)?.[1];
    yield [(big ?? small)!, `${comment}${values === undefined ? "" : `${values}\n`}${shown}`];
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  for (const [page, text] of Object.entries(await madePages())) writeFileSync(path.join(ROOT, page), text);
}
