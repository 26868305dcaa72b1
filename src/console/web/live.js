/**
 * What changes on the platform: one stream of server-sent events for the whole page (`/events`). Whoever shows something asks again
 * when its topic is named. While the stream is broken, and beside it, everything is asked for again from time to time.
 */
import { connection, lines, onConnection } from "./platform.js";

const TOPICS = ["endpoints", "series", "decisions", "jobs"];
const AGAIN_MS = 2_000;
const listeners = new Set();
let stream;

/** Calls `listener` with the name of a topic, until the returned function is called: those of TOPICS, "workers", and "all". */
export function onChange(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(topic) {
  for (const listener of [...listeners]) listener(topic);
}

async function follow(signal) {
  while (!signal.aborted && connection() !== "ended") {
    try {
      let topic;
      for await (const line of lines(`/events?topics=${TOPICS.join(",")}`, signal)) {
        const [, named] = /^event: ([\w-]+)/.exec(line) ?? [];
        if (named !== undefined) topic = named;
        else if (line.startsWith("data: ")) tellEvent(topic, line);
      }
    } catch {
      // Away, or refused: asked again below.
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

/** Workers come and go all the time, endpoints do not: who shows names alone need not ask again. */
function tellEvent(topic, line) {
  if (topic === "endpoints" && line.includes('"what":"workers"')) tell("workers");
  else if (TOPICS.includes(topic)) tell(topic);
  // Some were left out.
  else for (const each of ["workers", ...TOPICS]) tell(each);
}

/** A page that is not looked at follows nothing, and asks for everything when it is looked at again. */
function look() {
  stream?.abort();
  if (document.hidden) return;
  stream = new AbortController();
  follow(stream.signal);
  tell("all");
}

export function startLive() {
  document.addEventListener("visibilitychange", look);
  onConnection((state) => {
    if (state === "up") tell("all");
  });
  look();
}
