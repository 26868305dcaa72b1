/**
 * The env columns: values of variables stand there sealed, as secrets do, each bound to its row and name; names stand in clear.
 * `{"MODE": {"sealed": "v1…"}, "TOKEN": {"secret": "token"}}`. Values from before there was a seal are read as they are.
 */
import type { Kysely } from "kysely";
import type { EnvValue, EnvValues } from "../domain/env.ts";
import type { SealedText } from "../lib/sealed-text.ts";
import type { Tables } from "./tables.ts";

type StoredValue = EnvValue | { readonly sealed: string };
type StoredValues = Readonly<Record<string, StoredValue>>;
type EnvTable = "builds" | "endpoints" | "templates";
type BuildEnv = Readonly<Record<string, EnvValues>>;

export class EnvColumn {
  readonly #seal: SealedText | undefined;

  /** Without a seal values are written in clear. */
  constructor(seal: SealedText | undefined) {
    this.#seal = seal;
  }

  write(table: EnvTable, id: string, env: EnvValues): string {
    return JSON.stringify(this.#sealed(labelOf(table, id), env));
  }

  read(table: EnvTable, id: string, text: string): EnvValues {
    return this.#opened(labelOf(table, id), JSON.parse(text) as StoredValues);
  }

  /** A build has the variables of each of its endpoints. */
  writeBuild(id: string, env: BuildEnv): string {
    return JSON.stringify(mapped(env, (values, name) => this.#sealed(`${labelOf("builds", id)} ${name}`, values)));
  }

  readBuild(id: string, text: string): BuildEnv {
    const stored = JSON.parse(text) as Readonly<Record<string, StoredValues>>;
    return mapped(stored, (values, name) => this.#opened(`${labelOf("builds", id)} ${name}`, values));
  }

  #sealed(label: string, env: EnvValues): StoredValues {
    const seal = this.#seal;
    if (seal === undefined) return env;
    return mapped(env, (value, name) =>
      typeof value === "string" ? { sealed: seal.seal(value, `${label} ${name}`) } : value,
    );
  }

  #opened(label: string, stored: StoredValues): EnvValues {
    return mapped(stored, (value, name) => {
      if (typeof value === "string" || !("sealed" in value)) return value;
      try {
        return this.#seal!.open(value.sealed, `${label} ${name}`);
      } catch {
        // The key is another one. Its endpoint says that it lacks a secret of this name; a deploy brings the value again.
        return { secret: name };
      }
    });
  }
}

/** Seals what an earlier version wrote in clear. True when there was something. */
export async function sealClearValues(db: Kysely<Tables>, column: EnvColumn): Promise<boolean> {
  let any = false;
  for (const table of ["endpoints", "templates"] as const) {
    for (const { id, env } of await db.selectFrom(table).select(["id", "env"]).where("env", "!=", "{}").execute()) {
      if (!hasClear(JSON.parse(env))) continue;
      any = true;
      const sealed = column.write(table, id, column.read(table, id, env));
      await db.updateTable(table).set({ env: sealed }).where("id", "=", id).execute();
    }
  }
  for (const { id, env } of await db.selectFrom("builds").select(["id", "env"]).where("env", "!=", "{}").execute()) {
    if (!Object.values(JSON.parse(env) as Record<string, StoredValues>).some(hasClear)) continue;
    any = true;
    const sealed = column.writeBuild(id, column.readBuild(id, env));
    await db.updateTable("builds").set({ env: sealed }).where("id", "=", id).execute();
  }
  return any;
}

/** `anew` gives a sealed value its new form; undefined: it stays. */
export async function sealEnvAnew(
  db: Kysely<Tables>,
  anew: (sealed: string, label: string) => string | undefined,
): Promise<void> {
  let changed = false;
  const renewed = (label: string, values: StoredValues): StoredValues =>
    mapped(values, (value, name) => {
      const sealed =
        typeof value === "string" || !("sealed" in value) ? undefined : anew(value.sealed, `${label} ${name}`);
      if (sealed === undefined) return value;
      changed = true;
      return { sealed };
    });
  for (const table of ["endpoints", "templates", "builds"] as const) {
    const rows = await db.selectFrom(table).select(["id", "env"]).where("env", "like", '%"sealed"%').execute();
    for (const { id, env } of rows) {
      changed = false;
      const label = labelOf(table, id);
      const stored =
        table === "builds"
          ? mapped(JSON.parse(env) as Readonly<Record<string, StoredValues>>, (values, name) =>
              renewed(`${label} ${name}`, values),
            )
          : renewed(label, JSON.parse(env) as StoredValues);
      if (changed)
        await db
          .updateTable(table)
          .set({ env: JSON.stringify(stored) })
          .where("id", "=", id)
          .execute();
    }
  }
}

/** What the values of a row are bound to, before their names. */
function labelOf(table: EnvTable, id: string): string {
  return `env ${table} ${id}`;
}

function hasClear(values: StoredValues): boolean {
  return Object.values(values).some((value) => typeof value === "string");
}

function mapped<A, B>(from: Readonly<Record<string, A>>, change: (value: A, name: string) => B): Record<string, B> {
  return Object.fromEntries(Object.entries(from).map(([name, value]) => [name, change(value, name)]));
}
