/** What Python's parser found in a project's files: the answer of python/scan/, which says nothing about settings yet. */
import type { ManifestFunction } from "../domain/manifest.ts";

/** File, line, column, last line, column behind its end; lines and columns from 1. */
export type At = readonly [file: string, line: number, column: number, lastLine: number, endColumn: number];

/** What an expression is worth, as far as it can be known without running it. */
export type Value = { readonly at: At } & (
  | { readonly kind: "string"; readonly value: string }
  | { readonly kind: "number"; readonly value: number; readonly float: boolean }
  | { readonly kind: "boolean"; readonly value: boolean }
  | { readonly kind: "none" }
  | { readonly kind: "list"; readonly items: readonly Value[]; readonly tuple: boolean }
  | { readonly kind: "dict"; readonly entries: readonly (readonly [Value, Value])[] }
  /** GpuType.X or GpuGroup.X. */
  | { readonly kind: "gpu"; readonly family: "GpuType" | "GpuGroup"; readonly member: string }
  /** os.environ["NAME"] and its kin: read where the build runs. */
  | { readonly kind: "environment"; readonly name: string; readonly fallback?: Value }
  /** Secret("NAME"): its value is known to the platform alone. */
  | { readonly kind: "secret"; readonly name: string }
  /** Volume("x"), NetworkVolume("x") and their kin; the name is null for a positional argument, "**" for `**settings`. */
  | {
      readonly kind: "made";
      readonly class: string;
      readonly arguments: readonly (readonly [name: string | null, value: Value])[];
    }
  /** An exception in on= of Retries(), by its dotted name. */
  | { readonly kind: "class"; readonly name: string }
  | { readonly kind: "unknown"; readonly why: string }
);

/** One Endpoint(...) call; `key` is the same wherever the object is seen. */
export interface EndpointObject {
  readonly key: string;
  readonly at: At;
  /** Of `Endpoint` itself. */
  readonly called: At;
  /** `name` is null for a positional one, "**" for `**settings`; `at` is the name's place. */
  readonly arguments: readonly { readonly name: string | null; readonly at: At; readonly value: Value }[];
  /** Of `Model.with_options(…)`, whose arguments are options too: the object of the class, and the options that it declares. */
  readonly variant?: {
    readonly of: string;
    readonly class: string;
    readonly options: readonly {
      readonly name: string;
      readonly at: At;
      readonly default: Value | null;
      readonly choices: Value | null;
    }[];
  };
}

/** One decorator: `@Endpoint(...)`, `@api` (queue-based), `@api.get("/x")`, `@api.asgi`; or a call `api.asgi(app)`. */
export interface EndpointUse {
  readonly object: string;
  readonly file: string;
  /** Key of what is decorated. */
  readonly function: string;
  readonly at: At;
  /** It is `Endpoint(command=…)` itself: the function stands for the server. */
  readonly server?: true;
  /** The path is null for a whole application and for a server. */
  readonly route: { readonly method: string; readonly path: Value | null; readonly public?: Value } | null;
}

export interface ImportSite {
  /** Absolute dotted name. */
  readonly module: string;
  readonly at: At;
}

export interface Facts {
  readonly objects: readonly EndpointObject[];
  /** Keys of the objects that a top-level name stands for. */
  readonly named: readonly string[];
  readonly uses: readonly EndpointUse[];
  /** `imports`: those inside the function. */
  readonly functions: Readonly<
    Record<string, { readonly described: ManifestFunction; readonly imports: readonly ImportSite[] }>
  >;
  readonly findings: readonly { readonly rule: string; readonly at: At; readonly name: string }[];
  /** Of the files that declare endpoints and of all that importing them imports; `relative`: places of relative imports. */
  readonly modules: Readonly<
    Record<
      string,
      { readonly imports: readonly ImportSite[]; readonly below: readonly string[]; readonly relative: readonly At[] }
    >
  >;
  /** Of each file that declares endpoints: every Python file that its code may need; null where it may be any. */
  readonly reach: Readonly<Record<string, readonly string[] | null>>;
  /** What Python does not accept. */
  readonly problems: readonly (readonly [file: string, message: string, line: number, column: number])[];
}

/** The route of a whole ASGI application: what no other route answers. */
export const APPLICATION_METHOD = "ANY";

export const NO_FACTS: Facts = {
  objects: [],
  named: [],
  uses: [],
  functions: {},
  findings: [],
  modules: {},
  reach: {},
  problems: [],
};

/** What a value is called in a message: `the text "x"`, `a list`. */
export function describeValue(value: Value): string {
  switch (value.kind) {
    case "string":
      return `the text ${JSON.stringify(value.value)}`;
    case "number":
      return `the number ${value.value}`;
    case "boolean":
      return value.value ? "True" : "False";
    case "none":
      return "None";
    case "list":
      return value.tuple ? "a tuple" : "a list";
    case "dict":
      return "a dict";
    case "gpu":
      return `${value.family}.${value.member}`;
    case "environment":
      return `the environment variable ${value.name}`;
    case "secret":
      return `the secret ${value.name}`;
    case "made":
      return `${value.class}(…)`;
    case "class":
      return `the class ${value.name}`;
    case "unknown":
      return "a value that is only known when the code runs";
  }
}
