/** What a template says of its containers besides image and variables. */
import { SvcError } from "./errors.ts";
import { CONTAINER_ARGS_MAX, CONTAINER_TEXT_MAX_CHARS, README_MAX_CHARS } from "./limits.ts";

/** Kept as it was given, for those who ask again. Workers have of it what EndpointContainer has. */
export interface TemplateContainer {
  /** Arguments in place of the image's own, as one text; or JSON, {"entrypoint": […], "cmd": […]}. */
  readonly dockerArgs: string;
  readonly dockerEntrypoint: readonly string[];
  readonly dockerStartCmd: readonly string[];
  /** Id of registry credentials; "" for none. */
  readonly containerRegistryAuthId: string;
  readonly containerDiskInGb: number;
  readonly volumeInGb: number;
  readonly volumeMountPath: string;
  /** A comma list such as "8888/http,22/tcp". */
  readonly ports: string;
  readonly isServerless: boolean;
  readonly isPublic: boolean;
  readonly startSsh: boolean;
  readonly startJupyter: boolean;
  readonly readme: string;
  readonly category: string;
}

export const CONTAINER_DEFAULT: TemplateContainer = {
  dockerArgs: "",
  dockerEntrypoint: [],
  dockerStartCmd: [],
  containerRegistryAuthId: "",
  containerDiskInGb: 0,
  volumeInGb: 0,
  volumeMountPath: "",
  ports: "",
  isServerless: true,
  isPublic: false,
  startSsh: false,
  startJupyter: false,
  readme: "",
  category: "",
};

/** What the container of an endpoint that saveEndpoint made runs, and how its image is had. */
export interface EndpointContainer {
  /** In place of the image's own; [] for that. */
  readonly entrypoint: readonly string[];
  readonly command: readonly string[];
  /** Of the credentials that its image is pulled with; "" for none. */
  readonly registryAuthId: string;
}

/** Undefined when the image's own is all. */
export function endpointContainer(container: TemplateContainer): EndpointContainer | undefined {
  const { containerRegistryAuthId: registryAuthId, dockerEntrypoint, dockerStartCmd } = container;
  const args = programOf(container.dockerArgs);
  const entrypoint = dockerEntrypoint.length > 0 ? dockerEntrypoint : args.entrypoint;
  const command = dockerStartCmd.length > 0 ? dockerStartCmd : args.command;
  if (entrypoint.length === 0 && command.length === 0 && registryAuthId === "") return undefined;
  return { entrypoint, command, registryAuthId };
}

/** Throws INVALID_SETTING with every rule that it breaks. */
export function checkContainer(template: string, container: TemplateContainer): void {
  const { dockerArgs, dockerEntrypoint, dockerStartCmd, readme, ...rest } = container;
  const problems: string[] = [];
  const texts = { dockerArgs, ports: rest.ports, volumeMountPath: rest.volumeMountPath, category: rest.category };
  for (const [name, text] of Object.entries(texts)) {
    if (text.length > CONTAINER_TEXT_MAX_CHARS)
      problems.push(`${name} has at most ${CONTAINER_TEXT_MAX_CHARS} characters.`);
    if (text.includes("\0")) problems.push(`${name} cannot hold a zero byte.`);
  }
  if (readme.length > README_MAX_CHARS) problems.push(`readme has at most ${README_MAX_CHARS} characters.`);
  for (const [name, words] of Object.entries({ dockerEntrypoint, dockerStartCmd })) {
    const fits = words.length <= CONTAINER_ARGS_MAX && words.join("").length <= CONTAINER_TEXT_MAX_CHARS;
    if (!fits)
      problems.push(
        `${name} has at most ${CONTAINER_ARGS_MAX} texts, ${CONTAINER_TEXT_MAX_CHARS} characters together.`,
      );
    if (words.some((word) => word.includes("\0"))) problems.push(`${name} cannot hold a zero byte.`);
  }
  if (dockerStartCmd.length === 0 && programOf(dockerArgs).unclosed)
    problems.push("dockerArgs has a quote that is not closed.");
  for (const name of ["containerDiskInGb", "volumeInGb"] as const) {
    if (!(Number.isInteger(rest[name]) && rest[name] >= 0)) problems.push(`${name} must be a whole number, 0 or more.`);
  }
  if (problems.length > 0) throw new SvcError("INVALID_SETTING", `Template "${template}": ${problems.join(" ")}`);
}

interface Program {
  readonly entrypoint: readonly string[];
  readonly command: readonly string[];
  readonly unclosed?: boolean;
}

function programOf(dockerArgs: string): Program {
  const text = dockerArgs.trim();
  return (text.startsWith("{") ? fromJson(text) : undefined) ?? { entrypoint: [], ...wordsOf(text) };
}

function fromJson(text: string): Program | undefined {
  try {
    const { entrypoint = [], cmd = [] } = JSON.parse(text) as { entrypoint?: unknown; cmd?: unknown };
    return isWords(entrypoint) && isWords(cmd) ? { entrypoint, command: cmd } : undefined;
  } catch {
    return undefined;
  }
}

function isWords(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((word) => typeof word === "string");
}

/** As a shell splits a line, without variables, globs and commands. */
function wordsOf(text: string): { readonly command: string[]; readonly unclosed: boolean } {
  const command: string[] = [];
  let word: string | undefined;
  let quote = "";
  for (let at = 0; at < text.length; at++) {
    const char = text[at]!;
    if (char === "\\" && quote !== "'" && at + 1 < text.length) word = (word ?? "") + text[++at];
    else if (quote !== "" && char === quote) quote = "";
    else if (quote === "" && (char === '"' || char === "'")) [quote, word] = [char, word ?? ""];
    else if (quote === "" && /\s/.test(char)) {
      if (word !== undefined) command.push(word);
      word = undefined;
    } else word = (word ?? "") + char;
  }
  if (word !== undefined) command.push(word);
  return { command, unclosed: quote !== "" };
}
