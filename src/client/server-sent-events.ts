/** Server-sent events of an answer's body, as the HTML standard parses them. */

export interface ServerSentEvent {
  /** "message" when the sender named none. */
  readonly event: string;
  readonly data: string;
  readonly id: string;
}

/** `text` may be cut anywhere. An event without data is none. */
export async function* parseEvents(text: AsyncIterable<string>): AsyncGenerator<ServerSentEvent, void, undefined> {
  let event = "";
  let data: string[] = [];
  let id = "";
  for await (const line of linesOf(text)) {
    if (line === "") {
      if (data.length > 0) yield { event: event || "message", data: data.join("\n"), id };
      event = "";
      data = [];
      continue;
    }
    const [, field = "", value = ""] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
    if (field === "event") event = value;
    else if (field === "data") data.push(value);
    else if (field === "id") id = value;
  }
}

/** Lines end with \n, \r or \r\n; what follows the last of them is no line yet. */
async function* linesOf(text: AsyncIterable<string>): AsyncGenerator<string> {
  let rest = "";
  for await (const part of text) {
    // A \r at the end may be the first half of \r\n.
    const whole = rest + part;
    const end = whole.endsWith("\r") ? whole.length - 1 : whole.length;
    const lines = whole.slice(0, end).split(/\r\n|\n|\r/);
    rest = lines.pop()! + whole.slice(end);
    yield* lines;
  }
  if (rest.endsWith("\r")) yield rest.slice(0, -1);
}

/** The text of a body as it arrives; leaving the loop early ends the request. */
export async function* textOf(body: ReadableStream<Uint8Array> | null): AsyncGenerator<string> {
  if (body === null) return;
  const reader = body.getReader();
  const decoder = new TextDecoder();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield decoder.decode(value, { stream: true });
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
