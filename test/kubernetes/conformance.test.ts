// May take 12 minutes.
/** Workers of a Pod pass the suite of all drivers: it is made beside a real API server; its kubelet is played, its agent and workers are real. */
import assert from "node:assert/strict";
import { after, before, describe } from "node:test";
import { driverConformance, PLATFORM_SECRET } from "../conformance/driver.ts";
import { HostDriver, type JoinMachine } from "../host/host-driver.ts";
import { ApiServer } from "./api-server.ts";
import { findKubernetes } from "./find.ts";
import { PlayedKubelet } from "./played-kubelet.ts";
import { podMachines, preparePodMachines } from "./pod-machines.ts";

const POOL = { name: "small", cpu: 2, memory: 4 };
const ROOM = { SVC_CPU_OVERCOMMIT: "100", SVC_MEMORY_OVERCOMMIT: "100" };

const found = findKubernetes();
const skip = "missing" in found ? found.missing : false;

describe("Pods of a played kubelet", { skip }, () => {
  let server: ApiServer;
  let kubelet: PlayedKubelet;
  let join: JoinMachine;
  before(async () => {
    assert.ok("program" in found);
    server = await ApiServer.start(found.program);
    await preparePodMachines(server, "pods");
    kubelet = new PlayedKubelet(server, "pods", { env: { ...PLATFORM_SECRET, ...ROOM } });
    kubelet.start();
    join = podMachines({ server, namespace: "pods", pool: POOL, said: async () => kubelet.said });
  });
  after(async () => {
    await kubelet?.stop();
    await server?.stop();
  });

  driverConformance("a host in a Pod", {
    skip,
    tls: "127.0.0.1",
    make: (parts) => new HostDriver(parts, (...given) => join(...given)),
  });
});
