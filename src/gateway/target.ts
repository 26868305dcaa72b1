/** What a request's URL and Host name: a job route, a path of a load-balanced endpoint, or neither. */
import type { IncomingMessage } from "node:http";
import { isReservedId } from "../domain/names.ts";

export interface Target {
  readonly kind: "job" | "load-balanced";
  readonly endpointId: string;
  /** Job routes: "run", "status", …; "" when the URL names none. */
  readonly route: string;
  readonly jobId: string;
  /** Load-balanced: path below the endpoint's URL, as it was sent, starting with "/"; of the OpenAI route what stands behind it. */
  readonly path: string;
  /** Without "?". */
  readonly query: string;
  /** Asked for under a host of the endpoint's own, not below the platform's address. */
  readonly hosted: boolean;
}

const JOB_PREFIX = "/v2/";
const LOAD_BALANCED_PREFIX = "/lb/";
/** What stands behind it is a path of another API. */
export const OPENAI_ROUTE = "openai";

/** Undefined: the request is not for an endpoint. */
export function findTarget(req: IncomingMessage, domain: string): Target | undefined {
  const url = withoutOrigin(req.url ?? "/");
  const question = url.indexOf("?");
  const path = question === -1 ? url : url.slice(0, question);
  const query = question === -1 ? "" : url.slice(question + 1);

  const host = domain === "" ? "" : endpointOfHost(req.headers.host ?? "", domain);
  if (host !== "") return { kind: "load-balanced", endpointId: host, route: "", jobId: "", path, query, hosted: true };

  if (path.startsWith(JOB_PREFIX)) {
    const parts = path.split("/"); // "", "v2", endpoint, route, job
    const whole = parts.length <= 5;
    const [, , endpointId = "", route = "", jobId = ""] = parts;
    if (isReservedId(endpointId)) return undefined;
    if (route === OPENAI_ROUTE) {
      const behind = `/${parts.slice(4).join("/")}`;
      return { kind: "job", endpointId, route, jobId: "", path: behind, query, hosted: false };
    }
    return { kind: "job", endpointId, route: whole ? route : "", jobId, path, query, hosted: false };
  }
  if (path.startsWith(LOAD_BALANCED_PREFIX)) {
    const slash = path.indexOf("/", LOAD_BALANCED_PREFIX.length);
    const end = slash === -1 ? path.length : slash;
    const endpointId = path.slice(LOAD_BALANCED_PREFIX.length, end);
    return {
      kind: "load-balanced",
      endpointId,
      route: "",
      jobId: "",
      path: path.slice(end) || "/",
      query,
      hosted: false,
    };
  }
  return undefined;
}

/** `GET http://host/path` is as good as `GET /path`. */
function withoutOrigin(url: string): string {
  if (url.startsWith("/")) return url;
  const match = /^https?:\/\/[^/?#]*/i.exec(url);
  if (match === null) return url;
  const rest = url.slice(match[0].length);
  return rest.startsWith("/") ? rest : `/${rest}`;
}

function endpointOfHost(host: string, domain: string): string {
  const colon = host.lastIndexOf(":");
  const name = (colon === -1 ? host : host.slice(0, colon)).toLowerCase();
  const suffix = `.${domain.toLowerCase()}`;
  return name.endsWith(suffix) ? name.slice(0, -suffix.length) : "";
}
