/** The page that `--help` shows of a command, of a group of commands, or of all. */

export interface Page {
  readonly brief: string;
  readonly text: string;
  readonly examples: readonly (readonly [command: string, meaning: string])[];
  /** Words behind the command: "PROJECT_NAME", "[ENDPOINT_NAME]". */
  readonly words: readonly string[];
  readonly flags: readonly ShownFlag[];
}

export interface ShownFlag {
  /** "-a, --app NAME" */
  readonly names: string;
  readonly brief: string;
}

/** Commands below a title. */
export interface PageGroup {
  readonly title: string;
  readonly commands: readonly (readonly [name: string, brief: string])[];
}

type Rows = readonly (readonly [left: string, right: string])[];

const HELP_FLAG: ShownFlag = { names: "-h, --help", brief: "Show this page" };

/** `typed`: "svc deploy"; `columns`: how wide the reader's terminal is. */
export function helpPage(typed: string, page: Page, groups: readonly PageGroup[], columns: number): string {
  const words = [...page.words, ...(groups.length > 0 && page.words.length === 0 ? ["COMMAND"] : [])];
  const usage = ["Usage:", typed, ...words, ...(page.flags.length > 0 ? ["[FLAGS]"] : [])].join(" ");
  const text = page.text.split("\n").flatMap((line) => wrapped(line, columns));
  const parts = [usage, text.join("\n")];
  if (page.examples.length > 0) parts.push(`Examples:\n${rows(page.examples, columns)}`);
  for (const { title, commands } of groups) parts.push(`${title}:\n${rows(commands, columns, groupWidth(groups))}`);
  const flags = [...page.flags, HELP_FLAG].map(({ names, brief }) => [names, brief] as const);
  parts.push(`Flags:\n${rows(flags, columns)}`);
  return parts.join("\n\n");
}

function groupWidth(groups: readonly PageGroup[]): number {
  return Math.max(...groups.flatMap(({ commands }) => commands.map(([name]) => name.length)));
}

/** A left side that is too long has its right side on lines of its own. */
function rows(all: Rows, columns: number, given?: number): string {
  const most = Math.floor(columns / 2);
  const width = given ?? Math.max(...all.map(([left]) => left.length).filter((length) => length <= most), 0);
  const indent = " ".repeat(width + 4);
  return all
    .map(([left, right]) => {
      const lines = wrapped(right, columns - indent.length);
      const first = left.length <= width ? `  ${left.padEnd(width)}  ${lines.shift() ?? ""}` : `  ${left}`;
      return [first.trimEnd(), ...lines.map((line) => indent + line)].join("\n");
    })
    .join("\n");
}

export function wrapped(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= width) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}
