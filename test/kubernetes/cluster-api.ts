/** An API server of tests, asked as its administrator. Whoever knows its address and its certificate may be another process than the one that started it. */
import assert from "node:assert/strict";
import { Agent, request } from "node:https";
import { text as textOf } from "node:stream/consumers";

export const ADMIN_TOKEN = "token-of-admin";

export interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: any object of the API
  readonly body: any;
}

export abstract class ClusterApi {
  /** Kept: the kubelet that tests play asks all the time, and to agree on keys costs both ends most of a request. */
  readonly #connections = new Agent({ keepAlive: true });

  abstract get host(): string;
  abstract get port(): number;
  /** PEM: whoever knows it knows the server. */
  abstract get ca(): string;

  get url(): string {
    return `https://${this.host}:${this.port}`;
  }

  /** What is kept of connections goes. */
  leave(): void {
    this.#connections.destroy();
  }

  /** One request as JSON, or as the text that is given. Without a token as the administrator. */
  ask(
    method: string,
    where: string,
    body?: object | string,
    given: { token?: string; type?: string } = {},
  ): Promise<Answer> {
    const { token = ADMIN_TOKEN, type = "application/json" } = given;
    return new Promise((resolve, reject) => {
      const text = typeof body === "object" ? JSON.stringify(body) : body;
      const headers = {
        ...{ authorization: `Bearer ${token}`, "content-type": type },
        // Node does not say by itself how long the body of a DELETE is.
        ...(text !== undefined && { "content-length": Buffer.byteLength(text) }),
      };
      const sent = request(`${this.url}${where}`, { method, headers, ca: this.ca, agent: this.#connections }, (res) => {
        textOf(res).then((answer) => {
          const isJson = res.headers["content-type"]?.startsWith("application/json");
          resolve({ status: res.statusCode!, body: isJson ? JSON.parse(answer) : answer });
        }, reject);
      });
      sent.once("error", reject);
      sent.end(text);
    });
  }

  /** The same, which has to succeed; the object. */
  async done(...args: Parameters<ClusterApi["ask"]>): Promise<Answer["body"]> {
    const { status, body } = await this.ask(...args);
    assert.ok(status < 300, `${args[0]} ${args[1]}: ${status} ${JSON.stringify(body)}`);
    return body;
  }

  /** A namespace with the service account that Pods need; nobody else makes it here. */
  async namespace(name: string): Promise<void> {
    await this.done("POST", "/api/v1/namespaces", { metadata: { name } });
    await this.serviceAccount(name, "default");
  }

  async serviceAccount(namespace: string, name: string): Promise<void> {
    const { status } = await this.ask("POST", `/api/v1/namespaces/${namespace}/serviceaccounts`, {
      metadata: { name },
    });
    assert.ok(status === 201 || status === 409, String(status)); // A controller may have made it.
  }

  /** A service account's token; of a Pod's when `pod` is given. */
  async token(namespace: string, account: string, audiences: readonly string[], pod?: object): Promise<string> {
    const spec = {
      audiences,
      expirationSeconds: 3600,
      ...(pod && { boundObjectRef: { kind: "Pod", apiVersion: "v1", ...pod } }),
    };
    const where = `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`;
    return (await this.done("POST", where, { spec })).status.token;
  }
}
