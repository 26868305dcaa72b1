/** `command=` and what belongs to it, as the settings of a server. */
import { SERVER_READY_DEFAULT_S } from "../domain/limits.ts";
import { type ServerSettings, serverProblems } from "../domain/server.ts";
import type { Value } from "./facts.ts";

type Given = ReadonlyMap<string, Value>;

/** How a finding about a value is reported. */
export interface Complaints {
  /** It is of another type, or cannot be known before the code runs. */
  readonly unknown: (value: Value, keyword: string, wanted: string) => undefined;
  readonly error: (value: Value, message: string, help: string) => undefined;
}

const OF_A_SERVER = ["port", "ready_path", "ready_timeout"] as const;
const PROTOCOLS = ["http", "pull"];

/** undefined without a command, and where that cannot be read, which is reported. */
export function readServer(given: Given, workersMax: number, complaints: Complaints): ServerSettings | undefined {
  const command = given.get("command");
  const protocol = readProtocol(given, complaints);
  if (command === undefined) {
    for (const keyword of OF_A_SERVER) {
      const value = given.get(keyword);
      const help = 'Give the endpoint its command, such as command=["uvicorn", "app:app", "--port", "{port}"].';
      if (value !== undefined)
        complaints.error(value, `${keyword}= belongs to a server, and there is no command=.`, help);
    }
    return undefined;
  }
  const texts = readTexts(command, "command", '["uvicorn", "app:app", "--port", "{port}"]', complaints);
  const number = (keyword: "port" | "ready_timeout") => {
    const value = given.get(keyword);
    if (value === undefined || value.kind === "number") return value?.value;
    return complaints.unknown(value, keyword, "a whole number");
  };
  const path = given.get("ready_path");
  if (path !== undefined && path.kind !== "string") complaints.unknown(path, "ready_path", "a text");
  if (protocol === "pull") {
    const ready = given.get("ready_timeout");
    const help = "A program that pulls is ready when it asks for its first job.";
    if (ready !== undefined) complaints.error(ready, "ready_timeout= belongs to a server.", help);
  }
  const server: ServerSettings = {
    command: texts ?? ["?"],
    port: number("port") ?? 0,
    readyPath: path?.kind === "string" ? path.value : "",
    readyTimeout: number("ready_timeout") ?? SERVER_READY_DEFAULT_S,
    ...(protocol === "pull" ? { protocol } : {}),
  };
  const free = given.get("port")?.kind === "number" && server.port === 0;
  if (free) complaints.error(given.get("port")!, "port=0 is no port.", "Leave port= out for a free one.");
  for (const problem of serverProblems(server, workersMax)) {
    const keyword = OF_A_SERVER.find((one) => problem.startsWith(one)) ?? "command";
    complaints.error(given.get(keyword)!, problem, "docs/reference/servers.md says what a server is given.");
  }
  return texts === undefined ? undefined : server;
}

/** "pull", or undefined for a server. */
function readProtocol(given: Given, complaints: Complaints): "pull" | undefined {
  const value = given.get("protocol");
  if (value === undefined) return undefined;
  if (value.kind !== "string") return complaints.unknown(value, "protocol", '"http" or "pull"');
  const help = "docs/reference/pull-workers.md says what a program that pulls is given.";
  if (!PROTOCOLS.includes(value.value)) {
    return complaints.error(value, `protocol must be "http" or "pull", not ${JSON.stringify(value.value)}.`, help);
  }
  if (!given.has("command") && !(value.value === "pull" && given.has("image"))) {
    return complaints.error(value, "protocol= belongs to a command=, and there is none.", help);
  }
  return value.value === "pull" ? "pull" : undefined;
}

/** A list of texts; undefined when it is none, which is reported. */
export function readTexts(
  value: Value,
  keyword: string,
  example: string,
  complaints: Complaints,
): string[] | undefined {
  const wanted = `a list of texts such as ${example}`;
  if (value.kind !== "list") return complaints.unknown(value, keyword, wanted);
  const texts = value.items.map((item) =>
    item.kind === "string" ? item.value : complaints.unknown(item, keyword, wanted),
  );
  return texts.includes(undefined) ? undefined : (texts as string[]);
}
