import { rm } from "node:fs/promises";

/**
 * A folder from which processes that are about to end may still remove something, or write to it. Not by `rmSync`: where an
 * entry is gone before its turn, that returns as if all were, and leaves the rest (Node 24).
 */
export function removeFolder(folder: string): Promise<void> {
  return rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
}
