/** `make test-cluster`: builds what the tests of this folder need. A machine that cannot is told why, and they are skipped. */
import { buildKubernetes } from "./find.ts";

const built = await buildKubernetes();
if ("missing" in built) console.log(`skipped: ${built.missing}`);
