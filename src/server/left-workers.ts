import { LauncherProcess } from "../drivers/launcher-process.ts";

/** Whether workers live on after their platform was killed, for its next start. */
export function hasLeftWorkers(dataDir: string): boolean {
  return LauncherProcess.earlier(dataDir) !== undefined;
}

/**
 * Ends the workers that live on after their platform was killed, and lets go of its port: nobody else could, but for the next start.
 * False when there are none.
 */
export async function endLeftWorkers(dataDir: string): Promise<boolean> {
  const launcher = LauncherProcess.earlier(dataDir);
  await launcher?.terminated();
  return launcher !== undefined;
}
