#!/usr/bin/env node
// What is imported here must load in any version of Node: it is too late for a sentence once a file has not.
/** Earlier ones bind the numbered parameters of SQL wrongly. */
const NODE_MIN = [24, 10];

const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major < NODE_MIN[0]! || (major === NODE_MIN[0] && minor < NODE_MIN[1]!)) {
  process.stderr.write(
    `error: svc needs Node.js ${NODE_MIN.join(".")} or newer; this is ${process.versions.node} (${process.execPath})\n` +
      `  Install a newer one (https://nodejs.org), or put it first on the PATH.\n`,
  );
  process.exitCode = 1;
} else {
  const { main } = await import("../src/cli/main.ts");
  process.exitCode = await main(process.argv.slice(2));
}
