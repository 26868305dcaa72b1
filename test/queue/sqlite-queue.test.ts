import { queueConformance } from "../conformance/queue.ts";
import { openTestQueue } from "./open-queue.ts";

queueConformance("SQLite, durability normal", (clock) => openTestQueue(clock, "normal"));
queueConformance("SQLite, durability full", (clock) => openTestQueue(clock, "full"));
