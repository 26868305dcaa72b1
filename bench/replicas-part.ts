import type { Platforms } from "../test/campaign/platforms.ts";

/** What each part of the bench gets. */
export interface Replicas {
  readonly platforms: Platforms;
  readonly paths: Readonly<Record<string, string>>;
  readonly rounds: number;
  /** Who has this function's endpoint. */
  ownerOf(name: string): Promise<number>;
}
