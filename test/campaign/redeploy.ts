/** New code again and again while calls of every kind go on: none may fail. */
import { Subject } from "./subject.ts";
import { startTraffic, TRAFFIC_PROJECT } from "./traffic.ts";

export async function redeploy(times: number) {
  const subject = await Subject.start();
  try {
    const urls = await subject.set(TRAFFIC_PROJECT(0));
    const traffic = startTraffic(subject, urls);
    try {
      for (let version = 1; version <= times; version++) await subject.set(TRAFFIC_PROJECT(version));
    } finally {
      await traffic.stop();
    }
    const { json } = await subject.ask(`${urls.web}/hello`);
    return { done: traffic.done, failed: traffic.failed, lastVersion: json?.version as number };
  } finally {
    await subject.close();
  }
}
