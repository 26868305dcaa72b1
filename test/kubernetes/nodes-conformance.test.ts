// May take 20 minutes.
/** Workers of a Pod on a real node pass the suite of all drivers: in the platform's image, as its ordinary user, with what a kubelet gives a Pod and no more. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe } from "node:test";
import { driverConformance } from "../conformance/driver.ts";
import { HostDriver, type JoinMachine } from "../host/host-driver.ts";
import { Cluster, findNodePrograms, MACHINE } from "./cluster.ts";
import { findKubernetes } from "./find.ts";
import { pauseImage, platformImage } from "./image.ts";
import { podMachines, preparePodMachines } from "./pod-machines.ts";

/** What is on a node of a machine with few processors; memory for all workers of the suite. */
const POOL = { name: "small", cpu: 1, memory: 12 };
const RELEASE = { image: "localhost/svc:0.1.0", imagePullPolicy: "Never", disk: 2 };

const isWanted = process.env.SVC_TEST_NODES === "conformance";
const kubernetes = findKubernetes();
const nodes = await (isWanted ? findNodePrograms() : { missing: "make test-cluster runs it" });
const skip = "missing" in nodes ? nodes.missing : "missing" in kubernetes ? kubernetes.missing : false;

describe("Pods of a real node", { skip, timeout: 1_100_000 }, () => {
  const folder = mkdtempSync(path.join(tmpdir(), "svc-conformance-"));
  let cluster: Cluster;
  let join: JoinMachine;
  before(
    async () => {
      assert.ok("program" in kubernetes && "cni" in nodes);
      const images = [await pauseImage(folder), await platformImage(folder, RELEASE.image)];
      cluster = await Cluster.start(kubernetes.program, nodes, images, 1);
      const { server } = cluster;
      await preparePodMachines(server, "pods");
      const said = async (name: string) => (await server.ask("GET", `/api/v1/namespaces/pods/pods/${name}/log`)).body;
      join = podMachines({ server, namespace: "pods", release: RELEASE, pool: POOL, said });
    },
    { timeout: 600_000 },
  );
  after(async () => {
    await cluster?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  driverConformance("a host in a Pod", {
    skip,
    tls: MACHINE,
    make: (parts) => new HostDriver(parts, (...given) => join(...given)),
  });
});
