import { isValidName } from "./names.ts";

/** A volume belongs to an environment: every endpoint there that names it has the same files. */
export interface Volume {
  readonly app: string;
  readonly environment: string;
  readonly name: string;
}

/** Why no volume can have this name; undefined when one can. */
export function volumeNameProblem(name: string): string | undefined {
  if (isValidName(name)) return undefined;
  return `${JSON.stringify(name)} cannot name a volume: a name has 1 to 63 of a-z, 0-9, - and _, and starts with a letter or a digit.`;
}

/** Where a worker finds its volume; the second is what images of others expect. */
export function volumePaths(name: string): readonly string[] {
  return [`/volumes/${name}`, "/runpod-volume"];
}
