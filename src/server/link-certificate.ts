import { createPrivateKey, X509Certificate } from "node:crypto";
import { chmod, readFile, rename, writeFile } from "node:fs/promises";
import path from "node:path";
import { SvcError } from "../domain/errors.ts";
import { type Certificate, selfSignedCertificate } from "../lib/self-signed-certificate.ts";
import { temporaryName } from "../lib/write-file-atomic.ts";

const FILE = "worker-link.pem";

/**
 * What the platform proves itself with to workers of other machines: `<data>/worker-link.pem`, key and certificate, made
 * when it is first needed. Workers know its fingerprint, so a lost file means new workers. Throws DATA_DIRECTORY.
 */
export async function openLinkCertificate(dataDir: string): Promise<Certificate> {
  const file = path.join(dataDir, FILE);
  const there = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
  if (there === undefined) {
    const made = selfSignedCertificate("svc worker link");
    const draft = temporaryName(file);
    await writeFile(draft, made.key + made.cert, { mode: 0o600, flush: true });
    await rename(draft, file);
    return made;
  }
  await chmod(file, 0o600);
  try {
    if (new X509Certificate(there).checkPrivateKey(createPrivateKey(there))) return { key: there, cert: there };
  } catch {}
  throw new SvcError("DATA_DIRECTORY", "The certificate of the worker link cannot be read.", {
    where: file,
    help: "Restore it from a backup, or remove it: workers of other machines must then be started anew.",
  });
}
