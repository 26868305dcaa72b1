/**
 * What a function yields for a stream, as text of server-sent events: a text is passed on as it is, also where it holds a part of
 * an event or several; an object becomes an event of its own, a list several.
 */
import { type OpenAiError, SvcError } from "../domain/errors.ts";

const FIELDS = ["data:", "event:", "id:", "retry:"];
const FIELD = /^(?:(?:data|event|id|retry)(?::|$)|:)/;
/** In JSON it is white space between tokens. */
const LINE_BREAK = /[\r\n]/;
const DONE = "data: [DONE]";
/** As much of a line that goes on in the next text as tells what it is. */
const LINE_START_CHARS = 32;

export class EventText {
  /** How the line begins that goes on in the next text. */
  #line = "";
  /** An event was begun and is not ended by an empty line. */
  #open = false;
  #hasData = false;
  #done = false;

  /** What is written next begins an event. */
  get isBetween(): boolean {
    return this.#line === "" && !this.#open;
  }

  /** `json`: the text that it was read from. Throws BAD_RESPONSE for a text that is no part of events. */
  of(value: unknown, json?: string): string {
    if (typeof value === "string") return this.#text(value);
    if (Array.isArray(value)) return value.map((each) => this.of(each)).join("");
    const event = `data: ${json === undefined || LINE_BREAK.test(json) ? JSON.stringify(value) : json}\n\n`;
    if (!this.isBetween) return this.#text(event);
    this.#hasData = false;
    return event;
  }

  /** The end of the stream, with the event that clients wait for unless it was sent. */
  end(): string {
    return this.#break() + (this.#done || this.#line === DONE ? "" : `${DONE}\n\n`);
  }

  failed(error: OpenAiError): string {
    return `${this.#break()}data: ${JSON.stringify({ error })}\n\n`;
  }

  #break(): string {
    return this.isBetween ? "" : "\n\n";
  }

  #text(given: string): string {
    // Many a function yields lines without what ends them; each is the data of an event.
    const begins = given.startsWith("data:") && (this.#line !== "" || this.#hasData);
    const text = begins ? `${this.#line === "" ? "" : "\n"}\n${given}` : given;
    const lines = (this.#line + text).split("\n");
    const rest = lines.pop()!;
    for (const line of lines) this.#take(line.endsWith("\r") ? line.slice(0, -1) : line);
    if (!FIELD.test(rest) && !FIELDS.some((field) => field.startsWith(rest))) throw notEvents(rest);
    this.#line = rest.slice(0, LINE_START_CHARS);
    return text;
  }

  #take(line: string): void {
    if (line !== "" && !FIELD.test(line)) throw notEvents(line);
    this.#open = line !== "" && (this.#open || !line.startsWith(":"));
    this.#hasData = line !== "" && (this.#hasData || line.startsWith("data"));
    this.#done ||= line === DONE;
  }
}

function notEvents(line: string): SvcError {
  const shown = JSON.stringify(line.slice(0, 40));
  return new SvcError("BAD_RESPONSE", `The function yielded ${shown}, which is no line of a server-sent event.`, {
    help: 'Yield objects, or texts like "data: {…}\\n\\n".',
  });
}
