/** What the files of one endpoint's jobs take on the disk. Each counts once, however many rows name it. */
import { sizeOf } from "./body-files.ts";

export class EndpointFiles {
  /** Reference → rows that name it. */
  readonly #rows = new Map<string, number>();
  bytes = 0;

  has(reference: string): boolean {
    return this.#rows.has(reference);
  }

  named(reference: string): void {
    const rows = this.#rows.get(reference) ?? 0;
    if (rows === 0) this.bytes += sizeOf(reference);
    this.#rows.set(reference, rows + 1);
  }

  unnamed(reference: string): void {
    const rows = this.#rows.get(reference) ?? 0;
    if (rows > 1) this.#rows.set(reference, rows - 1);
    else if (this.#rows.delete(reference)) this.bytes -= sizeOf(reference);
  }
}
