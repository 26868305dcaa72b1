/**
 * What others know the platform by: the secret that signs webhooks, and the certificate that hosts and workers of other machines know. In the
 * data directory each is a file. A platform in PostgreSQL may run on another machine next, so the database has them too, sealed:
 *
 *   no row ──▶ the file's content, which is made when there is none ──▶ a row
 *   a row  ──▶ the file, whatever was there
 *
 * The certificate that platforms on one database prove themselves with to each other is in the database alone.
 */
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { SvcError } from "../domain/errors.ts";
import type { SealedText } from "../lib/sealed-text.ts";
import { type Certificate, selfSignedCertificate } from "../lib/self-signed-certificate.ts";
import { writeFileAtomic } from "../lib/write-file-atomic.ts";
import type { Postgres } from "../postgres/postgres.ts";
import { hasTable, makeTable } from "../postgres/tables.ts";
import { openWebhookSecret } from "../webhooks/message.ts";
import type { Config } from "./config.ts";
import { openLinkCertificate } from "./link-certificate.ts";

const WEBHOOK_SECRET = "webhook-secret";
const CERTIFICATE = "worker-link.pem";
const REPLICAS = "replica-link.pem";
const TABLE = "platform_identity";
const COLUMNS = "name text PRIMARY KEY, sealed text NOT NULL";

export function webhookSecretFile(dataDir: string): string {
  return path.join(dataDir, WEBHOOK_SECRET);
}

type Needs = Pick<Config, "dataDir" | "workerListen">;

/** Brings files and database together. Throws DATA_DIRECTORY when the keys here do not open what is in the database. */
export async function shareIdentity(
  postgres: Postgres,
  seal: SealedText,
  { dataDir, workerListen }: Needs,
): Promise<void> {
  await makeTable(postgres, TABLE, COLUMNS);
  await share(postgres, seal, path.join(dataDir, WEBHOOK_SECRET), () => openWebhookSecret(webhookSecretFile(dataDir)));
  const isKnown = workerListen !== undefined || existsSync(path.join(dataDir, CERTIFICATE));
  await share(postgres, seal, path.join(dataDir, CERTIFICATE), isKnown && (() => openLinkCertificate(dataDir)));
}

/** What the platforms on the database prove themselves with; made when it is first needed. Throws DATA_DIRECTORY. */
export async function shareReplicaCertificate(postgres: Postgres, seal: SealedText): Promise<Certificate> {
  await makeTable(postgres, TABLE, COLUMNS);
  const label = labelOf(REPLICAS);
  const { key, cert } = selfSignedCertificate("svc replica link");
  const insert = "INSERT INTO platform_identity (name, sealed) VALUES ($1, $2) ON CONFLICT DO NOTHING";
  await postgres.query(insert, [REPLICAS, seal.seal(key + cert, label)]);
  const stored = (await read(postgres, REPLICAS))!;
  const content = opened(seal, stored, label, postgres.name);
  await sealAnew(postgres, seal, REPLICAS, stored);
  return { key: content, cert: content };
}

/** The same for one that does not have the database: undefined as long as there is none. Throws DATA_DIRECTORY. */
export async function readReplicaCertificate(postgres: Postgres, seal: SealedText): Promise<Certificate | undefined> {
  const stored = (await hasTable(postgres, TABLE)) ? await read(postgres, REPLICAS) : undefined;
  if (stored === undefined) return undefined;
  const content = opened(seal, stored, labelOf(REPLICAS), postgres.name);
  return { key: content, cert: content };
}

/** `make` makes the file; false: there is to be none unless the database has it. */
async function share(
  postgres: Postgres,
  seal: SealedText,
  file: string,
  make: false | (() => Promise<unknown>),
): Promise<void> {
  const name = path.basename(file);
  const label = labelOf(name);
  const stored = await read(postgres, name);
  if (stored === undefined) {
    if (make === false) return;
    await make();
    const sealed = seal.seal(await readFile(file, "utf8"), label);
    const insert = "INSERT INTO platform_identity (name, sealed) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    if ((await postgres.query(insert, [name, sealed])).rowCount === 1) return;
    return share(postgres, seal, file, make);
  }
  const content = opened(seal, stored, label, postgres.name);
  const here = existsSync(file) ? await readFile(file, "utf8") : undefined;
  if (here !== content) await writeFileAtomic(file, content, 0o600);
  await sealAnew(postgres, seal, name, stored);
}

function labelOf(name: string): string {
  return `identity ${name}`;
}

/** With the newest key. */
async function sealAnew(postgres: Postgres, seal: SealedText, name: string, stored: string): Promise<void> {
  const renewed = seal.sealedAnew(stored, labelOf(name));
  if (renewed === undefined) return;
  const update = "UPDATE platform_identity SET sealed = $2 WHERE name = $1 AND sealed = $3";
  await postgres.query(update, [name, renewed, stored]);
}

function opened(seal: SealedText, sealed: string, label: string, database: string): string {
  try {
    return seal.open(sealed, label);
  } catch (error) {
    throw new SvcError(
      "DATA_DIRECTORY",
      "The keys of this data directory are not those of the platform in the database.",
      {
        where: database,
        help:
          "Give it the same keys: copy secret.key, or set SVC_SECRET_KEY_FILE. Where they are lost, DELETE FROM platform_identity " +
          "in the database, and set all secrets again (docs/operate/secret-keys.md).",
        cause: error,
      },
    );
  }
}

async function read(postgres: Postgres, name: string): Promise<string | undefined> {
  const { rows } = await postgres.query<{ sealed: string }>("SELECT sealed FROM platform_identity WHERE name = $1", [
    name,
  ]);
  return rows[0]?.sealed;
}
