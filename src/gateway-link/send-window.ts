/** Room for the bytes of a body that the other end reads at its own pace. */
export class SendWindow {
  #room: number;
  #isOver = false;
  #onChange = () => {};

  constructor(bytes: number) {
    this.#room = bytes;
  }

  /** Waits until `bytes` more may be sent. Resolves false when nobody wants them any more. */
  async take(bytes: number): Promise<boolean> {
    while (this.#room <= 0 && !this.#isOver) {
      await new Promise<void>((resolve) => {
        this.#onChange = resolve;
      });
    }
    this.#room -= bytes;
    return !this.#isOver;
  }

  widen(bytes: number): void {
    this.#room += bytes;
    this.#onChange();
  }

  close(): void {
    this.#isOver = true;
    this.#onChange();
  }
}
