/**
 * The API server of the cluster that the platform runs in: requests as its service account. Of the API it needs Pods of one namespace and
 * the keys of service accounts; docs/decisions/0027 says why no library stands in between.
 */
import { readFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { Agent, request } from "node:https";
import path from "node:path";
import { SvcError } from "../domain/errors.ts";
import { KUBERNETES_ANSWER_MAX_BYTES, KUBERNETES_ANSWER_MAX_MS, KUBERNETES_WORDS_MAX_CHARS } from "../domain/limits.ts";

export interface ApiAddress {
  readonly host: string;
  readonly port: number;
  /** Folder of a service account as Kubernetes mounts it: token, ca.crt and namespace. */
  readonly account: string;
}

/** The API server answered with another status than 2xx. */
export class ApiRefusal extends Error {
  readonly status: number;
  /** As Kubernetes names it: "Forbidden", "AlreadyExists", "Expired". */
  readonly reason: string;

  constructor(status: number, reason: string, message: string) {
    super(message);
    this.name = "ApiRefusal";
    this.status = status;
    this.reason = reason;
  }
}

interface Sent {
  readonly body?: object;
  readonly signal?: AbortSignal | undefined;
}

export class KubernetesApi {
  readonly #address: ApiAddress;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 16 });
  readonly namespace: string;

  /** Throws CONFIG_INVALID where there is no service account. */
  constructor(address: ApiAddress) {
    this.#address = address;
    this.namespace = this.#read("namespace").trim();
    this.#read("token");
  }

  /** Resolves the object of the answer. Throws ApiRefusal, and Error when it cannot be reached. */
  async ask(method: "GET" | "POST" | "DELETE", where: string, sent: Sent = {}): Promise<unknown> {
    const late = AbortSignal.timeout(KUBERNETES_ANSWER_MAX_MS);
    const signal = sent.signal === undefined ? late : AbortSignal.any([late, sent.signal]);
    const answer = await this.#send(method, where, { ...sent, signal });
    return JSON.parse(await textOf(answer));
  }

  /** Resolves an answer that goes on, once it has begun. Throws as `ask`. */
  open(where: string, signal: AbortSignal): Promise<IncomingMessage> {
    return this.#send("GET", where, { signal });
  }

  close(): void {
    this.#agent.destroy();
  }

  async #send(method: string, where: string, { body, signal }: Sent): Promise<IncomingMessage> {
    const { host, port } = this.#address;
    // Both are renewed in place while the platform runs.
    const [token, ca] = [this.#read("token").trim(), this.#read("ca.crt")];
    const sent = body === undefined ? undefined : JSON.stringify(body);
    const headers = {
      authorization: `Bearer ${token}`,
      // The second is what the keys are in.
      accept: "application/json, application/jwk-set+json",
      // Node says the length of a POST's body by itself, and not of a DELETE's: the API server would take it for the next request.
      ...(sent !== undefined && { "content-type": "application/json", "content-length": Buffer.byteLength(sent) }),
    };
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      const options = { host, port, path: where, method, headers, ca, agent: this.#agent, signal };
      request(options, resolve).on("error", reject).end(sent);
    });
    const status = answer.statusCode ?? 0;
    if (status >= 200 && status < 300) return answer;
    const text = await textOf(answer);
    const { reason = "", message = text } = statusOf(text);
    throw new ApiRefusal(status, reason, message.slice(0, KUBERNETES_WORDS_MAX_CHARS));
  }

  #read(name: string): string {
    const file = path.join(this.#address.account, name);
    try {
      return readFileSync(file, "utf8");
    } catch (cause) {
      throw new SvcError(
        "CONFIG_INVALID",
        `The platform's service account cannot be read: ${(cause as Error).message}.`,
        {
          where: file,
          help: "Pools of Pods need a platform that runs in the cluster, with automountServiceAccountToken of its Pod. The chart sets it.",
          cause,
        },
      );
    }
  }
}

async function textOf(answer: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of answer as AsyncIterable<Buffer>) {
    size += part.length;
    if (size > KUBERNETES_ANSWER_MAX_BYTES) throw new Error("the API server's answer is too long");
    parts.push(part);
  }
  return Buffer.concat(parts).toString("utf8");
}

function statusOf(text: string): { reason?: string; message?: string } {
  try {
    const { reason, message } = JSON.parse(text) as { reason?: unknown; message?: unknown };
    return { ...(typeof reason === "string" && { reason }), ...(typeof message === "string" && { message }) };
  } catch {
    return {};
  }
}
