/** Bodies as objects of a bucket: blobs/<name>. */
import { BODY_DELETES_AT_ONCE } from "../../domain/limits.ts";
import type { Bucket } from "../../s3/bucket.ts";
import { type BodyStore, dayOf, deleteAll } from "./body-store.ts";

const FOLDER = "blobs/";

export class S3BodyStore implements BodyStore {
  readonly #bucket: Bucket;

  constructor(bucket: Bucket) {
    this.#bucket = bucket;
  }

  put(name: string, bytes: Uint8Array): Promise<void> {
    return this.#bucket.put(FOLDER + name, bytes);
  }

  get(name: string): Promise<Uint8Array | undefined> {
    return this.#bucket.read(FOLDER + name);
  }

  delete(names: readonly string[]): Promise<void> {
    return deleteAll(names, BODY_DELETES_AT_ONCE, (name) => this.#bucket.delete(FOLDER + name));
  }

  async *list(before: number): AsyncGenerator<string> {
    const end = dayOf(before);
    // Objects come in the order of their names, which begin with the day.
    for await (const { key } of this.#bucket.list(FOLDER)) {
      const name = key.slice(FOLDER.length);
      if (name >= end) return;
      yield name;
    }
  }
}
