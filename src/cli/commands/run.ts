import { buildCommand } from "@stricli/core";
import { LOCAL_PORT_DEFAULT } from "../../domain/limits.ts";
import { switchFlag, wholeNumber, withExamples } from "../flags.ts";

export const runSpec = buildCommand({
  loader: async () => (await import("../actions/run.ts")).run,
  parameters: {
    flags: {
      host: {
        kind: "parsed",
        parse: String,
        optional: true,
        placeholder: "ADDRESS",
        brief: "Address to listen on; default: localhost. Another than this machine's own asks callers for a token",
      },
      port: {
        kind: "parsed",
        parse: wholeNumber(0, 65535),
        optional: true,
        placeholder: "N",
        brief: `Port; a busy one is passed over for the next free one; default: ${LOCAL_PORT_DEFAULT}`,
      },
      reload: {
        kind: "boolean",
        optional: true,
        brief: "Run every call on the newest code; default: on",
      },
      autoProvision: switchFlag("Deploy all live endpoints at the start instead of with their first calls"),
    },
    aliases: { p: "port" },
  },
  docs: {
    brief: "Call this directory's functions on a local address while you write them",
    fullDescription: withExamples(
      "Every function answers below http://localhost:8888, and each call runs the newest code on a worker of the platform.",
      [
        ["svc run", "Serve on port 8888, with an explorer at /docs"],
        ["svc run --port 9000 --auto-provision", "Another port, all endpoints live at once"],
        ["svc run --no-reload", "Keep to the code as it is now"],
      ],
    ),
  },
});
