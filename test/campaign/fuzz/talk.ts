/**
 * Ways to hold a conversation over one raw connection. Whatever the way, no answer may be a 500, answers come in the order of
 * their requests, and the platform ends the connection.
 */
import { connect, type Socket } from "node:net";
import { setImmediate } from "node:timers/promises";
import type { Mutator } from "./mutate.ts";

interface Call {
  readonly socket: Socket;
  readonly bytes: Buffer;
  readonly mutator: Mutator;
  /** Bytes of answers so far. */
  read(): number;
}

interface Manner {
  /** It is this side that ends the connection: what comes late is not waited for. */
  readonly leaves: boolean;
  say(call: Call): void | Promise<void>;
}

const PIECES_MAX = 12;
const TICKS_MAX = 40;

export const MANNERS: Readonly<Record<string, Manner>> = {
  "at once": { leaves: false, say: ({ socket, bytes }) => void socket.end(bytes) },
  "in pieces": {
    leaves: false,
    async say({ socket, bytes, mutator }) {
      const cuts = Array.from({ length: mutator.below(PIECES_MAX) }, () => mutator.below(bytes.length)).sort(
        (a, b) => a - b,
      );
      let from = 0;
      for (const cut of [...cuts, bytes.length]) {
        if (socket.destroyed) return;
        socket.write(bytes.subarray(from, cut));
        from = cut;
        await setImmediate();
      }
      socket.end();
    },
  },
  "half-closed in the middle": {
    leaves: false,
    say: ({ socket, bytes, mutator }) => void socket.end(bytes.subarray(0, 1 + mutator.below(bytes.length))),
  },
  "read slowly": {
    leaves: false,
    say({ socket, bytes, mutator }) {
      socket.on("data", () => {
        socket.pause();
        ticks(mutator.below(4)).then(() => socket.resume());
      });
      socket.end(bytes);
    },
  },
  "reset in the middle of the requests": {
    leaves: true,
    async say({ socket, bytes, mutator }) {
      socket.write(bytes.subarray(0, 1 + mutator.below(bytes.length)));
      await ticks(mutator.below(TICKS_MAX));
      socket.resetAndDestroy();
    },
  },
  "reset in the middle of the answers": {
    leaves: true,
    async say({ socket, bytes, mutator, read }) {
      const enough = mutator.below(3_000);
      const left = 1 + mutator.below(TICKS_MAX);
      socket.write(bytes);
      for (let n = 0; n < left && read() < enough; n++) await setImmediate();
      socket.resetAndDestroy();
    },
  },
  "closed with all answers unread": {
    leaves: true,
    async say({ socket, bytes, mutator }) {
      socket.pause().write(bytes);
      await ticks(mutator.below(TICKS_MAX));
      socket.destroy();
    },
  },
};

/** Half of all conversations are held at once, the others in any way. */
export function mannerOf(mutator: Mutator, isHeld: boolean): string {
  const names = Object.keys(MANNERS).filter((name) => MANNERS[name]!.leaves || !isHeld);
  return mutator.random() < 0.5 ? names[0]! : mutator.pick(names);
}

async function ticks(count: number): Promise<void> {
  for (let n = 0; n < count; n++) await setImmediate();
}

export interface Place {
  readonly port: number;
  /** How long answers may take. */
  readonly answerMaxMs: number;
}

/** Sends it and waits for the connection's end. Resolves what is wrong with the answers, if anything is. */
export function talk(bytes: Buffer, manner: string, mutator: Mutator, place: Place): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ port: place.port, host: "127.0.0.1", allowHalfOpen: true });
    const answers = new Answers();
    const done = (wrong?: string) => {
      clearTimeout(late);
      socket.destroy();
      resolve(wrong ?? answers.wrong);
    };
    const late = setTimeout(() => done(`hangs; so far: ${answers.last}`), place.answerMaxMs);
    socket.on("data", (chunk) => answers.add(chunk));
    socket.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ECONNREFUSED") done("nothing listens");
    });
    socket.on("close", () => done());
    // An upgrade stays open for both; here nobody speaks on it.
    socket.on("end", () => socket.end());
    Promise.resolve(MANNERS[manner]!.say({ socket, bytes, mutator, read: () => answers.bytes })).catch((error) =>
      done(`the test itself: ${error}`),
    );
  });
}

const KEPT_CHARS = 4_000;
const FAILURE = "HTTP/1.1 500 ";
const TAG = /"detail":"There is nothing at GET \/nothing\/\d+-(\d+)\./;

/** What came, as far as it is looked at: an answer of 500, and the tags of answers that name their request. */
class Answers {
  bytes = 0;
  #text = "";
  #failure: string | undefined;
  #tag = -1;
  #disorder: string | undefined;

  get wrong(): string | undefined {
    return this.#failure ?? this.#disorder;
  }

  get last(): string {
    return this.#text.slice(-200);
  }

  add(chunk: Buffer): void {
    this.bytes += chunk.length;
    const more = chunk.toString("latin1");
    this.#text += more;
    if (this.#failure !== undefined) this.#failure = (this.#failure + more).slice(0, KEPT_CHARS);
    else if (this.#text.includes(FAILURE)) this.#failure = this.#text.slice(this.#text.indexOf(FAILURE));
    for (let found = TAG.exec(this.#text); found !== null; found = TAG.exec(this.#text)) {
      const tag = Number(found[1]);
      if (tag <= this.#tag) this.#disorder ??= `answer ${tag} came behind answer ${this.#tag}`;
      this.#tag = tag;
      this.#text = this.#text.slice(found.index + found[0].length);
    }
    this.#text = this.#text.slice(-KEPT_CHARS);
  }
}
