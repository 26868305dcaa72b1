import { after, type TestContext } from "node:test";

/** Stands for a test's context where a suite begins: what is cleaned up with it is cleaned up after the suite, in the order in which it was given. */
export function suiteContext(): TestContext {
  const hooks: (() => unknown)[] = [];
  after(async () => {
    // Those that a hook adds come too.
    for (const hook of hooks) await hook();
  });
  return { after: (hook: () => unknown) => void hooks.push(hook) } as unknown as TestContext;
}
