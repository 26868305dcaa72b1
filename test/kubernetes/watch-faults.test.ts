/** The watch of Pods against a real API server, over a way that the test cuts: what it forgets, what is missed, what comes back. */
// May take 10 minutes.
import assert from "node:assert/strict";
import { after, before, describe, type TestContext, test } from "node:test";
import { KubernetesApi } from "../../src/kubernetes/api.ts";
import { PodWatch } from "../../src/kubernetes/pod-watch.ts";
import { tempDir } from "../e2e/platform.ts";
import { eventually } from "../eventually.ts";
import { ApiServer } from "./api-server.ts";
import { findKubernetes } from "./find.ts";
import { release } from "./release.ts";
import { Way } from "./way.ts";

const found = findKubernetes();
const skip = "missing" in found ? found.missing : false;
let namespaces = 0;

describe("Pods of a real API server", { skip }, () => {
  let server: ApiServer;
  before(async () => {
    if ("program" in found) server = await ApiServer.start(found.program);
  });
  after(() => server?.stop());

  /** `seconds`: how long each watch may last. */
  async function open(t: TestContext, seconds?: number) {
    const namespace = `w${++namespaces}`;
    const account = await release(server, namespace, tempDir(t));
    const way = await Way.open(() => ({ host: server.host, port: server.port }));
    const api = new KubernetesApi({ host: "127.0.0.1", port: way.port, account });
    const versions: string[] = [];
    const troubles: (string | undefined)[] = [];
    const watch = new PodWatch({
      api: {
        namespace,
        ask: (...args) => api.ask(...args),
        open: (where, signal) => {
          versions.push(new URL(where, "http://any").searchParams.get("resourceVersion")!);
          const asked =
            seconds === undefined ? where : where.replace(/timeoutSeconds=\d+/, `timeoutSeconds=${seconds}`);
          return api.open(asked, signal);
        },
      },
      selector: "svc/release=svc",
      changed: () => {},
      troubled: (trouble) => void troubles.push(trouble),
    });
    t.after(async () => {
      await watch.close();
      api.close();
      await way.close();
    });
    const pods = `/api/v1/namespaces/${namespace}/pods`;
    const make = async (name: string, labels: object = { "svc/release": "svc" }): Promise<string> => {
      const spec = { containers: [{ name: "c", image: "i" }] };
      return (await server.done("POST", pods, { metadata: { name, labels }, spec })).metadata.resourceVersion;
    };
    const remove = (name: string) => server.done("DELETE", `${pods}/${name}`, { gracePeriodSeconds: 0 });
    const has = (...names: string[]) =>
      eventually(() => assert.deepEqual(watch.pods.map(({ metadata }) => metadata.name).sort(), names));
    watch.start();
    await has();
    return { watch, way, versions, troubles, make, remove, has };
  }

  test("Pods that come and go are known, and others' are not", async (t) => {
    const { make, remove, has, watch } = await open(t);
    await make("a");
    await make("other", { "svc/release": "another" });
    await make("b");
    await has("a", "b");
    await remove("a");
    await has("b");
    assert.equal(watch.lists, 1);
  });

  test("What happened while the connection was cut is read from where the watch was, without a new list", async (t) => {
    const { make, remove, has, way, watch, troubles } = await open(t);
    await make("a");
    await has("a");
    way.cut();
    await make("b");
    await remove("a");
    await eventually(() => assert.ok(troubles.some((trouble) => trouble !== undefined)));
    await has("a");
    way.mend();
    await has("b");
    assert.deepEqual([watch.lists, troubles.at(-1)], [1, undefined]);
  });

  test("A watch that ends goes on from a bookmark, past what happened to Pods of others", async (t) => {
    const { make, versions } = await open(t, 6);
    const first = await make("other-0", { "svc/release": "another" });
    let count = 0;
    await eventually(async () => {
      // Only of what comes after its beginning a watch gets a bookmark, before its end.
      await make(`other-${++count}`, { "svc/release": "another" });
      assert.ok(Number(versions.at(-1)) >= Number(first), `${versions} < ${first}`);
    });
  });

  test("After a crash of the API server that has forgotten the version all is listed anew, and what is gone meanwhile is gone", async (t) => {
    const { make, remove, has, way, watch, troubles } = await open(t);
    await make("a");
    await has("a");
    way.cut();
    await remove("a");
    await make("b");
    await server.down();
    await server.up();
    // What it remembers begins with this start: a watch from before it is refused (410).
    await make("c");
    await has("a");
    way.mend();
    await has("b", "c");
    assert.equal(watch.lists, 2);
    await make("d");
    await has("b", "c", "d");
    assert.equal(troubles.at(-1), undefined);
  });

  test("An API server that takes requests and answers none is told of, and followed when it answers again", async (t) => {
    const { make, has, way, troubles } = await open(t);
    await make("a");
    await has("a");
    server.signal("SIGSTOP");
    try {
      // The watch that is there says nothing; a new one gets no answer.
      way.cut();
      way.mend();
      await eventually(() => assert.ok(troubles.at(-1) !== undefined));
      await has("a");
    } finally {
      server.signal("SIGCONT");
    }
    await make("b");
    await has("a", "b");
    assert.equal(troubles.at(-1), undefined);
  });

  test("The rights of the installation are those and no others", async (t) => {
    const namespace = `w${++namespaces}`;
    const account = await release(server, namespace, tempDir(t));
    const api = new KubernetesApi({ host: server.host, port: server.port, account });
    t.after(() => api.close());
    const own = `/api/v1/namespaces/${namespace}`;
    await api.ask("GET", `${own}/pods`);
    await api.ask("GET", `${own}/configmaps/svc-hosts`);
    await api.ask("GET", "/openid/v1/jwks");
    const refused: [Parameters<KubernetesApi["ask"]>[0], string][] = [
      ["GET", `${own}/secrets`],
      ["POST", `${own}/secrets`],
      ["GET", `${own}/configmaps`],
      ["GET", `${own}/configmaps/other`],
      ["POST", `${own}/configmaps`],
      ["GET", `${own}/pods/a/log`],
      ["POST", `${own}/pods/a/exec`],
      ["DELETE", `${own}/pods`],
      ["POST", `${own}/serviceaccounts/svc/token`],
      ["GET", "/api/v1/namespaces/default/pods"],
      ["GET", "/api/v1/pods"],
      ["GET", "/api/v1/nodes"],
      ["GET", "/api/v1/namespaces"],
      ["GET", `/apis/apps/v1/namespaces/${namespace}/deployments`],
      ["GET", `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}/roles`],
    ];
    for (const [method, where] of refused) {
      await assert.rejects(api.ask(method, where, { ...(method === "POST" && { body: {} }) }), { status: 403 }, where);
    }
  });
});
