/** A set that can be waited for until nothing is in it. */
export class AwaitedSet<T> extends Set<T> {
  readonly #waiting: (() => void)[] = [];

  override delete(value: T): boolean {
    const was = super.delete(value);
    if (this.size === 0) for (const go of this.#waiting.splice(0)) go();
    return was;
  }

  /** Resolves when nothing is in it. */
  async empty(): Promise<void> {
    while (this.size > 0) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }
}
