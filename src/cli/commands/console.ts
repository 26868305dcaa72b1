import { command, jsonFlag } from "../command.ts";
import { requirePlatform } from "../connect.ts";
import { dateTime } from "../format.ts";

/** A browser lets its pages keep what is theirs to these, and to TLS. */
const OWN_MACHINE = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/** The link alone goes to stdout. */
export const consoleCommand = command({
  brief: "Open the console in a browser",
  text: "Opens the platform's page in a browser: what runs, why it scaled, where time goes. The link lets one browser in, once and within two minutes, with what your key may. The session ends after 12 hours, when you log out, or with the key (svc key revoke).",
  examples: [
    ["svc console", "Opens it; prints the link where there is no terminal"],
    ["svc console --no-browser", "Prints the link, for another browser"],
  ],
  flags: {
    browser: { kind: "boolean", optional: true, brief: "Open the link in a browser", withNegated: true },
    json: jsonFlag,
  },
  async run(flags) {
    const { controlPlane, url } = await requirePlatform(this);
    const { terminal } = this;
    const link = await controlPlane.createConsoleLink();
    // As this machine reaches the platform, which may be by a tunnel.
    const address = `${url}/console/login${new URL(link.url).hash}`;
    const { protocol, hostname } = new URL(url);
    if (flags.json) return terminal.json({ url: address, expiresAt: link.expiresAt });
    if (protocol === "http:" && !OWN_MACHINE.test(hostname)) {
      terminal.warn("The console needs https, or a tunnel to this machine: ssh -L 8000:localhost:8000 HOST.");
    }
    terminal.out(address);
    terminal.note(`It works once, until ${dateTime(link.expiresAt)}.`);
    if (!terminal.interactive || flags.browser === false) return;
    const { default: open } = await import("open");
    // Without a browser the printed address is enough.
    await open(address).then(
      (child) => child.once("error", () => {}),
      () => {},
    );
  },
});
