/** Numbers of users in a container without root. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { checkUsersAreThere } from "../../src/drivers/user-map.ts";

const MACHINE = "         0          0 4294967295\n";
const CONTAINER = "         0     100000      65536\n";
const ROOTLESS = "         0       1000          1\n         1     100000      65536\n";
const ROOT_ALONE = "         0       1000          1\n";

test("Numbers that a container does not have are told with those that it has, and with what to set", () => {
  checkUsersAreThere([70_000, 99_999], [MACHINE, MACHINE]);
  checkUsersAreThere([50_000, 59_999], [CONTAINER, CONTAINER]);
  checkUsersAreThere([0, 65_536], [ROOTLESS, ROOTLESS]);
  checkUsersAreThere([70_000, 99_999], []);
  for (const [maps, message, help] of [
    [[CONTAINER, CONTAINER], /70000-99999 .*: this container has 0-65535\./, /^Set SVC_WORKER_UIDS=50000-59999,/],
    [[ROOTLESS, ROOTLESS], /this container has 0-65536\./, /^Set SVC_WORKER_UIDS=50000-59999,/],
    [[MACHINE, CONTAINER], /this container has 0-65535\./, /^Set SVC_WORKER_UIDS=50000-59999,/],
    [[ROOT_ALONE, ROOT_ALONE], /this container has 0 alone\./, /more numbers of users, .*SVC_ISOLATION=none/],
  ] as const) {
    assert.throws(() => checkUsersAreThere([70_000, 99_999], maps), { code: "CONFIG_INVALID", message, help });
  }
});
