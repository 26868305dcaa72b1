import { command } from "../command.ts";

/** Asked for by name it is answered before any command runs: this one is only listed. */
export const helpCommand = command({
  brief: "Explain a command",
  text: "Explains a command, as COMMAND --help does.",
  examples: [
    ["svc help deploy", "What svc deploy does, with examples"],
    ["svc help platform start", "A command of a group"],
  ],
  words: { placeholder: "COMMAND", brief: "Command", optional: true },
  run() {},
});
