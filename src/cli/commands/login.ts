import { buildCommand } from "@stricli/core";
import { jsonFlag, switchFlag, withExamples } from "../flags.ts";

export const loginSpec = buildCommand({
  loader: async () => (await import("../actions/login.ts")).login,
  parameters: {
    flags: {
      apiKey: {
        kind: "parsed",
        parse: String,
        optional: true,
        placeholder: "KEY",
        brief: 'API key; "-" reads it from the standard input; default: asks for an approval in the browser',
      },
      browser: { kind: "boolean", optional: true, brief: "Open the approval page in a browser", withNegated: true },
      url: {
        kind: "parsed",
        parse: String,
        optional: true,
        placeholder: "URL",
        brief: "Platform; default: PLATFORM_URL, or the one that runs on this machine",
      },
    },
  },
  docs: {
    brief: "Store an API key for a platform",
    fullDescription: withExamples(
      "Gets a key for this machine, approved in a browser, and stores it in a file only you can read.",
      [
        ["svc login --url https://svc.example.com", "Opens the approval page"],
        ["svc login --no-browser", "Prints its address, for a machine without a browser"],
        ["svc login --api-key - < key.txt", "Reads it from a file, for scripts"],
      ],
    ),
  },
});

export const logoutSpec = buildCommand({
  loader: async () => (await import("../actions/login.ts")).logout,
  parameters: {},
  docs: {
    brief: "Forget the stored login",
    fullDescription: withExamples("Removes what svc login stored. The key itself stays valid.", [
      ["svc logout", "Forget the login"],
    ]),
  },
});

export const whoamiSpec = buildCommand({
  loader: async () => (await import("../actions/whoami.ts")).whoami,
  parameters: {
    flags: { showKey: switchFlag("Print the key and nothing else"), json: jsonFlag },
  },
  docs: {
    brief: "Show which platform and key are used",
    fullDescription: withExamples("Shows the platform and the key that commands use, and where each comes from.", [
      ["svc whoami", "Platform, key and whether it is valid"],
      ["export PLATFORM_API_KEY=$(svc whoami --show-key)", "Set the key for calls with curl"],
    ]),
  },
});
