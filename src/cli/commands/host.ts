/** `svc host`: machines that joined, and `svc host token`: what lets further ones in. */
import { type HostRecord, Hosts, type HostTokenRecord, type NewHostToken } from "../../client/hosts.ts";
import { SvcError } from "../../domain/errors.ts";
import { DRAIN_WAIT_MAX_MS } from "../../domain/limits.ts";
import { isLoopback } from "../../lib/loopback.ts";
import { command, duration, group, jsonFlag, switchFlag, valueFlag } from "../command.ts";
import { requirePlatform } from "../connect.ts";
import type { CliContext } from "../context.ts";
import { dateTime, formatAge } from "../format.ts";
import { poll } from "../poll.ts";

const NAME = { placeholder: "NAME", brief: "Name of the host" };
const NONE = "No other machine has joined. Next: svc host token create";

const createToken = command({
  brief: "Make a token that lets a machine join",
  text: "Prints the command that joins a machine, once: run it there. It lets one machine in, and for an hour, unless you say otherwise. Needs a key with the scope admin, and a platform that was started with SVC_WORKER_LISTEN.",
  examples: [
    ["svc host token create", "For one machine, which chooses its name"],
    ["svc host token create gpu-1 --ttl 15m", "For a machine that is to be called gpu-1"],
    ["svc host token create --reusable --ttl 7d", "For machines that are made by a script"],
  ],
  flags: {
    ttl: valueFlag("TIME", "How long it lets machines in: 15m, 12h, 7d; default: 1h, at most 30d", duration),
    reusable: switchFlag("Let any number of machines in"),
    json: jsonFlag,
  },
  parameters: [
    { placeholder: "NAME", brief: "The only name it is good for; without it, every name is", optional: true },
  ],
  async run({ ttl, reusable, json }, name?: string) {
    const { hosts, url } = await connected(this);
    const made = await hosts.createToken({ name, expiresInSeconds: ttl, reusable });
    const reached = reachedAt(url, made.url);
    const joining = joinCommand(made, reached);
    const { id, expiresAt } = made.token;
    if (json) return this.terminal.json({ ...made.token, token: made.secret, command: joining });
    this.terminal.out(joining);
    const time =
      expiresAt === null ? "" : `for ${formatAge(expiresAt - made.token.createdAt)}, until ${dateTime(expiresAt)}`;
    const whom = made.token.reusable
      ? "any number of machines"
      : name === undefined
        ? "one machine"
        : `one machine, "${name}"`;
    this.terminal.note(`Run it on the machine that is to join: it lets in ${whom}, ${time}.`);
    this.terminal.note(`It is shown only now. To take it back: svc host token revoke ${id}`);
    this.terminal.note(`That machine must reach ${reached} and, on the same host, port ${made.port}.`);
    if (isLocal(reached)) {
      this.terminal.note(
        `Only this machine itself reaches ${reached}: put this machine's address in its place, where the platform listens there too (SVC_HOST=0.0.0.0), or set SVC_PUBLIC_URL.`,
      );
    }
  },
});

const listTokens = command({
  brief: "List the tokens",
  text: "Lists the tokens that were made and what became of them, newest first. Tokens themselves are not shown.",
  examples: [["svc host token list", "Every token"]],
  flags: { json: jsonFlag },
  async run({ json }) {
    const { hosts } = await connected(this);
    const tokens = await hosts.tokens();
    if (json) return this.terminal.json(tokens);
    if (tokens.length === 0) return this.terminal.note("There are no tokens. Next: svc host token create");
    await this.terminal.table(
      ["ID", "FOR", "STATE", "EXPIRES", "USED", "MADE BY"],
      tokens.map((token) => [
        token.id,
        token.name === "" ? (token.reusable ? "any host" : "one host") : token.name,
        stateOfToken(token, this),
        token.expiresAt === null ? "never" : dateTime(token.expiresAt),
        token.usedAt === null ? "-" : dateTime(token.usedAt),
        token.createdBy,
      ]),
      ["ID", "STATE"],
    );
  },
});

const revokeToken = command({
  brief: "Revoke a token",
  text: "No machine joins with it from then on. Machines that have joined with it stay: svc host remove NAME takes one out.",
  examples: [["svc host token revoke ID", "svc host token list shows the ids"]],
  flags: { json: jsonFlag },
  parameters: [{ placeholder: "ID", brief: "Its id" }],
  async run({ json }, id) {
    const { hosts } = await connected(this);
    await hosts.revokeToken(id);
    if (json) return this.terminal.json({ id });
    this.terminal.out(`The token ${id} is revoked. Machines that joined with it stay.`);
  },
});

const listHosts = command({
  brief: "List the machines that joined",
  text: "Lists machines that joined, what of them is free, and how many workers run there. The platform's own machine is not among them: svc status shows that.",
  examples: [
    ["svc host list", "Every host"],
    ["svc host list --json", "The same for programs, with workers"],
  ],
  flags: { json: jsonFlag },
  async run({ json }) {
    const { hosts } = await connected(this);
    const all = await hosts.list();
    if (json) return this.terminal.json(all);
    if (all.length === 0) return this.terminal.note(NONE);
    const now = Date.now();
    await this.terminal.table(
      ["HOST", "STATE", "WORKERS", "CPU FREE", "GB FREE", "GPU FREE", "LABELS"],
      all.map((host) => [
        host.name,
        stateText(host, this, now),
        String(host.workers.length),
        freeOf(host.vcpu),
        freeOf(host.memoryGb),
        freeGpus(host),
        host.labels.join(", ") || "-",
      ]),
      ["HOST", "STATE", "WORKERS"],
    );
    for (const { name, problems } of all) for (const problem of problems) this.terminal.note(`${name}: ${problem}`);
  },
});

const showHost = command({
  brief: "Show one machine and its workers",
  text: "Shows what the machine has, what of it is free and was busy within the last hour, what is wrong with it, and the workers that run there.",
  examples: [["svc host show gpu-1", "One host"]],
  flags: { json: jsonFlag },
  parameters: [NAME],
  async run({ json }, name) {
    const { hosts } = await connected(this);
    const host = hostNamed(await hosts.list(), name);
    const now = Date.now();
    const lastHour = await busyWithinAnHour(hosts, host, now);
    if (json) return this.terminal.json({ ...host, lastHour });
    const { terminal } = this;
    const rows: [string, string][] = [
      ["State", `${stateText(host, this, now)}${host.state === "away" && host.draining ? ", draining" : ""}`],
      ["Joined", dateTime(host.joinedAt)],
      ["vCPU", ofTotal(host.vcpu, "")],
      ["Memory", ofTotal(host.memoryGb, " GB")],
      ["GPUs", host.gpus.length === 0 ? "none" : `${freeGpus(host)} free: ${gpuNames(host)}`],
      ...(lastHour === null ? [] : ([["Last hour", busyWords(lastHour)]] as [string, string][])),
      ["Labels", host.labels.join(", ") || "none"],
      ["Runs", `${host.driver === "process" ? "processes" : "containers"}, svc ${host.version}, ${host.arch}`],
      ["Volumes", host.sharedVolumes ? "the platform's" : "none: endpoints with volume= run elsewhere"],
    ];
    terminal.out(terminal.colors.bold(host.name));
    for (const [what, value] of rows) terminal.out(`  ${what.padEnd(11)}${value}`);
    for (const problem of host.problems) terminal.out(`  ${terminal.colors.yellow("Problem")}    ${problem}`);
    if (host.workers.length === 0) return terminal.out("  No workers run there.");
    terminal.out();
    await terminal.table(
      ["WORKER", "ENDPOINT", "OF", "STATE", "VCPU", "GB", "GPUS", "SINCE"],
      host.workers.map((worker) => [
        worker.id,
        worker.endpoint || "-",
        worker.app === null ? "-" : `${worker.app}/${worker.environment}`,
        worker.state,
        String(worker.vcpu),
        String(worker.memoryGb),
        String(worker.gpus),
        worker.since === null ? "-" : formatAge(now - worker.since),
      ]),
      ["ENDPOINT", "STATE"],
    );
  },
});

const HOUR_MS = 3_600_000;
const BUSY = { vcpu: "machine.vcpuUsed", memoryGb: "machine.gbUsed", gpus: "machine.gpuUsed" } as const;
type Busy = Record<keyof typeof BUSY, { readonly mean: number; readonly most: number } | null>;

/** Null: nothing was recorded, or the key does not see it. */
async function busyWithinAnHour(hosts: Hosts, { name }: HostRecord, now: number): Promise<Busy | null> {
  const read = async (metric: string) => {
    const values = (await hosts.history(name, metric, now - HOUR_MS, now)).filter((value) => value !== null);
    if (values.length === 0) return null;
    return { mean: values.reduce((sum, value) => sum + value, 0) / values.length, most: Math.max(...values) };
  };
  try {
    const [vcpu, memoryGb, gpus] = await Promise.all([read(BUSY.vcpu), read(BUSY.memoryGb), read(BUSY.gpus)]);
    return vcpu === null ? null : { vcpu, memoryGb: memoryGb!, gpus: gpus! };
  } catch (error) {
    if (error instanceof SvcError && error.code === "FORBIDDEN") return null;
    throw error;
  }
}

function busyWords(busy: Busy): string {
  const UNITS = { vcpu: "vCPU", memoryGb: "GB", gpus: "GPUs" } as const;
  const rounded = (value: number) => String(Math.round(value * 10) / 10);
  const said = (Object.keys(UNITS) as (keyof typeof UNITS)[]).flatMap((of) => {
    const { mean, most } = busy[of] ?? {};
    return mean === undefined ? [] : `${rounded(mean)} ${UNITS[of]} (at most ${rounded(most!)})`;
  });
  return `${said.join(", ")} busy`;
}

const drainHost = command({
  brief: "Let a machine finish its work",
  text: "The machine gets no further workers, those that run finish their jobs and end, and the command waits for that. Ctrl+C ends the wait, not the draining.",
  examples: [
    ["svc host drain gpu-1", "Before the machine is restarted or taken away"],
    ["svc host drain gpu-1 --off", "It gets workers again"],
  ],
  flags: {
    off: switchFlag("Give it workers again"),
    noWait: switchFlag("Do not wait for its workers"),
    json: jsonFlag,
  },
  parameters: [NAME],
  async run({ off = false, noWait, json }, name) {
    const { terminal } = this;
    const { hosts } = await connected(this);
    const host = await hosts.drain(name, !off);
    if (off) return json ? terminal.json(host) : terminal.out(`${name} gets workers again.`);
    const undo = `It gets workers again with: svc host drain ${name} --off`;
    if (!noWait && host.workers.length > 0) {
      this.interrupt.note = `${name} goes on draining. ${undo}`;
      await untilEmpty(this, hosts, host);
      this.interrupt.note = undefined;
    }
    const left = hostNamed(await hosts.list(), name);
    if (json) return terminal.json(left);
    const running = left.workers.length === 0 ? "No worker runs there any more." : `${workers(left)} still run there.`;
    terminal.out(`${name} drains: it gets no further workers. ${running}`);
    terminal.note(left.workers.length === 0 ? `To take it out: svc host remove ${name}. ${undo}` : undo);
  },
});

const removeHost = command({
  brief: "Take a machine out",
  text: "The machine is refused from then on. Jobs that run there are repeated on another machine: drain it first to let them finish.",
  examples: [
    ["svc host remove gpu-1", "Asks when workers run there"],
    ["svc host remove gpu-1 --yes", "Without a question, as for a machine that is gone"],
  ],
  flags: { yes: switchFlag("Do not ask"), json: jsonFlag },
  aliases: { y: "yes" },
  parameters: [NAME],
  async run({ yes, json }, name) {
    const { terminal } = this;
    const { hosts } = await connected(this);
    const host = hostNamed(await hosts.list(), name);
    if (host.workers.length > 0 && !yes) {
      const running = `${workers(host)} run on ${name}`;
      if (!terminal.interactive) {
        throw new SvcError("USAGE", `${running}, and nobody can be asked here.`, {
          help: `Let them finish with svc host drain ${name}, or add --yes.`,
        });
      }
      const question = `${running}: their jobs are repeated elsewhere. Remove it all the same?`;
      if (!(await terminal.confirm(question, false))) {
        return terminal.note(`Nothing was removed. To let them finish first: svc host drain ${name}`);
      }
    }
    await hosts.remove(name);
    if (json) return terminal.json({ id: host.id, name });
    terminal.out(`Removed ${name}. Its agent is refused from now on.`);
  },
});

const tokenCommands = group("What lets machines join", { create: createToken, list: listTokens, revoke: revokeToken });

export const hostCommands = group("Machines that joined the platform", {
  token: tokenCommands,
  list: listHosts,
  show: showHost,
  drain: drainHost,
  remove: removeHost,
});

async function connected(context: CliContext): Promise<{ hosts: Hosts; url: string }> {
  const { controlPlane, url } = await requirePlatform(context);
  return { hosts: new Hosts(controlPlane.platform), url };
}

function hostNamed(hosts: readonly HostRecord[], name: string): HostRecord {
  const found = hosts.find((host) => host.name === name);
  if (found !== undefined) return found;
  const names = hosts.map((host) => host.name).join(", ");
  throw new SvcError("NOT_FOUND", `No host "${name}" has joined.`, {
    help: names === "" ? NONE : `There are: ${names}.`,
  });
}

async function untilEmpty({ terminal }: CliContext, hosts: Hosts, { name, workers: first }: HostRecord): Promise<void> {
  const text = (left: number) => `${name} drains: ${left} worker${left === 1 ? "" : "s"} left`;
  const progress = await terminal.progress(text(first.length));
  try {
    await poll(DRAIN_WAIT_MAX_MS, async () => {
      const left = hostNamed(await hosts.list(), name).workers.length;
      progress.update(text(left));
      return left === 0 ? true : undefined;
    });
  } finally {
    progress.done();
  }
}

/** As this command reaches the platform, unless that is by loopback and the platform knows better. */
function reachedAt(own: string, platforms: string): string {
  return isLocal(own) && !isLocal(platforms) ? platforms : own;
}

function isLocal(url: string): boolean {
  return isLoopback(new URL(url).hostname.replace(/^\[|\]$/g, ""));
}

function joinCommand({ secret, fingerprint, token }: NewHostToken, url: string): string {
  const name = token.name === "" ? "" : ` --name ${token.name}`;
  return `svc worker join '${url}#${fingerprint}' --token ${secret}${name}`;
}

function stateOfToken({ state }: HostTokenRecord, { terminal }: CliContext): string {
  return state === "open" ? terminal.colors.green(state) : state;
}

function stateText({ state, since }: HostRecord, { terminal }: CliContext, now: number): string {
  const { green, yellow, red } = terminal.colors;
  if (state === "away") return red(`away ${formatAge(now - since)}`);
  return state === "joined" ? green(state) : yellow(state);
}

function workers({ workers: { length } }: HostRecord): string {
  return length === 1 ? "1 worker" : `${length} workers`;
}

function freeOf(amount: HostRecord["vcpu"]): string {
  return amount === null ? "-" : `${rounded(Math.max(0, amount.total - amount.promised))}/${rounded(amount.total)}`;
}

function ofTotal(amount: HostRecord["vcpu"], unit: string): string {
  return amount === null
    ? "not known: it was not heard of since the platform started"
    : `${freeOf(amount)}${unit} free`;
}

const rounded = (value: number) => Math.round(value * 10) / 10;

function freeGpus({ gpus }: HostRecord): string {
  return gpus.length === 0 ? "-" : `${gpus.filter(({ workerId }) => workerId === null).length}/${gpus.length}`;
}

function gpuNames({ gpus }: HostRecord): string {
  const counts = Map.groupBy(gpus, ({ name }) => name);
  return [...counts].map(([name, all]) => (all.length === 1 ? name : `${all.length} × ${name}`)).join(", ");
}
