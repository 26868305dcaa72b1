/**
 * A program of an endpoint's own: a server that each worker starts and passes every request on to, or one that pulls its jobs
 * from the platform by itself.
 */
import {
  SERVER_COMMAND_MAX,
  SERVER_COMMAND_MAX_CHARS,
  SERVER_PORT_MAX,
  SERVER_PORT_MIN,
  SERVER_READY_MAX_S,
} from "./limits.ts";

export interface ServerSettings {
  /** Program and arguments; `{port}` in them becomes the port. */
  readonly command: readonly string[];
  /** The port that it listens on whatever it is told; 0: a free one for each worker. */
  readonly port: number;
  /** Answers with a status below 500 once it is ready; "": a connection is enough. */
  readonly readyPath: string;
  /** Seconds until it must be ready. */
  readonly readyTimeout: number;
  /** It pulls jobs of a queue-based endpoint (docs/reference/pull-workers.md); an empty command is then the image's own. */
  readonly protocol?: "pull" | undefined;
}

/** What an image runs by itself. */
export const IMAGE_PROGRAM: ServerSettings = { command: [], port: 0, readyPath: "", readyTimeout: 1, protocol: "pull" };

/** Every rule it breaks, as sentences; empty when all hold. */
export function serverProblems(
  { command, port, readyPath, readyTimeout, protocol }: ServerSettings,
  workersMax: number,
): string[] {
  const problems: string[] = [];
  const isWhole = (value: number, min: number, max: number) => Number.isInteger(value) && value >= min && value <= max;
  const isImages = command.length === 0 && protocol === "pull";
  if (protocol === "pull" && (port !== 0 || readyPath !== "")) {
    problems.push(
      'port and ready_path belong to a server, and a program with protocol="pull" asks for its jobs itself.',
    );
  }
  if ((command.length === 0 && !isImages) || command.length > SERVER_COMMAND_MAX || command[0] === "") {
    problems.push(`command has 1 to ${SERVER_COMMAND_MAX} texts, the first of which names a program.`);
  }
  if (command.join("").length > SERVER_COMMAND_MAX_CHARS || command.some((each) => each.includes("\0"))) {
    problems.push(`command has at most ${SERVER_COMMAND_MAX_CHARS} characters, and no NUL.`);
  }
  if (port !== 0 && !isWhole(port, SERVER_PORT_MIN, SERVER_PORT_MAX)) {
    problems.push(`port must be a whole number from ${SERVER_PORT_MIN} to ${SERVER_PORT_MAX}, not ${port}.`);
  }
  if (port !== 0 && workersMax > 1) {
    problems.push(
      `port=${port} can be had by one worker only, and there may be ${workersMax}: write {port} in the command and leave port= out, or workers=(0, 1).`,
    );
  }
  if (readyPath !== "" && !/^\/[!-"$-~]*$/.test(readyPath)) {
    problems.push(
      `ready_path starts with "/" and has neither spaces nor #, which ${JSON.stringify(readyPath)} has not.`,
    );
  }
  if (!isWhole(readyTimeout, 1, SERVER_READY_MAX_S)) {
    problems.push(`ready_timeout must be a whole number from 1 to ${SERVER_READY_MAX_S} seconds, not ${readyTimeout}.`);
  }
  return problems;
}
