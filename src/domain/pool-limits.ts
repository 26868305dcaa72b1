/** Numbers that bound pools of Pods, and the way to the API server of Kubernetes. */

const KB = 1024;
const MB = 1024 * KB;

// Pools
export const POOLS_MAX = 50;
/** Pods that are on their way at once, of all pools. */
export const PODS_COMING_MAX = 20;
/** One that has not come for so long is no more of them: it may never come, and keeps no others back. */
export const POD_COMING_MAX_MS = 30_000;
/** Endpoints that wait and are looked at in one turn: as many Pods as may be on their way serve no more. */
export const POOL_WISHES_MAX = 200;
/** A Pod whose agent does not answer for so long is deleted. */
export const POD_AWAY_MAX_MS = 60_000;
/** One that is away for less counts as one that is on its way: no other is made in its place. */
export const POD_BACK_MAX_MS = 5_000;
/** One without workers gives way to others who wait, where its pool has all its Pods or the scheduler finds no node, but not sooner. */
export const POD_YIELD_MS = 5_000;
/** Where one gave way to a Pod that has no node, none is made to be warm for so long: it would take the place again. */
export const POD_UNPLACED_MAX_MS = 60_000;
/** A node is kept free of new Pods for so long after the platform noticed that it may be gone: Kubernetes takes 40 to 50 seconds by default. */
export const NODE_AVOIDED_MAX_MS = 90_000;
export const NODES_AVOIDED_MAX = 50;
/** A Pod that has a node, of which that node's kubelet says nothing for so long, is made anew elsewhere. */
export const POD_UNBEGUN_MAX_MS = 120_000;
/** A Pod whose program runs and has not joined for so long is deleted. */
export const POD_JOIN_MAX_MS = 300_000;
/** A Pod without workers that has other GPUs than its pool says is made anew after so long. */
export const POD_OTHER_GPUS_MAX_MS = 300_000;
/** What the agent and the launcher need of a Pod's memory, beside what workers have. */
export const POD_OWN_MEMORY_MB = 512;
/** What the agent of a Pod with an endpoint's own image has: vCPUs that are kept for it and that it may use, and memory. */
export const POD_AGENT_CPU = 0.1;
export const POD_AGENT_CPU_MAX = 1;
export const POD_AGENT_MEMORY_MB = 256;
/** What an endpoint's own image says of itself, and how long it may take. */
export const POD_FACTS_MAX_BYTES = 4 * MB;
export const POD_GREETING_MAX_MS = 60_000;
/** Beyond what running workers may take to finish, a Pod that is told to end has so long. */
export const POD_END_GRACE_S = 60;
/** What is wanted and what is there is looked at so often. */
export const POOL_LOOK_MS = 1_000;
/** After the API server refused a Pod of a pool, none of it is made for so long. */
export const POOL_REFUSED_REST_MS = 10_000;
/** The token by which a Pod proves itself is renewed by its kubelet before this is over. */
export const POD_TOKEN_S = 3_600;
/** Of a Pod's token: a Kubernetes token has 1 to 2 KB. */
export const POD_TOKEN_MAX_BYTES = 8 * KB;
/** The API server's keys are read again for a key that is not known, but not more often. */
export const POD_KEYS_REST_MS = 10_000;

// The API server
export const KUBERNETES_ANSWER_MAX_MS = 30_000;
export const KUBERNETES_ANSWER_MAX_BYTES = 64 * MB;
/** Pods in one answer: with all that clusters write into one it has some 10 KB. */
export const KUBERNETES_LISTED_MAX = 500;
/** One event of a watch. */
export const KUBERNETES_EVENT_MAX_BYTES = 4 * MB;
/** A watch ends by itself after so long, and goes on where it was. */
export const KUBERNETES_WATCH_S = 240;
/** The API server sends a bookmark about once a minute: a watch that is silent for so long is cut off. */
export const KUBERNETES_SILENCE_MAX_MS = 150_000;
/** Everything is listed anew so often, whatever the watch said. */
export const KUBERNETES_RELIST_MS = 600_000;
/** Between tries while it is away, doubling. */
export const KUBERNETES_RETRY_FIRST_MS = 200;
export const KUBERNETES_RETRY_MAX_MS = 15_000;
/** What it says in a refusal, as far as it is shown. */
export const KUBERNETES_WORDS_MAX_CHARS = 1_000;
