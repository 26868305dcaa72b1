/** How a receiver knows that a webhook comes from this platform; docs/reference/job-api.md tells it how to check. */
import { createHmac, randomBytes } from "node:crypto";
import { chmod, readFile, rename, writeFile } from "node:fs/promises";
import { temporaryName } from "../lib/write-file-atomic.ts";

const SECRET_BYTES = 32;

/** The value of X-Svc-Signature: HMAC-SHA256 of `<seconds>.<body>`, so that an old message cannot be sent again as new. */
export function signature(secret: string, nowMs: number, body: Uint8Array): string {
  const seconds = Math.floor(nowMs / 1000);
  const mac = createHmac("sha256", secret).update(`${seconds}.`).update(body).digest("hex");
  return `t=${seconds},v1=${mac}`;
}

/** The platform's secret from its file, which only the user may read; made at the first start. */
export async function openWebhookSecret(file: string): Promise<string> {
  try {
    const secret = (await readFile(file, "utf8")).trim();
    await chmod(file, 0o600);
    if (secret !== "") return secret;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
  const secret = `whsec_${randomBytes(SECRET_BYTES).toString("base64url")}`;
  const temporary = temporaryName(file);
  await writeFile(temporary, `${secret}\n`, { mode: 0o600, flush: true });
  await rename(temporary, file);
  return secret;
}
