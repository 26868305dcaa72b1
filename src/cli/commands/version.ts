import { VERSION } from "../../domain/version.ts";
import { command } from "../command.ts";

export const versionCommand = command({
  brief: "Print the version of svc",
  text: "Prints the version of the command line, the platform and the Python package.",
  examples: [["svc version", "The same as svc --version"]],
  run() {
    this.terminal.out(VERSION);
  },
});
