import { statSync } from "node:fs";
import path from "node:path";

/** The first executable file of that name on a search path; a command with a slash is taken as it is. */
export function onPath(command: string, searchPath: string): string | undefined {
  const places = command.includes("/")
    ? [path.resolve(command)]
    : searchPath.split(path.delimiter).map((dir) => path.join(dir, command));
  return places.find((place) => {
    try {
      const stat = statSync(place);
      return stat.isFile() && (stat.mode & 0o111) !== 0;
    } catch {
      return false;
    }
  });
}
