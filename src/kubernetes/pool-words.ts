/** What a pool waits for or what is wrong with it, in the words of those who look after the platform and of those who wait. */
import { type Pod, podTrouble, podWords } from "./pod.ts";

/** A pool as whoever looks after the platform sees it. */
export interface PoolView {
  readonly name: string;
  readonly pods: number;
  /** Of them, those whose agents have joined. */
  readonly joined: number;
  readonly max: number;
  /** What it waits for, in words; undefined: nothing out of the ordinary. */
  readonly trouble: string | undefined;
}

/** A pool as it is at the moment. */
export interface PoolState {
  readonly name: string;
  readonly max: number;
  /** Those that stay. */
  readonly pods: readonly Pod[];
  /** Of them, those whose agents have not joined. */
  readonly coming: readonly Pod[];
  /** Why the API server cannot be used. */
  readonly trouble: string | undefined;
  /** Why no Pod could be made. */
  readonly refused: string | undefined;
  /** What its Pods have in place of its GPUs. */
  readonly amiss: string | undefined;
}

const AMISS_HELP =
  "No worker that needs them starts there. Correct its gpuType, or give it a nodeSelector of nodes that have them (hosts.pools of the chart).";

export function viewOf(state: PoolState): PoolView {
  const { name, max, pods, coming, amiss } = state;
  const trouble = state.trouble ?? state.refused ?? stuck(state)?.words ?? (amiss && `it has ${amiss}`);
  return { name, pods: pods.length, joined: pods.length - coming.length, max, trouble };
}

/** What is wrong, each a sentence; usually nothing. */
export function noticesOf(states: readonly PoolState[]): readonly string[] {
  const trouble = states.find((state) => state.trouble !== undefined)?.trouble;
  return [
    ...(trouble === undefined ? [] : [`The API server of Kubernetes cannot be used: ${trouble}.`]),
    ...states.flatMap(({ name, refused }) =>
      refused === undefined ? [] : [`The pool ${name} gets no further Pods: ${refused}.`],
    ),
    ...states.flatMap((state) => {
      const { pod, words } = stuck(state) ?? {};
      return pod === undefined ? [] : [`The pool ${state.name} waits for its Pod ${pod}: ${words}.`];
    }),
    ...states.flatMap(({ name, amiss }) =>
      amiss === undefined ? [] : [`The pool ${name} has ${amiss}. ${AMISS_HELP}`],
    ),
  ];
}

/** Why nothing can start in a further Pod of it yet. */
export function waitingWords({ trouble, refused, amiss, coming: [coming], pods, max }: PoolState): string {
  if (trouble !== undefined) return `the API server of Kubernetes cannot be used (${trouble})`;
  if (refused !== undefined) return `no Pod can be made (${refused})`;
  if (coming !== undefined) return `its Pod ${coming.metadata.name} is on its way: ${podWords(coming)}`;
  if (pods.length >= max) return `it has its ${max} Pods`;
  return amiss === undefined ? "it is asked for a Pod" : `it has ${amiss}`;
}

/** A Pod that cannot come, or whose containers cannot run. */
function stuck({ pods, coming }: PoolState): { readonly pod: string; readonly words: string } | undefined {
  for (const pod of pods) {
    const words = podTrouble(pod, !coming.includes(pod));
    if (words !== undefined) return { pod: pod.metadata.name, words };
  }
  return undefined;
}
