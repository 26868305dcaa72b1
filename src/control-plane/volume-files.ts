/**
 * The files of volumes, below /volumes/<app>/<environment>/<volume>:
 *
 *   GET    /entries/<path>   a line of JSON for what is there, and for each entry of a folder
 *   GET    /files/<path>     a file's bytes
 *   PUT    /files/<path>     stores one, in one step; in parts with ?upload=<UUID>, Upload-Offset and Upload-Complete
 *   DELETE /files/<path>     removes one; a folder with all in it with ?recursive=1
 *   DELETE /uploads/<UUID>   what has arrived of an upload goes
 */
import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { SvcError } from "../domain/errors.ts";
import { volumePathProblems } from "../domain/volume.ts";
import type { VolumeFiles } from "../volumes/volume-store.ts";
import { authenticate, requireEnvironment, requireScope } from "./authenticate.ts";
import type { SharedDeps } from "./context.ts";
import { bodyOf, decodedPart, endWhenIdle, methodNotAllowed, sendJson, UPLOAD_OFFSET } from "./http.ts";
import { knownEnvironment } from "./known.ts";

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const FORM = "/volumes/<app>/<environment>/<volume>/{entries,files,uploads}/<path>";

export async function answerVolume(
  deps: SharedDeps,
  request: IncomingMessage,
  response: ServerResponse,
  url: URL,
): Promise<void> {
  const principal = await authenticate(deps.keys, request.headers.authorization);
  const parts = url.pathname.slice("/volumes/".length).split("/");
  const [app = "", environment = "", name = "", what, ...where] = parts.map(decodedPart);
  requireScope({ principal }, what === "entries" ? "read" : "deploy");
  requireEnvironment({ principal }, (await knownEnvironment(deps.store, app, environment)).id);
  const files = await deps.volumes.files({ app, environment, name });
  const path = where.filter((part, index) => part !== "" || index < where.length - 1);
  const problems = volumePathProblems(path);
  if (problems.length > 0) throw new SvcError("BAD_INPUT", problems.join("\n"));
  if (what === "entries") {
    if (request.method !== "GET") return methodNotAllowed(response, "/entries/<path>", "GET");
    return listEntries(files, path, response);
  }
  if (what === "files") return answerFile(deps, files, path, request, response, url);
  if (what === "uploads" && UUID.test(path.join("/"))) {
    if (request.method !== "DELETE") return methodNotAllowed(response, "/uploads/<UUID>", "DELETE");
    await files.abandon(path[0]!);
    return sendJson(response, 200, {});
  }
  throw new SvcError("NOT_FOUND", `There is nothing at ${url.pathname}.`, { help: FORM });
}

async function answerFile(
  deps: SharedDeps,
  files: VolumeFiles,
  path: readonly string[],
  request: IncomingMessage,
  response: ServerResponse,
  url: URL,
): Promise<void> {
  if (request.method === "GET") return sendFile(files, path, response);
  if (request.method === "DELETE") {
    await files.remove(path, url.searchParams.get("recursive") === "1");
    deps.volumesChanged();
    return sendJson(response, 200, {});
  }
  if (request.method !== "PUT") return methodNotAllowed(response, "/files/<path>", "GET, PUT, DELETE");
  const arrived = await storePart(deps, files, path, { request, response }, url.searchParams.get("upload"));
  if (arrived !== undefined) sendJson(response, 200, arrived);
}

async function listEntries(files: VolumeFiles, path: readonly string[], response: ServerResponse): Promise<void> {
  const entries = files.entries(path);
  const first = await entries.next(); // An error has a status of its own as long as nothing was sent.
  response.writeHead(200, { "content-type": "application/x-ndjson", "cache-control": "no-store" });
  const lines = async function* () {
    if (!first.done) yield `${JSON.stringify(first.value)}\n`;
    for await (const entry of entries) yield `${JSON.stringify(entry)}\n`;
  };
  await untilGone(pipeline(Readable.from(lines()), response), response);
  await entries.return(undefined); // It was not asked for more if the caller was gone already.
}

async function sendFile(files: VolumeFiles, path: readonly string[], response: ServerResponse): Promise<void> {
  const { bytes, sizeBytes, modifiedAt } = await files.read(path);
  response.writeHead(200, {
    // Nothing of it runs in a browser that is led here.
    "content-type": "application/octet-stream",
    "content-disposition": "attachment",
    "content-length": sizeBytes,
    "last-modified": new Date(modifiedAt).toUTCString(),
    "cache-control": "no-store",
  });
  let left = sizeBytes;
  const counted = async function* (source: AsyncIterable<Buffer>) {
    for await (const chunk of source) {
      left -= chunk.length;
      yield left < 0 ? chunk.subarray(0, chunk.length + left) : chunk;
    }
    if (left > 0) throw new Error("the file was cut while it was read");
  };
  await untilGone(pipeline(bytes, counted, response), response);
}

/** Once the answer has begun, a failure ends the connection: whoever reads it sees that it is not whole. */
async function untilGone(sent: Promise<void>, response: ServerResponse): Promise<void> {
  await sent.catch(() => response.destroy());
}

/** Undefined when it broke off: nobody is there to be answered. */
async function storePart(
  deps: SharedDeps,
  files: VolumeFiles,
  path: readonly string[],
  { request, response }: { readonly request: IncomingMessage; readonly response: ServerResponse },
  upload: string | null,
): Promise<{ arrived: number; complete: boolean } | undefined> {
  const offset = String(request.headers["upload-offset"] ?? "0");
  const complete = request.headers["upload-complete"] !== "?0";
  const isPart = offset !== "0" || !complete;
  if (!UPLOAD_OFFSET.test(offset) || (upload !== null && !UUID.test(upload)) || (isPart && upload === null)) {
    throw new SvcError("BAD_INPUT", "A part of a file has ?upload=<UUID> and Upload-Offset: <bytes that are there>.");
  }
  endWhenIdle(request, response, deps.config.uploadIdleMs);
  const id = upload ?? randomUUID();
  try {
    const arrived = await files.write(path, { id, offset: Number(offset), complete, bytes: bodyOf(request) });
    if (complete) deps.volumesChanged();
    return { arrived, complete };
  } catch (error) {
    const brokeOff = request.destroyed && !request.complete;
    const isAway = error instanceof SvcError && error.code === "VOLUMES_AWAY";
    // What broke off is kept for whoever can name it, and goes on. What cannot be removed now goes when uploads are swept.
    if (upload === null || !(brokeOff || isAway)) await files.abandon(id).catch(() => {});
    if (brokeOff && !(error instanceof SvcError)) return undefined;
    throw error;
  }
}
