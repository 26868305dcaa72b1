import assert from "node:assert/strict";
import { test } from "node:test";
import {
  GPU_GROUPS,
  gpuCountProblem,
  gpuIds,
  gpuMatches,
  gpuRank,
  gpuTypeMembers,
  unknownGpuId,
} from "../../src/domain/gpu.ts";

test("gpuIds is the sorted comma list of groups; a single type leaves the other members of its group out", () => {
  assert.equal(gpuIds(["ADA_24"]), "ADA_24");
  assert.equal(gpuIds(["ANY"]), "ANY");
  assert.equal(gpuIds(["NVIDIA_L4", "ADA_24"]), "ADA_24,AMPERE_24,-NVIDIA GeForce RTX 3090,-NVIDIA RTX A5000");
});

test("An unknown selector is named", () => {
  assert.throws(() => gpuIds(["ADA_25"]), { name: "RangeError", message: "ADA_25" });
  assert.equal(unknownGpuId("ADA_24,-NVIDIA L4"), undefined);
  assert.equal(unknownGpuId("ADA_24,NOPE"), "NOPE");
});

test("Every type is allowed by its own selection and by ANY, and by no other type's selection", () => {
  for (const member of gpuTypeMembers()) {
    const ids = gpuIds([member]);
    const allowed = gpuTypeMembers().filter((other) => {
      const product = productOf(other);
      return gpuMatches(ids, product);
    });
    assert.deepEqual(allowed, [member]);
    assert.ok(gpuMatches("ANY", productOf(member)));
  }
});

test("A GPU outside the catalogue is offered as ANY", () => {
  assert.ok(gpuMatches("ANY", "NVIDIA GeForce GTX 970"));
  assert.ok(!gpuMatches("ADA_24", "NVIDIA GeForce GTX 970"));
});

function productOf(member: string): string {
  const types = Object.values(GPU_GROUPS).flat();
  return types.find((type) => type.member === member)!.product;
}

test("gpu_count is a whole number of GPUs, or a fraction of one", () => {
  for (const good of [1, 2, 16, 0.05, 0.5, 0.99]) assert.equal(gpuCountProblem(good), undefined, String(good));
  for (const bad of [0, -1, 17, 1.5, 0.04, Number.NaN])
    assert.match(gpuCountProblem(bad)!, /a whole number from 1 to 16/);
});

test("A list of GPUs is an order of preference; what it does not name comes last", () => {
  const order = ["NVIDIA_L4", "ADA_24", "ANY"];
  const ranks = ["NVIDIA L4", "NVIDIA GeForce RTX 4090", "NVIDIA H200"].map((product) => gpuRank(order, product));
  assert.deepEqual(ranks, [0, 1, 2]);
  assert.equal(gpuRank(["ADA_24"], "NVIDIA L4"), 1);
});
