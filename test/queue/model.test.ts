import { queueModel } from "../conformance/queue-model.ts";
import { openTestQueue } from "./open-queue.ts";

queueModel("SQLite", (clock) => openTestQueue(clock));
