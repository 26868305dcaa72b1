/** Load-balanced requests on their way to the owner's workers: whole or streaming, both ways no faster than they are read. */

import type { SvcError } from "../domain/errors.ts";
import { GATEWAY_EXCESS_MAX_BYTES, GATEWAY_WINDOW_BYTES } from "../domain/limits.ts";
import type { LoadBalancedRequest, LoadBalancedResponse, RequestForwarder } from "../domain/request.ts";
import type { WorkerBoot } from "../domain/worker.ts";
import { MORE } from "../domain/worker-protocol.ts";
import { type Frame, parseHead } from "../lib/frames.ts";
import { WindowedStream } from "../lib/windowed-stream.ts";
import type { Open, OwnerLink } from "./owner-link.ts";
import { errorOf, type FailedHead, LINK_FRAME, readValue } from "./protocol.ts";
import { SendWindow } from "./send-window.ts";

export type ResponseValue = Omit<LoadBalancedResponse, "body">;
export interface RequestValue extends Omit<LoadBalancedRequest, "body" | "departure" | "handedOut"> {
  /** The gateway wants to know when a worker gets it. */
  readonly tells?: true;
}

export class OwnerForwarder implements RequestForwarder {
  readonly #link: OwnerLink;
  readonly bootOf: (workerId: string) => WorkerBoot | undefined;

  constructor(link: OwnerLink, bootOf: (workerId: string) => WorkerBoot | undefined) {
    this.#link = link;
    this.bootOf = bootOf;
  }

  forward(request: LoadBalancedRequest): Promise<LoadBalancedResponse> {
    return new Promise((resolve, reject) => {
      new Forwarded(this.#link, request, resolve, reject).send();
    });
  }
}

class Forwarded implements Open {
  readonly #link: OwnerLink;
  readonly #request: LoadBalancedRequest;
  readonly #resolve: (response: LoadBalancedResponse) => void;
  readonly #reject: (error: SvcError) => void;
  readonly #upload = new SendWindow(GATEWAY_WINDOW_BYTES);
  readonly #channel: number;
  #answer: WindowedStream | undefined;

  constructor(
    link: OwnerLink,
    request: LoadBalancedRequest,
    resolve: (response: LoadBalancedResponse) => void,
    reject: (error: SvcError) => void,
  ) {
    this.#link = link;
    this.#request = request;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#channel = link.open(this);
  }

  send(): void {
    const { body, departure, handedOut, ...request } = this.#request;
    departure.onGone = () => this.#link.send(LINK_FRAME.CANCEL, this.#channel, {});
    const isWhole = Buffer.isBuffer(body);
    const value: RequestValue = handedOut === undefined ? request : { ...request, tells: true };
    this.#link.send(
      LINK_FRAME.ASK,
      this.#channel,
      { op: "forward", request: value },
      isWhole ? body : undefined,
      !isWhole,
    );
    if (!isWhole && handedOut === undefined) this.#beginBody(body);
    if (departure.hasGone) departure.onGone();
  }

  onFrame(frame: Frame): boolean {
    const more = (frame.flags & MORE) !== 0;
    if (frame.type === LINK_FRAME.WINDOW) {
      this.#upload.widen(parseHead<{ bytes: number }>(frame).bytes);
      return false;
    }
    if (frame.type === LINK_FRAME.TAKEN) {
      const { body, handedOut } = this.#request;
      handedOut?.();
      // Until then nothing of it is read: another may be asked.
      if (!Buffer.isBuffer(body)) this.#beginBody(body);
      return false;
    }
    if (frame.type === LINK_FRAME.ANSWER) this.#answered(frame, more);
    else if (frame.type === LINK_FRAME.BODY) this.#push(frame, more);
    else this.lost(errorOf(parseHead<FailedHead>(frame)));
    if (!more) this.#over();
    return !more;
  }

  lost(error: SvcError): void {
    this.#over();
    this.#answer?.destroy(error);
    this.#reject(error);
  }

  #answered(frame: Frame, more: boolean): void {
    const { value, body } = readValue<ResponseValue>(frame);
    if (more) {
      this.#answer = new WindowedStream(GATEWAY_WINDOW_BYTES, GATEWAY_EXCESS_MAX_BYTES, (bytes) =>
        this.#link.send(LINK_FRAME.WINDOW, this.#channel, { bytes }),
      );
    }
    this.#resolve({ ...value, body: this.#answer ?? body });
  }

  #push(frame: Frame, more: boolean): void {
    if (this.#answer === undefined || this.#answer.destroyed) return;
    this.#answer.add(frame.body);
    if (more) return;
    if (parseHead<{ failed?: boolean }>(frame).failed) this.#answer.destroy(new Error("The function failed."));
    else this.#answer.finish();
  }

  #beginBody(body: AsyncIterable<Buffer>): void {
    this.#pump(body).catch(() => this.#link.send(LINK_FRAME.CANCEL, this.#channel, {}));
  }

  /** Rejects when the caller broke off in the middle of the body. */
  async #pump(body: AsyncIterable<Buffer>): Promise<void> {
    for await (const chunk of body) {
      if (!(await this.#upload.take(chunk.length))) return;
      this.#link.send(LINK_FRAME.BODY, this.#channel, {}, chunk, true);
      await this.#link.drained();
    }
    this.#link.send(LINK_FRAME.BODY, this.#channel, {});
  }

  #over(): void {
    this.#upload.close();
    this.#request.departure.onGone = () => {};
  }
}
