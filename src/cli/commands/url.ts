import { SIGNED_METHODS } from "../../domain/signed-url.ts";
import {
  appFlag,
  command,
  duration,
  endpointParameter,
  envFlag,
  jsonFlag,
  oneOf,
  switchFlag,
  valueFlag,
} from "../command.ts";
import { requirePlatform } from "../connect.ts";
import { dateTime } from "../format.ts";
import { detectedApp } from "../project-settings.ts";
import { endpointNamed, inScope } from "../select-endpoints.ts";

const EXPIRES_DEFAULT_S = 3600;

/** The URL alone goes to stdout: `curl "$(svc url api /report)"`. */
export const urlCommand = command({
  brief: "Make a URL that calls a route without a key, for a time",
  text: "Signs a URL of a load-balanced endpoint: who has it can make this one call, with no key, until it expires. It is for browsers, WebSockets and downloads. It ends earlier with the key that signed it (svc key revoke).",
  examples: [
    ["svc url api /report.pdf", "For an hour"],
    ["svc url api '/export?year=2026' --expires 7d", "With a query; a week at most"],
    ["svc url api /files/ --prefix", "Every path below it"],
    ["svc url api /chat --method WEBSOCKET", "For a WebSocket of a page"],
  ],
  flags: {
    expires: valueFlag("TIME", "How long it is valid: 10m, 1h, 7d at most; default: 1h", duration),
    method: valueFlag("METHOD", "Method of the call; default: GET, which HEAD may use too", (text) =>
      oneOf(SIGNED_METHODS)(text.toUpperCase()),
    ),
    prefix: switchFlag("Every path that begins with PATH, with any query"),
    app: appFlag,
    env: envFlag,
    json: jsonFlag,
  },
  aliases: { a: "app", e: "env" },
  parameters: [
    endpointParameter("A load-balanced endpoint"),
    { placeholder: "PATH", brief: 'Path below its URL, perhaps with a query; default: "/"', optional: true },
  ],
  async run(flags, name: string, path = "/") {
    const { controlPlane } = await requirePlatform(this);
    const endpoint = endpointNamed(inScope(await controlPlane.endpoints(), flags), name, detectedApp(this.cwd));
    const { expires: expiresInSeconds = EXPIRES_DEFAULT_S, method, prefix } = flags;
    const signed = await controlPlane.signUrl({ endpoint: endpoint.id, path, method, prefix, expiresInSeconds });
    if (flags.json) return this.terminal.json({ endpoint: name, ...signed });
    this.terminal.out(signed.url);
    this.terminal.note(`Valid until ${dateTime(signed.expiresAt)}, for everybody who has it.`);
  },
});
