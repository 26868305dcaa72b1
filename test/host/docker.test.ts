// May take 12 minutes.
/** Containers of another machine, started through its agent, pass the suite of all drivers. */
import { driverConformance, PLATFORM_SECRET } from "../conformance/driver.ts";
import { dockerForTests } from "../docker.ts";
import { agentProcess, HostDriver } from "./host-driver.ts";

const docker = await dockerForTests();

driverConformance("a host that runs containers", {
  skip: docker.skip,
  tls: docker.skip === false ? await docker.bridge() : "127.0.0.1",
  make: (parts) =>
    new HostDriver(
      parts,
      agentProcess({ ...PLATFORM_SECRET, ...docker.env, SVC_CPU_OVERCOMMIT: "100", SVC_MEMORY_OVERCOMMIT: "100" }),
    ),
});
