import path from "node:path";
import { watch } from "chokidar";
import { SAVE_SETTLES_MS } from "../domain/limits.ts";

export interface Watched {
  close(): Promise<void>;
}

/** Calls `changed` a moment after files of the project did, however many they were. */
export function watchProject(
  projectDir: string,
  isLeftOut: (relative: string) => boolean,
  changed: () => void,
): Watched {
  const watcher = watch(projectDir, {
    ignoreInitial: true,
    // The server keeps the process alive, not what is left of a folder that went away.
    persistent: false,
    // What they lead to is watched where it stands. Two links to a folder that they stand in would be followed 2⁴⁰ times.
    followSymlinks: false,
    ignored: (file) => {
      const relative = path.relative(projectDir, file).split(path.sep).join("/");
      // What the rules say may change with these files, and they ship with nobody.
      if (/(^|\/)\.(git|svc)ignore$/.test(relative)) return false;
      return relative !== "" && isLeftOut(relative);
    },
  });
  let timer: NodeJS.Timeout | undefined;
  watcher.on("all", () => {
    clearTimeout(timer);
    timer = setTimeout(changed, SAVE_SETTLES_MS);
  });
  // Without a watcher (too many files for the system) calls still find what changed.
  watcher.on("error", () => {});
  return {
    close: async () => {
      clearTimeout(timer);
      await watcher.close();
    },
  };
}
