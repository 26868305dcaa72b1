import { History } from "../../client/history.ts";
import { ALERT_KINDS, type AlertKind } from "../../domain/alert.ts";
import { SvcError } from "../../domain/errors.ts";
import { appFlag, command, envFlag, group, jsonFlag, oneOf, valueFlag } from "../command.ts";
import { requirePlatform } from "../connect.ts";
import { dateTime } from "../format.ts";
import { appOf, checkName, detectedApp } from "../project-settings.ts";
import { endpointNamed, inScope } from "../select-endpoints.ts";

const KINDS = Object.keys(ALERT_KINDS) as AlertKind[];

const createAlert = command({
  brief: "Tell a webhook when something is wrong",
  text: `Tells a webhook once when it begins and once when it is over. KIND is endpoint.blocked (an endpoint cannot run), errors.rate (percent that failed of the last five minutes), wait.oldest (seconds that the oldest job or request waits) or disk.full (percent).`,
  examples: [
    ["svc alert create endpoint.blocked https://hooks.example.com/ops", "When any endpoint cannot run"],
    [
      "svc alert create errors.rate https://hooks.example.com/ops --threshold 10 --env production",
      "In one environment",
    ],
  ],
  flags: {
    threshold: valueFlag(
      "N",
      "From which value on; default: 5 (errors.rate), 60 (wait.oldest), 90 (disk.full)",
      threshold,
    ),
    endpoint: valueFlag("NAME", "Only this endpoint"),
    app: { ...appFlag, brief: "App of --env; default: the name of this directory" },
    env: { ...envFlag, brief: "Only this environment" },
    json: jsonFlag,
  },
  aliases: { a: "app", e: "env" },
  parameters: [
    { placeholder: "KIND", brief: KINDS.join(", ") },
    { placeholder: "URL", brief: "Where to send it" },
  ],
  async run({ threshold, endpoint, app, env, json }, kindText, url) {
    const { controlPlane } = await requirePlatform(this);
    const kind = oneKind(kindText);
    let place = {};
    if (endpoint !== undefined) {
      const scope = inScope(await controlPlane.endpoints(), { app, env });
      place = { endpointId: endpointNamed(scope, endpoint, detectedApp(this.cwd)).id };
    } else if (env !== undefined) {
      checkName(env, "--env");
      place = { app: appOf(this.cwd, app), environment: env };
    }
    const alert = await new History(controlPlane.platform).createAlert({ kind, url, threshold, ...place });
    if (json) return this.terminal.json(alert);
    this.terminal.out(alert.id);
    this.terminal.note(`Try it: svc alert test ${alert.id}`);
  },
});

const listAlerts = command({
  brief: "List alerts",
  text: "Lists alerts with whether they fire, and what became of the last message.",
  examples: [["svc alert list", "Every alert"]],
  flags: { json: jsonFlag },
  async run({ json }) {
    const { controlPlane } = await requirePlatform(this);
    const alerts = await new History(controlPlane.platform).alerts();
    if (json) return this.terminal.json(alerts);
    if (alerts.length === 0) return this.terminal.note("There are no alerts. Next: svc alert create KIND URL");
    const { red, green } = this.terminal.colors;
    await this.terminal.table(
      ["ID", "KIND", "FROM", "OF", "STATE", "SINCE", "LAST MESSAGE", "TO"],
      alerts.map((alert) => [
        alert.id,
        alert.kind,
        ALERT_KINDS[alert.kind].takesThreshold ? `${alert.threshold} ${ALERT_KINDS[alert.kind].unit}` : "-",
        alert.endpoint ?? (alert.environment === null ? "everything" : `${alert.app}/${alert.environment}`),
        alert.firing ? red("FIRING") : green("quiet"),
        alert.lastAt === null ? "-" : dateTime(alert.lastAt),
        alert.lastDelivery === "" ? "-" : alert.lastDelivery,
        alert.url,
      ]),
      ["ID", "KIND", "STATE"],
    );
  },
});

const testAlert = command({
  ...aboutOne("test", "Send a test message now"),
  async run(_flags, id) {
    const { controlPlane } = await requirePlatform(this);
    const outcome = await new History(controlPlane.platform).testAlert(id);
    if (outcome === "delivered") return this.terminal.out("The test message was delivered.");
    throw new SvcError("CONFLICT", `The test message was not delivered: ${outcome}.`, {
      help: "Look at the receiver, and whether this platform reaches it.",
    });
  },
});

const removeAlert = command({
  ...aboutOne("remove", "Remove an alert"),
  async run(_flags, id) {
    const { controlPlane } = await requirePlatform(this);
    await new History(controlPlane.platform).removeAlert(id);
    this.terminal.out(`The alert ${id} is removed.`);
  },
});

export const alertCommands = group("Tell a webhook when something is wrong", {
  create: createAlert,
  list: listAlerts,
  test: testAlert,
  remove: removeAlert,
});

function aboutOne(name: string, brief: string) {
  return {
    brief,
    text: `${brief}.`,
    examples: [[`svc alert ${name} ID`, "svc alert list shows the ids"]],
    flags: {},
    parameters: [{ placeholder: "ID", brief: "Its id" }],
  } as const;
}

function oneKind(text: string): AlertKind {
  try {
    return oneOf(KINDS)(text);
  } catch (error) {
    throw new SvcError("USAGE", `"${text}" is no kind of alert: ${(error as Error).message}.`);
  }
}

function threshold(text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !(value > 0)) throw new Error("a number above 0 is needed");
  return value;
}
