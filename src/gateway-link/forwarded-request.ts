/** A load-balanced request of a gateway, at the owner: forwarded as if it had come here. */
import { GATEWAY_EXCESS_MAX_BYTES, GATEWAY_WINDOW_BYTES } from "../domain/limits.ts";
import { Departure, type RequestForwarder } from "../domain/request.ts";
import { MORE } from "../domain/worker-protocol.ts";
import { CallerGone } from "../gateway/body.ts";
import { type Frame, parseHead } from "../lib/frames.ts";
import { WindowedStream } from "../lib/windowed-stream.ts";
import type { RequestValue, ResponseValue } from "./owner-forwarder.ts";
import { failedHead, INTERNAL, LINK_FRAME } from "./protocol.ts";
import { SendWindow } from "./send-window.ts";

type Send = (type: number, value: object, parts?: readonly Uint8Array[], flags?: number) => void;

export class ForwardedRequest {
  readonly #request: RequestValue;
  readonly #body: Buffer | WindowedStream;
  readonly #send: Send;
  readonly #departure = new Departure();
  readonly #download = new SendWindow(GATEWAY_WINDOW_BYTES);

  constructor(frame: Frame, request: RequestValue, body: Buffer, send: Send) {
    this.#request = request;
    this.#send = send;
    const streams = (frame.flags & MORE) !== 0;
    this.#body = streams
      ? new WindowedStream(GATEWAY_WINDOW_BYTES, GATEWAY_EXCESS_MAX_BYTES, (bytes) =>
          send(LINK_FRAME.WINDOW, { bytes }),
        )
      : body;
  }

  /** Resolves when the answer has been sent. Rejects with what no caller gets to see. */
  async pass(forwarder: RequestForwarder, drained: () => Promise<void>): Promise<void> {
    try {
      const { tells, ...request } = this.#request;
      const { body, ...value } = await forwarder.forward({
        ...request,
        ...(tells && { handedOut: () => this.#send(LINK_FRAME.TAKEN, {}) }),
        body: this.#body,
        departure: this.#departure,
      });
      const response: ResponseValue = value;
      if (Buffer.isBuffer(body)) this.#send(LINK_FRAME.ANSWER, response, [body]);
      else {
        this.#send(LINK_FRAME.ANSWER, response, undefined, MORE);
        await this.#pump(body, drained);
      }
    } catch (error) {
      const head = failedHead(error);
      this.#send(LINK_FRAME.FAILED, head ?? INTERNAL);
      if (head === undefined) throw error;
    } finally {
      // What is left of an upload nobody wants.
      if (!Buffer.isBuffer(this.#body)) this.#body.destroy();
    }
  }

  onFrame(frame: Frame): void {
    if (frame.type === LINK_FRAME.WINDOW) this.#download.widen(parseHead<{ bytes: number }>(frame).bytes);
    else if (!Buffer.isBuffer(this.#body)) {
      this.#body.add(frame.body);
      if ((frame.flags & MORE) === 0) this.#body.finish();
    }
  }

  /** The caller has gone. */
  cancel(): void {
    this.#departure.gone();
    this.#download.close();
    if (!Buffer.isBuffer(this.#body)) this.#body.destroy(new CallerGone());
  }

  async #pump(body: AsyncIterable<Buffer>, drained: () => Promise<void>): Promise<void> {
    try {
      for await (const chunk of body) {
        if (!(await this.#download.take(chunk.length))) return;
        this.#send(LINK_FRAME.BODY, {}, [chunk], MORE);
        await drained();
      }
      this.#send(LINK_FRAME.BODY, {});
    } catch {
      this.#send(LINK_FRAME.BODY, { failed: true }); // The function, or its worker.
    }
  }
}
