/** Makes inputs that nobody would write out of ones that somebody would. */
export class Mutator {
  readonly random: () => number;

  constructor(random: () => number) {
    this.random = random;
  }

  below(limit: number): number {
    return Math.floor(this.random() * limit);
  }

  pick<T>(values: readonly T[]): T {
    return values[this.below(values.length)]!;
  }

  /** Some pieces in any order, each as often as it comes. */
  some<T>(values: readonly T[], max: number): T[] {
    return Array.from({ length: this.below(max + 1) }, () => this.pick(values));
  }

  /** Changes a few places: bytes flipped, cut out, doubled, or a piece of `tokens` put in. */
  bytes(from: Uint8Array, tokens: readonly string[], changesMax = 4): Buffer {
    let bytes = Buffer.from(from);
    for (let left = 1 + this.below(changesMax); left > 0; left--) {
      const at = this.below(bytes.length + 1);
      const to = Math.min(bytes.length, at + this.below(20));
      const put = (piece: Uint8Array, from = at) => Buffer.concat([bytes.subarray(0, at), piece, bytes.subarray(from)]);
      const change = this.below(4);
      if (change === 0 && at < bytes.length) bytes[at] = this.below(256);
      else if (change === 1) bytes = put(Buffer.alloc(0), to);
      else if (change === 2) bytes = put(bytes.subarray(at, to));
      else bytes = put(Buffer.from(this.pick(tokens)));
    }
    return bytes;
  }

  /** As `bytes`, at the same length: what stands at fixed places stays there. */
  inPlace(from: Uint8Array, tokens: readonly string[], changesMax: number): Buffer {
    const bytes = Buffer.from(from);
    for (let left = 1 + this.below(changesMax); left > 0; left--) {
      const at = this.below(bytes.length);
      if (this.random() < 0.4) bytes[at] = this.below(256);
      else bytes.write(this.pick(tokens), at, "latin1");
    }
    return bytes;
  }

  /** A value as JSON has them, with a few of the kind that surprise. */
  json(depth = 3): unknown {
    const leaf = [
      null,
      true,
      0,
      -1,
      1.5,
      2 ** 53,
      1e300,
      "",
      "x",
      "../..",
      "\u0000",
      "é\u2028",
      "a".repeat(300),
      "__proto__",
    ];
    if (depth === 0 || this.random() < 0.5) return this.pick(leaf);
    if (this.random() < 0.5) return Array.from({ length: this.below(4) }, () => this.json(depth - 1));
    return Object.fromEntries(
      this.some(["name", "input", "id", "__proto__", "constructor", "version", ""], 4).map((key) => [
        key,
        this.json(depth - 1),
      ]),
    );
  }
}
