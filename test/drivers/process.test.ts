/** The process driver passes the suite of all drivers. */
import path from "node:path";
import { WORKER_UIDS_DEFAULT } from "../../src/domain/limits.ts";
import { ProcessDriver } from "../../src/drivers/process.ts";
import { openVolumesDisk } from "../../src/server/volumes.ts";
import { driverConformance, PLATFORM_SECRET } from "../conformance/driver.ts";

driverConformance("process", {
  skip: false,
  make: (parts) =>
    new ProcessDriver({
      ...parts,
      volumesDisk: openVolumesDisk(path.join(parts.dataDir, "volumes"), () => {}),
      platformUrl: () => "http://127.0.0.1:1",
      pythonPath: path.resolve(import.meta.dirname, "../../python/src"),
      python: undefined,
      installerEnv: { ...process.env, ...PLATFORM_SECRET },
      isolation: "standard",
      hidden: [parts.dataDir],
      writable: [],
      workerUids: WORKER_UIDS_DEFAULT,
      logFd: 2,
      zygoteMemoryMb: undefined,
    }),
});
