import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SqliteDatabase } from "../../src/lib/sqlite.ts";
import { openPlatformDatabase } from "../../src/store/platform-database.ts";
import { openSqliteStore } from "../../src/store/sqlite-store.ts";
import type { StoreUnderTest } from "../conformance/store.ts";

export async function openTestStore(): Promise<StoreUnderTest & { database: SqliteDatabase; readonly dir: string }> {
  const dir = mkdtempSync(join(tmpdir(), "svc-store-"));
  const open = async () => {
    const database = openPlatformDatabase(dir, "normal");
    return { database, store: await openSqliteStore(database) };
  };
  const under = {
    ...(await open()),
    dir,
    async reopen() {
      await under.store.close();
      under.database.close();
      Object.assign(under, await open());
    },
    async close() {
      await under.store.close();
      under.database.close();
      rmSync(dir, { recursive: true });
    },
  };
  return under;
}
