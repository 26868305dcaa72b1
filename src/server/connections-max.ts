import { RESERVED_FILES_MAX, RESERVED_FILES_PART } from "../domain/limits.ts";

/** How many connections of callers there may be: some descriptors are kept for files and workers. */
export function connectionsMax(files: number | undefined): number | undefined {
  return files && files - Math.min(RESERVED_FILES_MAX, Math.ceil(files * RESERVED_FILES_PART));
}
