/** Whom a platform asks where several share the endpoints: whoever has one, or all. */
import { VIEW_ANSWER_MAX_MS } from "../domain/limits.ts";
import type { Managed } from "../gateway-link/managed.ts";
import type { Route } from "../gateway-link/route.ts";
import type { Own } from "../lib/own.ts";

type Ask<T> = (managed: Managed) => T | Promise<T>;

export class AskedPlatforms {
  readonly #route: Route;
  readonly own: Own;
  /** This one, as soon as it can be asked. */
  here: Managed | undefined;

  constructor(route: Route, own: Own) {
    this.#route = route;
    this.own = own;
  }

  /** Whoever has the endpoint; who is not found or reached in time is not asked. */
  async owner<T>(endpointId: string, ask: Ask<T>): Promise<T> {
    const signal = AbortSignal.timeout(VIEW_ANSWER_MAX_MS);
    return this.#route.ask(({ managed }) => ask(managed!), { endpointId, signal });
  }

  /** This one first. Another that cannot be asked, or does not answer in time, is left out. */
  async all<T>(ask: Ask<T>): Promise<T[]> {
    const elsewhere = this.elsewhere(ask);
    return [await ask(this.here!), ...(await elsewhere)];
  }

  async elsewhere<T>(ask: Ask<T>): Promise<T[]> {
    const answers = await Promise.all(this.others().map((managed) => inTime(ask(managed))));
    return answers.flatMap((answer) => (answer === undefined ? [] : [answer.value]));
  }

  others(): Managed[] {
    const all = [...this.#route.backings()].map(({ managed }) => managed);
    return all.filter((managed) => managed !== undefined && managed !== this.here) as Managed[];
  }

  /** Calls `look` when there may be others, until the returned function is called. */
  watch(look: () => void): () => void {
    return this.#route.watch(look);
  }
}

async function inTime<T>(answering: T | Promise<T>): Promise<{ readonly value: T } | undefined> {
  const late = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => late.resolve(undefined), VIEW_ANSWER_MAX_MS);
  try {
    return await Promise.race([Promise.resolve(answering).then((value) => ({ value })), late.promise]);
  } catch {
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}
