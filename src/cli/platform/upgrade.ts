/**
 * What `svc upgrade` does, in an order that leaves a way back at any point:
 *
 *   stop the platform ─▶ back its data up ─▶ take the steps ─▶ start it again
 */
import { SvcError } from "../../domain/errors.ts";
import { VERSION } from "../../domain/version.ts";
import { backUp } from "../../server/backup.ts";
import { dataVersion } from "../../server/data-version.ts";
import { databaseOf } from "../../server/state.ts";
import { lackingSteps, takeSteps } from "../../server/upgrade.ts";
import type { CliContext } from "../context.ts";
import { livingPlatform, type PlatformRecord } from "./record.ts";
import { startEmbedded } from "./start.ts";
import { stopPlatform } from "./stop.ts";

export class Upgrade {
  readonly #context: CliContext;
  readonly #dataDir: string;
  readonly #backup: string;
  readonly #running: PlatformRecord | undefined;
  /** The PostgreSQL with the records and jobs; undefined: they are among the data. */
  readonly #database: string | undefined;
  /** Of the data; undefined where they do not say. */
  readonly #before: string | undefined;
  /** Undefined while a platform holds the data, or where there are none. */
  readonly #steps: number | undefined;

  private constructor(
    context: CliContext,
    dataDir: string,
    backup: string | undefined,
    running: PlatformRecord | undefined,
    steps: number | undefined,
  ) {
    this.#context = context;
    this.#dataDir = dataDir;
    this.#running = running;
    this.#before = running?.version ?? dataVersion(dataDir);
    this.#steps = steps;
    this.#database = databaseOf(dataDir);
    const stamp = new Date().toISOString().replace(/[-:]|\..*/g, "");
    this.#backup = backup ?? `${dataDir}-backup-${this.#before ?? "earlier"}-${stamp}`;
  }

  static async find(context: CliContext, dataDir: string, backup: string | undefined): Promise<Upgrade> {
    const running = await livingPlatform(dataDir);
    if (running?.service) {
      throw new SvcError("CONFLICT", "The platform runs as a service: its service manager would start it meanwhile.", {
        help: "systemctl stop svc, then svc upgrade as the service's user, then systemctl start svc.",
      });
    }
    const steps = running === undefined ? lackingSteps(dataDir) : undefined;
    return new Upgrade(context, dataDir, backup, running, steps);
  }

  get isDone(): boolean {
    return this.#running === undefined ? (this.#steps ?? 0) === 0 && this.#isOwn() : this.#running.version === VERSION;
  }

  get reason(): string {
    if (this.#running !== undefined) return `the platform runs with ${VERSION} already`;
    return this.#steps === undefined ? `there are no data in ${this.#dataDir}` : `the data are of ${VERSION} already`;
  }

  plan(): string[] {
    const known =
      this.#steps === undefined ? "looked at when the platform has stopped" : `${this.#steps} of the tables`;
    const steps = this.#database === undefined ? known : "taken in the database when the platform starts";
    const platform = "is stopped when its running work is done, and started again";
    return [
      `Data      ${this.#dataDir}`,
      `Version   ${this.#before ?? "one that did not say"} → ${VERSION}`,
      `Steps     ${steps}`,
      ...(this.#running === undefined
        ? []
        : [`Platform  ${platform} (process ${this.#running.pid}, ${this.#running.url})`]),
      `Backup    ${this.#backup}`,
      ...(this.#database === undefined
        ? []
        : [`Database  ${this.#database}: it is not in the backup; go on when it has one of its own`]),
      "What changed from version to version stands in CHANGELOG.md.",
    ];
  }

  async run(): Promise<void> {
    const running = this.#running;
    if (running !== undefined) await stopPlatform(this.#context, running, { now: false });
    await backUp(this.#dataDir, this.#backup, { holder: undefined, volumes: false });
    try {
      await takeSteps(this.#dataDir);
    } catch (error) {
      throw new SvcError(
        "DATA_DIRECTORY",
        `The data could not be brought to ${VERSION}: ${(error as Error).message}.`,
        {
          where: this.#dataDir,
          help: `What was before is in ${this.#backup}: svc platform restore ${this.#backup}.`,
          cause: error,
        },
      );
    }
    if (running === undefined) return;
    const port = running.port ?? Number(new URL(running.url).port);
    await startEmbedded(this.#context, { dataDir: this.#dataDir, port });
  }

  wayBack(): string[] {
    const version = this.#before === undefined ? "the svc of before" : `svc ${this.#before}`;
    return [
      "The way back, without what happens from now on:",
      "  svc platform stop",
      `  svc platform restore ${this.#backup}`,
      ...(this.#database === undefined ? [] : [`  bring ${this.#database} back to before, from its own backup`]),
      `  and install ${version} again.`,
    ];
  }

  #isOwn(): boolean {
    return this.#steps === undefined || dataVersion(this.#dataDir) === VERSION;
  }
}
