/** Preloaded into a platform (NODE_OPTIONS=--import): its reconcilers work when they are nudged, and never by the clock. */
import { Reconciler } from "../../src/lib/reconciler.ts";

Reconciler.prototype.start = () => {};
