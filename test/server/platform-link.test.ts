/** A link to another platform that ends while a connection for a call is being made. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { askedOf } from "../../src/gateway-link/asked-of.ts";
import { GatewayDoor } from "../../src/gateway-link/gateway-door.ts";
import { LINK_VERSIONS } from "../../src/gateway-link/protocol.ts";
import { ReplicaDoor } from "../../src/gateway-link/replica-door.ts";
import { sharedSettings } from "../../src/gateway-link/settings.ts";
import { selfSignedCertificate } from "../../src/lib/self-signed-certificate.ts";
import { dialPlatform } from "../../src/server/platform-link.ts";
import { startPlatform } from "../gateway/support.ts";

const CERTIFICATE = selfSignedCertificate("svc replica link");
const HOST = "127.0.0.1";

async function linkedTo(t: TestContext) {
  const { gateway } = await startPlatform(t);
  const keys = { find: async () => undefined, findSigner: async () => undefined, touch: async () => {} };
  const links = new GatewayDoor({
    ...askedOf(gateway.context, keys, (what, work) => void work.catch((error) => t.diagnostic(`${what}: ${error}`))),
    ...{ secret: undefined, settings: sharedSettings(gateway.context), gone() {} },
  });
  const heard: string[] = [];
  const door = new ReplicaDoor(CERTIFICATE, (socket, protocol) => {
    if (protocol === "link") return links.accept(socket);
    socket.on("data", (bytes) => heard.push(bytes.toString()));
    socket.once("end", () => socket.destroy());
  });
  const address = `${HOST}:${await door.listen({ host: HOST, port: 0 })}`;
  t.after(() => Promise.all([door.close(), links.close()]));
  const row = { id: "other", place: "there", url: "", address, version: "" };
  const { min, max } = LINK_VERSIONS;
  const needs = { spans: undefined, log: gateway.context.log };
  const told = { gone() {}, leaves() {} };
  const linked = await dialPlatform({ ...row, firstLink: min, lastLink: max }, CERTIFICATE, needs, told);
  return { linked, links, heard };
}

test("Whoever leaves knows when the others have heard of it: they have ended their links", async (t) => {
  const { linked, links } = await linkedTo(t);
  let isLeft = false;
  const left = links.left().then(() => {
    isLeft = true;
  });
  await new Promise(setImmediate);
  assert.deepEqual([links.count, isLeft], [1, false]);
  links.endAll(0);
  await left;
  await linked.closed;
});

test("What is passed on when the link has just ended is not sent there: another platform may be asked", async (t) => {
  const { linked, heard } = await linkedTo(t);
  const passed = Promise.withResolvers<unknown>();
  const server = createServer((req, res) => {
    Promise.resolve(linked.backing.fallback(req, res)).then(passed.resolve, (error) => {
      passed.resolve(error);
      res.end();
    });
    linked.link.destroy();
  }).listen(0, HOST);
  await once(server, "listening");
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  await (await fetch(`http://${HOST}:${port}/graphql`, { method: "POST", body: "{}" })).text();
  assert.equal(((await passed.promise) as { code?: string } | undefined)?.code, "SHUTTING_DOWN");
  assert.deepEqual(heard, []);
});
