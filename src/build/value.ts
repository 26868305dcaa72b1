import type { Node } from "web-tree-sitter";
import type { PythonModule } from "./python-module.ts";

/** What an expression is worth, as far as it can be known without running it. */
export type Value = { readonly node: Node; readonly module: PythonModule } & (
  | { readonly kind: "string"; readonly value: string }
  | { readonly kind: "number"; readonly value: number; readonly float: boolean }
  | { readonly kind: "boolean"; readonly value: boolean }
  | { readonly kind: "none" }
  | { readonly kind: "list"; readonly items: readonly Value[]; readonly tuple: boolean }
  | { readonly kind: "dict"; readonly entries: readonly (readonly [Value, Value])[] }
  /** GpuType.X or GpuGroup.X. */
  | { readonly kind: "gpu"; readonly family: "GpuType" | "GpuGroup"; readonly member: string }
  /** os.environ["NAME"] and its kin: read where the build runs. */
  | { readonly kind: "environment"; readonly name: string; readonly fallback: Value | undefined }
  /** Secret("NAME"): its value is known to the platform alone. */
  | { readonly kind: "secret"; readonly name: string }
  | { readonly kind: "unknown"; readonly why: string }
);

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
    case "unknown":
      return "a value that is only known when the code runs";
  }
}
