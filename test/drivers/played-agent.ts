/** The agent of a machine, played frame by frame. */
import type { Machine } from "../../src/domain/capacity.ts";
import { HOST_FRAME, type HostState } from "../../src/domain/host-protocol.ts";
import type { HostChannel } from "../../src/drivers/hosts/known-host.ts";

export const SIZE = { vcpus: 4, memoryGb: 16 };
export const MACHINE: Machine = { ...SIZE, hardware: SIZE, gpus: [], emulatesGpu: false };

/** The agent's end: answers what it is asked, unless told otherwise. */
export class Agent implements HostChannel {
  isOpen = true;
  isPaused = false;
  lastHeard = performance.now();
  readonly asked: { id: number; call: string; body: Record<string, unknown> }[] = [];
  readonly sent: number[] = [];
  answers: (call: string) => object | undefined = () => ({});
  onFrame: HostChannel["onFrame"] = () => {};
  onClose = () => {};

  send(type: number, _channel: number, head?: object, body?: Uint8Array): void {
    this.sent.push(type);
    if (type !== HOST_FRAME.ASK) return;
    const { id, call } = head as { id: number; call: string };
    this.asked.push({ id, call, body: body === undefined ? {} : JSON.parse(Buffer.from(body).toString()) });
    const answer = this.answers(call);
    if (answer !== undefined) queueMicrotask(() => this.answer(id, answer));
  }
  answer(id: number, answer: object): void {
    if ("error" in answer) this.say(HOST_FRAME.ANSWER, { id, ...answer });
    else this.say(HOST_FRAME.ANSWER, { id }, answer);
  }
  say(type: number, head: object, body: object | string = ""): void {
    const bytes = Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
    this.onFrame({ type, flags: 0, channel: 0, headBytes: Buffer.from(JSON.stringify(head)), body: bytes });
  }
  state(changes: Partial<HostState> = {}): void {
    this.say(
      HOST_FRAME.STATE,
      {},
      { machine: MACHINE, workers: [], ended: [], missing: [], freeDiskBytes: 1, ...changes },
    );
  }
  event(event: string, workerId: string, more: { stream?: string; of?: object; text?: string } = {}): void {
    const { text = "", ...rest } = more;
    this.say(HOST_FRAME.EVENT, { event, workerId, ...rest }, text);
  }
  calls(call: string) {
    return this.asked.filter((one) => one.call === call);
  }
  destroy(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.onClose();
  }
  close(): void {
    this.destroy();
  }
}
