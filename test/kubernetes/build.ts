/** `make test-cluster`: builds what the tests of this folder need. A machine that cannot is told why, and they are skipped. */
import { buildHelm, buildKubernetes, buildKwok } from "./find.ts";

for (const build of [buildHelm, buildKubernetes, buildKwok]) {
  const built = await build();
  if ("missing" in built) console.log(`skipped: ${built.missing}`);
}
