import { buildCommand, buildRouteMap } from "@stricli/core";
import { jsonFlag, switchFlag, wholeNumber, withExamples } from "../flags.ts";
import { imagesRoutes } from "./platform-images.ts";

const dataDir = {
  kind: "parsed",
  parse: String,
  optional: true,
  placeholder: "DIR",
  brief: "Directory of its data; default: SVC_DATA_DIR or the user's data directory",
} as const;

const startSpec = buildCommand({
  loader: async () => (await import("../actions/platform-start.ts")).start,
  parameters: {
    flags: {
      port: {
        kind: "parsed",
        parse: wholeNumber(0, 65535),
        optional: true,
        placeholder: "N",
        brief: "Port; 0 takes any free one; default: 7878",
      },
      host: {
        kind: "parsed",
        parse: String,
        optional: true,
        placeholder: "ADDRESS",
        brief: "Address to listen on; default: 127.0.0.1",
      },
      dataDir,
      emulateGpu: switchFlag("Run GPU endpoints on the CPU of a machine without a GPU"),
      durability: {
        kind: "enum",
        values: ["normal", "full"],
        optional: true,
        brief: "normal: accepted jobs survive a crash of the platform; full: also a power loss",
      },
      driver: {
        kind: "enum",
        values: ["process", "docker"],
        optional: true,
        brief: "What workers run in: processes of this machine, or containers of its Docker engine; default: process",
      },
      foreground: switchFlag("Stay in this terminal until Ctrl+C"),
      withParent: { ...switchFlag("In the foreground: end when the process that started it does"), hidden: true },
      json: jsonFlag,
    },
  },
  docs: {
    brief: "Start the platform on this machine",
    fullDescription: withExamples(
      "Starts the platform in the background. The first start makes an API key, stored for you.",
      [
        ["svc platform start", "Start it on port 7878"],
        ["svc platform start --port 0 --emulate-gpu", "Any free port; GPU endpoints run on the CPU"],
        ["svc platform start --driver docker", "Workers run in containers"],
        ["svc platform start --foreground", "For a service manager or a container"],
      ],
    ),
  },
});

const stopSpec = buildCommand({
  loader: async () => (await import("../actions/platform-stop.ts")).stop,
  parameters: {
    flags: { now: switchFlag("Do not wait for running work; queued jobs are kept either way"), dataDir },
  },
  docs: {
    brief: "Stop the platform of this machine",
    fullDescription: withExamples(
      "Lets running work finish, then stops (SIGTERM). With --now it stops at once (SIGQUIT).",
      [
        ["svc platform stop", "Finish running work, then stop"],
        ["svc platform stop --now", "Stop at once"],
      ],
    ),
  },
});

const statusSpec = buildCommand({
  loader: async () => (await import("../actions/platform-status.ts")).platformStatus,
  parameters: { flags: { json: jsonFlag, dataDir } },
  docs: {
    brief: "Say whether the platform runs, and where",
    fullDescription: withExamples("Exit code 0 when it runs, 1 when it does not.", [
      ["svc platform status", "State, address, process and data directory"],
      ["svc platform status --json", "The same for programs"],
    ]),
  },
});

const logsSpec = buildCommand({
  loader: async () => (await import("../actions/platform-logs.ts")).logs,
  parameters: {
    flags: {
      follow: switchFlag("Go on printing what comes"),
      lines: {
        kind: "parsed",
        parse: wholeNumber(0, 1_000_000),
        default: "200",
        placeholder: "N",
        brief: "Lines from the end",
      },
      dataDir,
    },
    aliases: { f: "follow", n: "lines" },
  },
  docs: {
    brief: "Print the platform's log",
    fullDescription: withExamples("Prints the end of the platform's log.", [
      ["svc platform logs", "The last 200 lines"],
      ["svc platform logs -f -n 0", "What comes from now on"],
    ]),
  },
});

export const platformRoutes = buildRouteMap({
  routes: { start: startSpec, stop: stopSpec, status: statusSpec, logs: logsSpec, images: imagesRoutes },
  docs: { brief: "The platform of this machine" },
});
