/** `svc worker join` against a played platform: how it joins, what it says, how it ends, and what it does not let happen. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { type AddressInfo, connect, createServer as createRawServer, type Server } from "node:net";
import path from "node:path";
import { pipeline } from "node:stream";
import { type TestContext, test } from "node:test";
import { CPU_IMAGE } from "../../src/domain/endpoint.ts";
import { SvcError } from "../../src/domain/errors.ts";
import { FRAME, PROTOCOL_VERSION } from "../../src/domain/worker-protocol.ts";
import { joinAddress } from "../../src/host/dial.ts";
import { clockFinding, togetherAs } from "../../src/host/preflight.ts";
import { encodeFrame, FrameReader, parseHead } from "../../src/lib/frames.ts";
import { selfSignedCertificate } from "../../src/lib/self-signed-certificate.ts";
import { Reception } from "../../src/worker-link/reception.ts";
import { CTRL_C, openPseudoTerminal } from "../cli/pseudo-terminal.ts";
import { eventually } from "../eventually.ts";
import { hangingDisk, lackOfHangingDisk } from "../hanging-disk.ts";
import { PROGRAM } from "../program.ts";
import { openPlatformEnd } from "./joined.ts";
import { PLATFORM_ID, TOKEN } from "./platform-end.ts";

const PIN = "ab".repeat(32);

test("An address has a URL and a fingerprint; what is wrong with one is said with the way to get it right", () => {
  assert.deepEqual(joinAddress(`https://svc.example.com/#${PIN.toUpperCase()}`), {
    url: "https://svc.example.com",
    fingerprint: PIN,
  });
  assert.deepEqual(joinAddress("https://svc.example.com/"), { url: "https://svc.example.com", fingerprint: undefined });
  assert.equal(joinAddress(`http://10.0.0.1:7878/base/#${PIN}`).url, "http://10.0.0.1:7878/base");
  for (const [text, message] of [
    ["svc.example.com", /is no URL of a platform/],
    ["ftp://svc.example.com#x", /is no URL/],
    ["https://user:secret@svc.example.com#x", /is no URL/],
    ["http://svc.example.com", /fingerprint is missing/],
    ["https://svc.example.com#abc", /no fingerprint: it has 64/],
  ] as const) {
    assert.throws(() => joinAddress(text), { code: "USAGE", message, help: /svc host token create/ }, text);
  }
});

test("A clock that is off is told, one that is far off keeps the machine out; several reasons come together", () => {
  assert.deepEqual([clockFinding(undefined), clockFinding(1_000)], [{}, {}]);
  assert.match(clockFinding(-20_000).warning!.message, /clock is 20 s ahead of the platform's/);
  const { problem } = clockFinding(3_600_000);
  assert.match(problem!.message, /clock is 3600 s behind/);
  const other = new SvcError("TOOL_MISSING", "No Python.", { help: "Install it." });
  assert.equal(togetherAs([other]), other);
  const both = togetherAs([other, problem!])!;
  assert.match(both.message, /for 2 reasons/);
  assert.match(both.help!, /^- No Python\.\n {2}Install it\.\n- This machine's clock/);
});

test("What keeps a machine from joining is one error in words, and leaves nothing running", async (t) => {
  const { end, run, join, address, dir, port } = await openPlatformEnd(t);
  const odd = createServer((_req, res) => void res.writeHead(404).end());
  odd.listen(0, "127.0.0.1");
  await once(odd, "listening");
  t.after(() => odd.close());
  const oddUrl = `http://127.0.0.1:${(odd.address() as AddressInfo).port}`;
  const gone = `http://127.0.0.1:1#${PIN}`;
  const token = { SVC_HOST_TOKEN: TOKEN };
  const empty = path.join(dir, "empty");
  writeFileSync(empty, "\n");
  const common = ["--data-dir", path.join(dir, "other"), "--name", "box"];
  const cases: [args: string[], env: Record<string, string>, code: number, words: RegExp][] = [
    [[end.url, ...common], token, 2, /fingerprint is missing[\s\S]*svc host token create/],
    [
      [`${end.url}#${PIN}`, ...common],
      token,
      1,
      new RegExp(`127.0.0.1:${port} is not the platform with this fingerprint`),
    ],
    [[gone, ...common], token, 1, /cannot be reached.*[\s\S]*firewall/],
    [[`${oddUrl}#${PIN}`, ...common], token, 1, /takes no other machines\.[\s\S]*SVC_WORKER_LISTEN/],
    [
      [address, ...common],
      { SVC_HOST_TOKEN: "svch_wrong" },
      1,
      /does not let this machine in: its token is not known, or was used/,
    ],
    [[address, ...common], {}, 2, /A token is missing[\s\S]*--token-file/],
    [[address, ...common, "--token-file", empty], {}, 2, /file of --token-file is empty/],
    [[address, ...common, "--token", "a", "--token-file", empty], {}, 2, /Both --token and --token-file/],
    [[address, ...common, "--name", "Not A Name"], token, 2, /cannot name a host|--name/],
    [[address, ...common, "--labels", "a b"], token, 2, /"a b" is no label/],
    [
      [address, ...common, "--cpus", "9000", "--gpus", "77"],
      token,
      1,
      /--cpus 9000, and it has \d+; --gpus 77, and it has 0/,
    ],
    [
      [gone, ...common, "--cpus", "9000"],
      { ...token, SVC_PYTHON: "no-such-python" },
      1,
      /for 3 reasons:[\s\S]*cannot be reached[\s\S]*no-such-python[\s\S]*--cpus 9000/,
    ],
    [[address, ...common, "--shared-volumes", dir], token, 1, /does not hold the platform's volumes/],
  ];
  for (const [args, env, code, words] of cases) {
    if (!end.tokens.has(TOKEN)) end.tokens.add(TOKEN);
    const agent = run(args, env);
    assert.equal(await agent.ended, code, `${args.join(" ")}\n${agent.stderr}`);
    assert.match(agent.stderr, words);
    assert.ok(!agent.stderr.includes(TOKEN) && !agent.stdout.includes(TOKEN), "no token is printed");
    assert.equal(agent.stdout, "");
  }
  // The last of them was let in, and stood wrongly only then: it comes back without a token.
  const again = run([address, ...common]);
  await eventually(() => assert.match(again.stdout, /^Joined /, again.stderr));
  await again.end();
  const wrongAgain = run([address, ...common, "--shared-volumes", dir]);
  assert.equal(await wrongAgain.ended, 1);
  assert.match(wrongAgain.stderr, /does not hold the platform's volumes/);

  end.refusal = "builds are made for linux x64 glibc, and it has another";
  end.tokens.add(TOKEN);
  const refused = join();
  assert.equal(await refused.ended, 1);
  assert.match(refused.stderr, /does not let this machine in: builds are made for linux/);
});

async function listening(t: TestContext, server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  return (server.address() as AddressInfo).port;
}

test("What stands wrongly before a platform is named before anything is started", async (t) => {
  const { end, run, address, dir } = await openPlatformEnd(t);
  const common = ["--data-dir", path.join(dir, "other"), "--name", "box"];
  const refused = async (to: string) => {
    const agent = run([to, ...common], { SVC_HOST_TOKEN: TOKEN });
    assert.notEqual(await agent.ended, 0, agent.stdout);
    return agent.stderr;
  };
  // The port for machines, as it is told.
  const { workerPort } = end;
  const pin = address.split("#")[1]!;
  const behind = async (server: Server) => {
    end.workerPort = await listening(t, server);
    const said = await refused(address);
    end.workerPort = workerPort;
    return said;
  };
  const http = createServer((_req, res) => void res.end("hello"));
  assert.match(await behind(http), /does not speak TLS 1\.3\.[\s\S]*pass TCP on as it is: it is none of HTTP/);
  const old = createTlsServer({ ...selfSignedCertificate("front"), maxVersion: "TLSv1.2" });
  assert.match(await behind(old), /does not speak TLS 1\.3\./);
  // A front that tells who calls, before it passes anything on.
  const tells = createRawServer((socket) => {
    const onward = connect(workerPort, "127.0.0.1");
    onward.write("PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n");
    pipeline(socket, onward, socket, () => {});
  });
  assert.match(
    await behind(tells),
    /(does not speak TLS 1\.3|closes the connection at once)\.[\s\S]*adds no PROXY header/,
  );
  const closes = createRawServer((socket) => void socket.on("error", () => {}).end());
  assert.match(
    await behind(closes),
    /port for other machines, closes the connection at once\.[\s\S]*SVC_WORKER_PUBLIC/,
  );

  // Its URL.
  const port = new URL(end.url).port;
  assert.match(
    await refused(`https://127.0.0.1:${port}#${pin}`),
    /There is no HTTPS at this address: a port for HTTP is written http:\/\//,
  );
  const moves = await listening(
    t,
    createServer((_req, res) => void res.writeHead(301, { location: "https://svc.example.com/" }).end()),
  );
  assert.match(
    await refused(`http://127.0.0.1:${moves}#${pin}`),
    /sends this machine to https:\/\/svc\.example\.com\/: join with the URL where it is/,
  );
  const secure = await listening(
    t,
    createServer((_req, res) => void res.writeHead(400).end("The plain HTTP request was sent to HTTPS port")),
  );
  assert.match(await refused(`http://127.0.0.1:${secure}#${pin}`), /status 400: that port is for https:\/\//);
  assert.match(
    await refused(`http://no-such-host.invalid#${pin}`),
    /cannot be reached: getaddrinfo ENOTFOUND no-such-host\.invalid/,
  );
  assert.match(
    await refused(`http://fd00::1:8787#${pin}`),
    /is no URL of a platform[\s\S]*An IPv6 address stands in brackets: http:\/\/\[fd00::1\]:8787/,
  );
});

test("A machine that was let in needs no token again; its directory is closed to others and takes one agent", async (t) => {
  const { end, run, join, address, dataDir } = await openPlatformEnd(t);
  const first = join(["--labels", "gpu-a100,eu", "--cpus", "1", "--json"]);
  const state = await end.up();
  const { name, labels, driver, platform, arch } = end.hello!;
  assert.deepEqual(
    { name, labels, driver, platform, arch },
    {
      name: "box",
      labels: ["gpu-a100", "eu"],
      driver: "process",
      platform: process.platform,
      arch: process.arch,
    },
  );
  assert.match(end.hello!.libc, /^(glibc|musl)/);
  assert.equal(state.machine.hardware.vcpus, 1);
  assert.ok(state.freeDiskBytes > 0);
  assert.equal(statSync(dataDir).mode & 0o777, 0o700);
  const file = path.join(dataDir, "host.json");
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.ok(end.secrets.has(JSON.parse(readFileSync(file, "utf8")).secret));
  await eventually(() => assert.match(first.stdout, /^\{"event":"joined","host":"box",/));

  const second = join();
  assert.equal(await second.ended, 1);
  assert.match(second.stderr, /Another agent runs on this machine with the same data directory/);

  assert.equal(await first.signal("SIGTERM"), 0);
  assert.match(first.stdout, /"event":"leaving"[\s\S]*"event":"left"/);
  const renamed = run([address, "--data-dir", dataDir, "--name", "crate"], {});
  assert.equal(await renamed.ended, 2);
  assert.match(renamed.stderr, /This machine joined as box, and keeps that name\./);

  const again = run([address, "--data-dir", dataDir], {});
  await end.up();
  await eventually(() => assert.match(again.stdout, /^Joined http:\S+ as box\. Its data is in /));
  end.secrets.clear();
  end.cut();
  assert.equal(await again.ended, 1);
  assert.match(again.stderr, /does not let this machine in/);
});

test("An agent that its platform lets go ends, also while the disk of its volumes does not answer", async (t) => {
  const lack = await lackOfHangingDisk();
  if (lack !== undefined) return t.skip(lack);
  const { end, join } = await openPlatformEnd(t);
  const { disk, hang, answer } = await hangingDisk(t);
  writeFileSync(path.join(disk, ".svc-platform"), PLATFORM_ID);
  const agent = join(["--shared-volumes", disk]);
  await end.up();
  hang();
  await eventually(() => assert.match(agent.stderr, /disk of the volumes, \S+, does not answer/));
  end.secrets.clear();
  end.cut();
  await agent.ended;
  assert.match(agent.stderr, /does not let this machine in/);
  answer();
});

test("An agent whose folder of volumes becomes another one says so, and waits for the right one, also when it comes back", async (t) => {
  const { dir, end, join } = await openPlatformEnd(t);
  const mark = path.join(dir, ".svc-platform");
  writeFileSync(mark, PLATFORM_ID);
  const agent = join(["--shared-volumes", dir]);
  await end.up();
  writeFileSync(mark, "another");
  await eventually(() => assert.match(agent.stderr, /The folder of the volumes, \S+, is not the one that it was/));
  writeFileSync(mark, PLATFORM_ID);
  await eventually(() => assert.match(agent.stderr, /The disk of the volumes is back/));
  writeFileSync(mark, "another");
  end.cut();
  await eventually(() => assert.match(agent.stdout, /does not hold the platform's volumes\. Mount the folder/));
  assert.ok(agent.isAlive);
  writeFileSync(mark, PLATFORM_ID);
  await eventually(() => assert.match(agent.stdout, /Back at the platform/));
});

test("A platform that goes away is dialled until it is back, wherever it listens then", async (t) => {
  const { end, join, port } = await openPlatformEnd(t);
  const agent = join();
  await end.up();
  await end.close();
  await eventually(() => assert.match(agent.stdout, /The platform does not answer/));
  await end.listen(port);
  await end.up();
  await eventually(() => assert.match(agent.stdout, /Back at the platform/));
  assert.equal(agent.stdout.match(/does not answer/g)?.length, 1);
  // One that starts while the platform is away waits for it, too: it was let in.
  assert.equal(await agent.signal("SIGTERM"), 0);
  await end.close();
  const later = join([], {});
  await eventually(() => assert.match(later.stdout, /does not answer \(.+\): it is dialled again/));
  await end.listen(port);
  await end.up();
  await eventually(() => assert.match(later.stdout, /Joined/));
});

test("With --wait an agent that was never let in tries on while nothing answers; without, and for what waiting does not help, it ends", async (t) => {
  const { end, join, port, run, dir } = await openPlatformEnd(t);
  const { url } = end;
  await end.close();
  assert.notEqual(await join().ended, 0);
  const agent = join(["--wait", "5m"]);
  await eventually(() => assert.ok(agent.isAlive && agent.stderr === "" && agent.stdout === ""));
  await end.listen(port);
  await end.up();
  await eventually(() => assert.match(agent.stdout, /Joined/));
  const other = run([`${url}#${PIN}`, "--data-dir", path.join(dir, "other"), "--wait", "5m"], {
    SVC_HOST_TOKEN: TOKEN,
  });
  assert.notEqual(await other.ended, 0);
  assert.match(other.stderr, /is not the platform with this fingerprint/);
});

test("A platform with another certificate is told once with what to do, and dialled until the right one is back", async (t) => {
  const { end, join, port } = await openPlatformEnd(t);
  const agent = join();
  await end.up();
  const other = new Reception((connection) => connection.destroy());
  t.after(() => other.close());
  end.workerPort = await other.listenTls({ host: "127.0.0.1", port: 0, ...selfSignedCertificate("another") });
  end.cut();
  const words =
    /is not the platform with this fingerprint\. Its certificate has [0-9a-f]{64}\..*svc host token create/g;
  await eventually(() => assert.match(agent.stdout, words));
  end.workerPort = port;
  await end.up();
  await eventually(() => assert.match(agent.stdout, /Back at the platform/));
  assert.equal(agent.stdout.match(words)?.length, 1);
});

test("Behind https a fingerprint need not be given: an authority that the machine trusts vouches for what the platform says", async (t) => {
  const { end, run, dir, dataDir } = await openPlatformEnd(t);
  const authority = selfSignedCertificate("localhost");
  const file = path.join(dir, "authority.pem");
  writeFileSync(file, authority.cert);
  // It ends TLS itself, as a load balancer does.
  const front = createTlsServer(authority, (req, res) => {
    const onward = request(`${end.url}${req.url}`, { method: req.method, headers: req.headers }, (answer) => {
      res.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(res);
    });
    onward.on("error", () => res.destroy());
    req.pipe(onward);
  });
  front.listen(0, "127.0.0.1");
  await once(front, "listening");
  t.after(() => front.close());
  t.after(() => front.closeAllConnections());
  const url = `https://localhost:${(front.address() as AddressInfo).port}`;
  const args = [url, "--data-dir", dataDir, "--name", "box"];
  const distrusts = run(args, { SVC_HOST_TOKEN: TOKEN });
  assert.equal(await distrusts.ended, 1);
  assert.match(distrusts.stderr, /certificate[\s\S]*NODE_EXTRA_CA_CERTS=FILE/);
  assert.ok(end.tokens.has(TOKEN), "it was told nothing");

  const env = { NODE_EXTRA_CA_CERTS: file };
  const agent = run(args, { ...env, SVC_HOST_TOKEN: TOKEN });
  await end.up();
  await eventually(() => assert.match(agent.stdout, /Joined https:/));
  assert.equal(await agent.signal("SIGTERM"), 0);
  // From now on it is the certificate that it joined with that counts.
  end.fingerprint = PIN;
  const again = run(args, env);
  await end.up();
  await eventually(() => assert.match(again.stdout, /Joined https:/));
});

test("Only its launcher comes in by the agent's socket, and no call of the platform leads out of its folders", async (t) => {
  const { end, join, dataDir } = await openPlatformEnd(t);
  const agent = join();
  await end.up();
  for (const role of ["worker", "launcher", "host"]) {
    const socket = connect(path.join(dataDir, "run", "agent.sock"));
    const head = { protocol: PROTOCOL_VERSION, role, token: "guessed", pid: 1, unacknowledged: [] };
    socket.write(Buffer.concat(encodeFrame(FRAME.HELLO, 0, head)));
    const reader = new FrameReader(1e6);
    const [data] = (await once(socket, "data")) as [Buffer];
    const [frame] = reader.push(data);
    assert.equal(frame?.type, FRAME.REFUSED, role);
    assert.match(parseHead<{ reason: string }>(frame!).reason, /launcher/);
    socket.destroy();
  }
  const image = {
    endpointId: "e1",
    endpointName: "one",
    buildId: "b1",
    sourceLayer: "a".repeat(64),
    dependencyLayer: null,
    baseDependencies: [],
    pythonVersion: "3.11",
    handler: "handlers/one.py",
    imageName: CPU_IMAGE,
    systemDependencies: [],
    imageSteps: [],
    bootType: "SVCBOOT",
    volumes: [],
  };
  const attacks: object[] = [
    { endpointId: "../../etc" },
    { handler: "../../../etc/passwd" },
    { handler: "/etc/passwd" },
    { sourceLayer: "../secret" },
    { pythonVersion: "3.11; rm -rf /" },
    { buildId: "" },
    { sourceLayer: "" },
    { pythonVersion: "" },
    { pulls: "anything" },
    { buildId: "", pulls: "command" },
    { pulls: "image", program: { entrypoint: "sh", command: [] } },
    { cache: { app: "..", environment: "..", name: ".." } },
    { volumes: [{ app: "a", environment: "b", name: "../../x", paths: [], readOnly: false }] },
  ];
  for (const attack of attacks) {
    await assert.rejects(end.ask("prepare", { image: { ...image, ...attack }, layers: [] }), JSON.stringify(attack));
  }
  await assert.rejects(end.ask("prepare", { image, layers: [] }), { code: "LAYER_MISSING", message: /no ticket/ });
  await assert.rejects(end.ask("start", { nothing: 1 }));
  await assert.rejects(end.ask("ofALaterVersion" as "start"), { message: /does not know the call "ofALaterVersion"/ });
  assert.deepEqual(await end.ask("vouched"), { workers: [] });
  assert.ok(agent.isAlive);
  assert.equal(await agent.signal("SIGINT"), 0);
  assert.match(agent.stdout, /Left: no worker runs here any more/);
});

function openTerminal(t: TestContext, args: readonly string[], dir: string) {
  const env = { PATH: process.env.PATH ?? "", HOME: dir, SVC_HOST_TOKEN: TOKEN, TERM: "xterm" };
  const terminal = openPseudoTerminal([process.execPath, PROGRAM, "worker", "join", ...args], {
    cwd: dir,
    env,
    columns: 80,
  });
  t.after(() => terminal.close());
  return terminal;
}

test("On a terminal of 80 columns it says calmly what happens, and Ctrl+C leaves at any moment", async (t) => {
  const { end, address, dataDir, dir } = await openPlatformEnd(t);
  const args = [address, "--data-dir", dataDir, "--name", "box"];
  const joined = openTerminal(t, args, dir);
  await joined.shows(/Ctrl\+C leaves\./);
  assert.match(joined.text, /Joined http:\S+ as box\./);
  joined.type(CTRL_C);
  assert.equal(await joined.ended, 0);
  assert.match(joined.text, /Leaves the platform[\s\S]*Left: no worker runs here any more\./);

  // While it joins: a platform that does not answer the question where to dial, and one that does not welcome it.
  let held = 0;
  end.respond = () => ++held > 0;
  const asking = openTerminal(t, args, dir);
  await asking.shows(/Joining http/);
  await eventually(() => assert.ok(held > 0));
  asking.type(CTRL_C);
  assert.equal(await asking.ended, 130);
  assert.match(asking.text, /This machine did not join\./);
  end.respond = () => false;

  const back = openTerminal(t, args, dir);
  await back.shows(/Ctrl\+C leaves\./);
  back.type(CTRL_C);
  back.type(CTRL_C);
  assert.equal(await back.ended, 0);
});
