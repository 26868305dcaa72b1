/** `svc worker`: this machine as a host of a platform elsewhere. What it takes is loaded when it joins. */
import { command, duration, group, jsonFlag, oneOf, switchFlag, valueFlag } from "../command.ts";

const join = command({
  brief: "Let this machine run workers of a platform elsewhere",
  text:
    "Joins the platform and runs its workers here until Ctrl+C, which lets running work finish; a second Ctrl+C ends it at once. The platform's svc host token " +
    "create prints URL, fingerprint and token. Once this machine was let in, it needs the token no more.",
  examples: [
    ["svc worker join 'https://svc.example.com#FINGERPRINT' --token-file token", "Join, and run workers until Ctrl+C"],
    [
      "SVC_HOST_TOKEN=svch_… svc worker join 'https://svc.example.com#FINGERPRINT'",
      "The token in no list of processes",
    ],
    ["svc worker join 'https://svc.example.com#FINGERPRINT' --cpus 4 --memory 16", "Offer a part of this machine"],
    [
      "svc worker join 'https://svc.example.com#FINGERPRINT' --labels gpu-a100,eu",
      "For endpoints that ask for such a host",
    ],
    [
      "sudo svc worker join 'https://svc.example.com#FINGERPRINT' --token-file token --install-service",
      "As a service of systemd",
    ],
  ],
  parameters: [{ placeholder: "URL#FINGERPRINT", brief: "The platform's URL, and how its certificate is known" }],
  flags: {
    token: valueFlag("TOKEN", "Lets this machine in; also from SVC_HOST_TOKEN"),
    tokenFile: valueFlag("FILE", "File with the token"),
    name: valueFlag("NAME", "Name of this machine on the platform; default: its host name"),
    labels: valueFlag("A,B", "Labels that endpoints ask for by hosts="),
    cpus: valueFlag("N", "vCPUs of it that are offered; default: all", positiveNumber),
    memory: valueFlag("GB", "Memory of it that is offered; default: all", positiveNumber),
    gpus: valueFlag("N", "GPUs of it that are offered, the first ones; default: all", wholeGpus),
    disk: valueFlag("GB", "What layers that were fetched may take, packed; default: 20", positiveNumber),
    grace: valueFlag(
      "TIME",
      "What runs has so long to finish when it is told to leave; default: 30s, or 10m of a service",
      duration,
    ),
    wait: valueFlag("TIME", "Tries so long to reach a platform that does not answer yet; default: not again", duration),
    driver: valueFlag("process|docker", "What workers run in; default: process", oneOf(["process", "docker"])),
    dataDir: valueFlag(
      "DIR",
      "Directory of its data; default: the user's data directory, or /var/lib/svc-host of a service",
    ),
    sharedVolumes: valueFlag("DIR", "The platform's volumes, mounted here: endpoints with volumes may run here then"),
    json: jsonFlag,
    installService: switchFlag("Make it a service of systemd instead, as root"),
    print: switchFlag("With --install-service: print the unit and write nothing"),
    user: valueFlag("NAME", "With --install-service: its user, made when it is missing; default: svc-host"),
    root: valueFlag("DIR", "With --install-service: root file system to install into; default: /"),
  },
  async run(flags, address = "") {
    if (flags.installService) return (await import("../host/install.ts")).installHost(this, flags, address);
    return (await import("../host/join.ts")).joinHost(this, flags, address);
  },
});

function positiveNumber(text: string): number {
  const value = Number(text);
  if (/^\d{1,7}(\.\d{1,3})?$/.test(text) && value > 0) return value;
  throw new Error("a number above 0 is needed");
}

function wholeGpus(text: string): number {
  const value = Number(text);
  if (/^\d{1,2}$/.test(text)) return value;
  throw new Error("a whole number from 0 to 99 is needed");
}

export const workerCommands = group("This machine as a host of a platform elsewhere", { join });
