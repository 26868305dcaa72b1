import { readdir } from "node:fs/promises";

/** The C library of this machine, without which builds made here are of no use: "glibc 2.36", "musl"; "" when not known. */
export async function libc(): Promise<string> {
  if (process.platform !== "linux") return "";
  const report = process.report as typeof process.report & { excludeNetwork?: boolean };
  report.excludeNetwork = true; // Else it looks up names of addresses.
  const { header } = report.getReport() as { header?: { glibcVersionRuntime?: string } };
  if (header?.glibcVersionRuntime) return `glibc ${header.glibcVersionRuntime}`;
  const files = await readdir("/lib").catch(() => []);
  return files.some((name) => name.startsWith("ld-musl-")) ? "musl" : "";
}
