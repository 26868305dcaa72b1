// May take 12 minutes.
/** Workers of another machine, started through its agent, pass the suite of all drivers. */
import { driverConformance, PLATFORM_SECRET } from "../conformance/driver.ts";
import { agentProcess, HostDriver } from "./host-driver.ts";

const ROOM = { SVC_CPU_OVERCOMMIT: "100", SVC_MEMORY_OVERCOMMIT: "100" };

driverConformance("a host that joined", {
  skip: false,
  tls: "127.0.0.1",
  make: (parts) => new HostDriver(parts, agentProcess({ ...PLATFORM_SECRET, ...ROOM })),
});
