import { storeConformance } from "../conformance/store.ts";
import { openTestStore } from "./open-store.ts";

storeConformance("SQLite", openTestStore);
