/** The Prometheus server that tests scrape platforms with, from Debian. */
import { onPath } from "../src/lib/on-path.ts";
import { aptInstall } from "./apt-install.ts";

const find = () => onPath("prometheus", process.env.PATH ?? "");

/** Its path, or why there is none. */
export async function findPrometheus(): Promise<{ readonly program: string } | { readonly missing: string }> {
  const there = find();
  if (there !== undefined) return { program: there };
  const problem = await aptInstall("prometheus");
  const program = find();
  return program === undefined ? { missing: problem ?? "prometheus is not installed" } : { program };
}
