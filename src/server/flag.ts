import { z } from "zod";

/** A setting that is on or off. */
export const flag = z
  .enum(["0", "1", "true", "false"])
  .transform((text) => text === "1" || text === "true")
  .or(z.boolean());
