import { setTimeout as delay } from "node:timers/promises";
import { type Glance, History } from "../../client/history.ts";
import { TOP_DECISIONS, TOP_REFRESH_MS } from "../../domain/limits.ts";
import { command, jsonFlag, switchFlag } from "../command.ts";
import { requirePlatform } from "../connect.ts";
import type { CliContext } from "../context.ts";
import { topView } from "../top/view.ts";

export const topCommand = command({
  brief: "Watch endpoints, workers and queues",
  text: "Shows every endpoint with its workers, what waits and runs, times and failures of the last five minutes, and the newest scaling decisions, again and again. The arrow keys scroll; q or Ctrl+C ends it.",
  examples: [
    ["svc top", "Watch, until q"],
    ["svc top --once", "Once, also without a terminal"],
    ["svc top --json", "Once, for programs"],
  ],
  flags: { once: switchFlag("Print it once, and end"), json: jsonFlag },
  async run({ once, json }) {
    const { terminal } = this;
    const { controlPlane } = await requirePlatform(this);
    const look = () => new History(controlPlane.platform).glance(TOP_DECISIONS);
    const first = await look();
    if (json) return terminal.json(first);
    if (once || !terminal.hasScreen) {
      const { head, body, foot } = topView(first, Date.now(), terminal.columns, terminal.colors);
      for (const line of [...head, ...body, "", ...foot]) terminal.out(line);
      return;
    }
    await watch(this, first, look);
  },
});

const QUIT = new Set(["q", "Q", "\x1b"]);
const CTRL_C = "\x03";
const LINES: Readonly<Record<string, number>> = { "\x1b[A": -1, k: -1, "\x1b[B": 1, j: 1 };
const PAGES: Readonly<Record<string, number>> = { "\x1b[5~": -1, "\x1b[6~": 1, " ": 1 };

/** Until a key or a signal ends it; the screen is given back either way. */
async function watch({ terminal, interrupt }: CliContext, first: Glance, look: () => Promise<Glance>): Promise<void> {
  let glance = first;
  let trouble = "";
  let offset = 0;
  let interrupted = false;
  const over = new AbortController();

  const draw = () => {
    const { head, body, foot } = topView(glance, Date.now(), screen.columns, terminal.colors);
    // On a low screen decisions give way: a line of endpoints and the last line stay.
    const belowMax = Math.max(0, screen.rows - head.length - 3);
    const below = [...(trouble === "" ? [] : [terminal.colors.red(trouble)]), ...foot].slice(0, belowMax);
    const room = Math.max(1, screen.rows - head.length - below.length - 2);
    offset = Math.max(0, Math.min(offset, body.length - room));
    const shown = body.slice(offset, offset + room);
    const hidden = body.length > room ? `  ↑↓ scroll, ${offset + 1}-${offset + shown.length} of ${body.length}` : "";
    const padding = Array.from({ length: room - shown.length }, () => "");
    screen.show([...head, ...shown, ...padding, ...below, "", terminal.colors.dim(`q ends${hidden}`)]);
  };
  const screen = terminal.fullScreen({
    resize: draw,
    key: (key) => {
      if (QUIT.has(key)) return over.abort();
      if (key === CTRL_C) {
        interrupted = true;
        return over.abort();
      }
      offset += (LINES[key] ?? 0) + (PAGES[key] ?? 0) * Math.max(1, screen.rows - 8);
      draw();
    },
  });
  const release = interrupt.claim(() => {
    interrupted = true;
    over.abort();
  });
  screen.open();
  try {
    draw();
    for (;;) {
      await delay(TOP_REFRESH_MS, undefined, { signal: over.signal }).catch(() => {});
      if (over.signal.aborted) break;
      try {
        glance = await look();
        trouble = "";
      } catch (error) {
        trouble = `${error instanceof Error ? error.message : String(error)} It is tried again.`;
      }
      draw();
    }
  } finally {
    screen.close();
    release();
  }
  if (interrupted) interrupt.end();
}
