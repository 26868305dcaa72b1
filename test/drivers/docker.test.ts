/** The Docker driver passes the suite of all drivers, on a real engine. */
import path from "node:path";
import { DockerDriver } from "../../src/drivers/docker.ts";
import { openVolumesDisk } from "../../src/server/volumes.ts";
import { driverConformance, PLATFORM_SECRET } from "../conformance/driver.ts";
import { dockerForTests } from "../docker.ts";

const docker = await dockerForTests();

driverConformance("docker", {
  skip: docker.skip,
  make: (parts) =>
    new DockerDriver({
      ...parts,
      volumesDisk: openVolumesDisk(path.join(parts.dataDir, "volumes"), () => {}),
      serveCalls: async (host) => `http://${host}:1`,
      pythonPath: path.resolve(import.meta.dirname, "../../python/src"),
      env: { ...process.env, ...PLATFORM_SECRET },
      images: { cpu: docker.image, gpu: docker.image },
      network: "",
      hosts: {},
      labels: {},
      isolation: "standard",
    }),
});
