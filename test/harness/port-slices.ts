/** Ports of test files that run side by side, a slice each: what one has found free no other takes before its server listens there. */
import { FIRST_PORT, PORTS_END } from "../free-port.ts";

const SLICES = 100;
const WIDTH = (PORTS_END - FIRST_PORT) / SLICES;

export class PortSlices {
  readonly #free = Array.from({ length: SLICES }, (_, index) => FIRST_PORT + index * WIDTH);

  /** `work` gets the environment of a file that has a slice to itself, as long as there is one. */
  async lend<T>(work: (env: NodeJS.ProcessEnv) => Promise<T>): Promise<T> {
    const first = this.#free.shift();
    if (first === undefined) return work({});
    try {
      return await work({ SVC_TEST_PORTS: `${first} ${first + WIDTH}` });
    } finally {
      this.#free.push(first);
    }
  }
}
