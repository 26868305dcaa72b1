/** What a platform that is started here is told: the environment, and flags above it. */
import { type Config, readConfig } from "../../server/config.ts";
import type { CliContext } from "../context.ts";
import type { StartOptions } from "./start.ts";

/** Throws CONFIG_INVALID with every wrong key at once. */
export function platformConfig(context: CliContext, options: StartOptions): Config {
  const given = {
    SVC_DATA_DIR: options.dataDir,
    SVC_PORT: options.port?.toString(),
    SVC_HOST: options.host,
    SVC_GATEWAYS: options.gateways?.toString(),
    SVC_DURABILITY: options.durability,
    SVC_DRIVER: options.driver,
    SVC_EMULATE_GPU: options.emulateGpu ? "1" : undefined,
  };
  const flags = Object.entries(given).filter(([, value]) => value !== undefined);
  return readConfig({ ...context.env, ...Object.fromEntries(flags) });
}
