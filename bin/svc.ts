#!/usr/bin/env node
// What is imported here must load in any version of Node: it is too late for a sentence once a file has not.
const NODE_MAJOR_MIN = 24;

if (Number(process.versions.node.split(".")[0]) < NODE_MAJOR_MIN) {
  process.stderr.write(
    `error: svc needs Node.js ${NODE_MAJOR_MIN} or newer; this is ${process.versions.node} (${process.execPath})\n` +
      `  Install a newer one (https://nodejs.org), or put it first on the PATH.\n`,
  );
  process.exitCode = 1;
} else {
  const { main } = await import("../src/cli/main.ts");
  process.exitCode = await main(process.argv.slice(2));
}
