/** The keywords of one Endpoint(...) as settings, with a finding for every rule they break. */
import {
  BOOT_TYPES,
  defaultSettings,
  type EndpointKind,
  type EndpointSettings,
  SCALER_TYPES,
} from "../domain/endpoint.ts";
import type { EnvValues } from "../domain/env.ts";
import { gpuCountProblem, gpuIds } from "../domain/gpu.ts";
import type { ImageStep } from "../domain/image-steps.ts";
import {
  EXECUTION_TIMEOUT_MAX_MS,
  EXECUTION_TIMEOUT_MIN_MS,
  IDLE_TIMEOUT_MAX_S,
  IDLE_TIMEOUT_MIN_S,
  MAX_CONCURRENCY_LIMIT,
  PYTHON_MINOR_MAX,
  PYTHON_MINOR_MIN,
  REQUEST_TIMEOUT_MAX_MS,
  REQUEST_TIMEOUT_MIN_MS,
  SCALER_VALUE_MAX,
  WORKERS_MAX_LIMIT,
} from "../domain/limits.ts";
import { isValidName, nearest, suggestName } from "../domain/names.ts";
import type { ServerSettings } from "../domain/server.ts";
import { cpuSize } from "./cpu-size.ts";
import { type At, describeValue, type EndpointObject, type Value } from "./facts.ts";
import { gpuSelectors } from "./gpu-selectors.ts";
import { PORTED, translatePorted } from "./ported-settings.ts";
import { readCors } from "./read-cors.ts";
import { readEnv } from "./read-env.ts";
import { readHosts } from "./read-hosts.ts";
import { readImage, readSystemDependencies } from "./read-image.ts";
import { publicOf } from "./read-public.ts";
import { readRetries } from "./read-retries.ts";
import { type DeclaredSchedule, readSchedule, SCHEDULE_KEYWORDS } from "./read-schedule.ts";
import { type Complaints, readServer } from "./read-server.ts";
import { readVolumes } from "./read-volumes.ts";
import { requirementProblem } from "./requirement.ts";
import { looksLikeSecret } from "./secrets.ts";
import type { Place, Report, Sources } from "./sources.ts";

export const KEYWORDS = [
  "name",
  "gpu",
  "cpu",
  "workers",
  "idle_timeout",
  "dependencies",
  "max_concurrency",
  "execution_timeout_ms",
  "scaler_type",
  "scaler_value",
  "env",
  "image",
  "volume",
  "volumes",
  "python_version",
  "gpu_count",
  "boot",
  "cors",
  "request_timeout_ms",
  "retries",
  "command",
  "port",
  "ready_path",
  "ready_timeout",
  "protocol",
  "public",
  ...SCHEDULE_KEYWORDS,
  "system_dependencies",
  "hosts",
] as const;
export type Keyword = (typeof KEYWORDS)[number];

export interface ReadSettings {
  /** undefined when it is missing, unknown or no valid name. */
  readonly name: string | undefined;
  readonly settings: EndpointSettings;
  /** Selectors of `gpu=` as written: best first. */
  readonly gpuPreference: readonly string[];
  /** Of `command=`. */
  readonly server: ServerSettings | undefined;
  readonly systemDependencies: readonly string[];
  /** What `image=` builds on the image that it names. */
  readonly imageSteps: readonly ImageStep[];
  readonly dependencies: readonly string[];
  readonly env: EnvValues;
  readonly pythonVersion: string | undefined;
  readonly place: Place;
  readonly dependenciesPlace: Place | undefined;
  readonly concurrencyAt: At | undefined;
  readonly retriesAt: At | undefined;
  readonly schedule: DeclaredSchedule | undefined;
}

type Given = ReadonlyMap<string, Value>;
type Environment = Readonly<Record<string, string | undefined>>;

export class SettingsReader {
  readonly #sources: Sources;
  readonly #environment: Environment;
  readonly #report: Report;
  /** Values of `env=` that look like secrets, so that no message repeats them. */
  readonly secrets = new Set<string>();

  readonly #complaints: Complaints = {
    unknown: (value, keyword, wanted) => this.#unknown(value, keyword, wanted),
    error: (value, message, help) => this.#error("invalid-setting", value, message, help),
  };

  /** `environment` is where os.environ["X"] of an `env=` is looked up. */
  constructor(sources: Sources, environment: Environment, report: Report) {
    this.#sources = sources;
    this.#environment = environment;
    this.#report = report;
  }

  /** `unnamed` is what the endpoint is called where the declaration gives it no name. */
  read(object: EndpointObject, kind: EndpointKind, unnamed?: string): ReadSettings {
    const given: Given = translatePorted(this.#keywords(object), this.#report);
    const gpuPreference = given.has("gpu") ? gpuSelectors(given.get("gpu")!, this.#report) : [];
    const gpu = gpuPreference === undefined || !given.has("gpu") ? undefined : gpuIds(gpuPreference);
    const cpu = given.has("cpu") ? cpuSize(given.get("cpu")!, this.#report) : undefined;
    if (given.has("gpu") && given.has("cpu")) {
      this.#error(
        "gpu-and-cpu",
        given.get("cpu")!,
        "An endpoint runs on a GPU or on CPU only, not both.",
        "Remove gpu= or cpu=.",
      );
    }
    const defaults = defaultSettings(kind, gpu ?? "");
    const [workersMin, workersMax] = this.#workers(given) ?? [defaults.workersMin, defaults.workersMax];
    const scalerType = this.#choice(given, "scaler_type", SCALER_TYPES) ?? defaults.scalerType;
    const image = readImage(given.get("image"), this.#complaints);
    const settings: EndpointSettings = {
      ...defaults,
      instanceIds: cpu !== undefined && gpu === undefined ? cpu : defaults.instanceIds,
      workersMin,
      workersMax,
      idleTimeout:
        this.#whole(given, "idle_timeout", IDLE_TIMEOUT_MIN_S, IDLE_TIMEOUT_MAX_S, "seconds") ?? defaults.idleTimeout,
      gpuCount: this.#gpuCount(given) ?? defaults.gpuCount,
      maxConcurrency: this.#whole(given, "max_concurrency", 1, MAX_CONCURRENCY_LIMIT) ?? defaults.maxConcurrency,
      executionTimeoutMs:
        this.#whole(
          given,
          "execution_timeout_ms",
          EXECUTION_TIMEOUT_MIN_MS,
          EXECUTION_TIMEOUT_MAX_MS,
          "milliseconds",
        ) ?? defaults.executionTimeoutMs,
      scalerType,
      scalerValue: this.#whole(given, "scaler_value", 1, SCALER_VALUE_MAX) ?? defaults.scalerValue,
      svcBootType: this.#choice(given, "boot", BOOT_TYPES) ?? defaults.svcBootType,
      imageName: image.name ?? defaults.imageName,
      networkVolumeId: readVolumes(given.get("volume"), given.get("volumes"), this.#report),
      cors: readCors(given.get("cors"), this.#report),
      requestTimeoutMs:
        this.#whole(given, "request_timeout_ms", REQUEST_TIMEOUT_MIN_MS, REQUEST_TIMEOUT_MAX_MS, "milliseconds") ??
        defaults.requestTimeoutMs,
      ...readRetries(given.get("retries"), this.#report),
      publicRoutes: publicOf(given.get("public"), kind, this.#report),
      hosts: readHosts(given.get("hosts"), this.#report),
    };
    const env = readEnv(given.get("env"), this.#environment, this.#sources, this.#report, (secret) =>
      this.secrets.add(secret),
    );
    for (const [variable, value] of Object.entries(env)) {
      if (typeof value === "string" && looksLikeSecret(variable, value)) this.secrets.add(value);
    }
    const named = given.get("name");
    const dependencies = given.get("dependencies");
    const concurrency = given.get("max_concurrency");
    return {
      name: named === undefined && unnamed !== undefined ? unnamed : this.#name(object, named),
      settings,
      gpuPreference: gpuPreference ?? [],
      server: readServer(given, workersMax, this.#complaints),
      systemDependencies: readSystemDependencies(given.get("system_dependencies"), this.#complaints),
      imageSteps: image.steps,
      dependencies: this.#dependencies(dependencies),
      env,
      pythonVersion: this.#pythonVersion(given.get("python_version")),
      place: this.#sources.place((named ?? object).at),
      dependenciesPlace: dependencies && this.#sources.place(dependencies.at),
      concurrencyAt: concurrency?.at,
      retriesAt: given.get("retries")?.at,
      schedule: readSchedule(given, this.#report),
    };
  }

  /** Keyword to value; what is given as None counts as not given. */
  #keywords(object: EndpointObject): Map<string, Value> {
    const given = new Map<string, Value>();
    const known: readonly string[] = [...KEYWORDS, ...PORTED];
    const add = (name: string, value: Value, at: At) => {
      if (known.includes(name)) {
        if (value.kind !== "none") given.set(name, value);
        return;
      }
      const near = nearest(name, KEYWORDS, 1)[0];
      const help = near === undefined ? `It takes ${KEYWORDS.join(", ")}.` : `Did you mean ${near}=?`;
      this.#report({
        severity: "error",
        rule: "unknown-keyword",
        message: `Endpoint() takes no keyword ${name}=.`,
        help,
        at,
      });
    };
    for (const [index, { name, at, value }] of object.arguments.entries()) {
      if (name === "**") this.#spread(value, at, add);
      else if (name !== null) add(name, value, at);
      else if (index === 0 && !object.arguments.some((each) => each.name === "name")) add("name", value, at);
      else {
        const message = "Endpoint() takes its name without a keyword, and nothing else.";
        this.#error(
          "positional-argument",
          value,
          message,
          'Write it by keyword, as in Endpoint("hello", cpu="cpu3c-1-2").',
        );
      }
    }
    return given;
  }

  #spread(value: Value, at: At, add: (name: string, value: Value, at: At) => void): void {
    if (value.kind !== "dict") {
      this.#unknown({ ...value, at }, "**settings", "a dict of constants");
      return;
    }
    for (const [key, item] of value.entries) {
      if (key.kind === "string") add(key.value, item, at);
      else this.#unknown(key, "**settings", "a dict with constant keys");
    }
  }

  #name(object: EndpointObject, value: Value | undefined): string | undefined {
    if (value === undefined) {
      this.#report({
        severity: "error",
        rule: "missing-name",
        message: "The endpoint has no name.",
        help: 'Give it one: Endpoint(name="my-endpoint"). The name is its identity on the platform.',
        at: object.called,
      });
      return undefined;
    }
    if (value.kind !== "string") return this.#unknown(value, "name", "a text");
    if (isValidName(value.value)) return value.value;
    this.#error(
      "invalid-name",
      value,
      `${JSON.stringify(value.value)} cannot name an endpoint: a name has 1 to 63 of a-z, 0-9, - and _, and starts with a letter or a digit.`,
      `Use name="${suggestName(value.value)}".`,
    );
    return undefined;
  }

  #gpuCount(given: Given): number | undefined {
    const value = given.get("gpu_count");
    if (value === undefined) return undefined;
    if (value.kind !== "number") return this.#unknown(value, "gpu_count", "a number such as 1 or 0.5");
    const wanted = gpuCountProblem(value.value);
    if (wanted === undefined) return value.value;
    const help = "Write gpu_count=2 for two GPUs, or gpu_count=0.5 for half of one.";
    return this.#error("invalid-setting", value, `gpu_count is ${wanted}, not ${value.value}.`, help);
  }

  #workers(given: Given): readonly [number, number] | undefined {
    const value = given.get("workers");
    if (value === undefined) return undefined;
    const wanted = "a pair (min, max) of whole numbers, or one number for (0, max)";
    const pair = value.kind === "list" ? value.items : value.kind === "number" ? [undefined, value] : undefined;
    const unknown = value.kind === "list" ? value.items.find((item) => item.kind === "unknown") : undefined;
    if (unknown !== undefined) return this.#unknown(unknown, "workers", wanted);
    if (pair?.length !== 2) return this.#unknown(value, "workers", wanted);
    const numbers = pair.map((item) => (item === undefined ? 0 : item.kind === "number" ? item.value : Number.NaN));
    const [min, max] = numbers as [number, number];
    if (!numbers.every((n) => Number.isInteger(n) && n >= 0 && n <= WORKERS_MAX_LIMIT)) {
      return this.#error(
        "invalid-setting",
        value,
        `workers= takes ${wanted}, each from 0 to ${WORKERS_MAX_LIMIT}.`,
        "Write workers=(0, 3).",
      );
    }
    if (min > max) {
      return this.#error(
        "workers-order",
        value,
        `workers=(${min}, ${max}) has a minimum above its maximum.`,
        `Write workers=(${max}, ${min}).`,
      );
    }
    return [min, max];
  }

  #dependencies(value: Value | undefined): string[] {
    if (value === undefined) return [];
    const wanted = 'a list of texts such as ["requests>=2.31"]';
    if (value.kind !== "list") {
      this.#unknown(value, "dependencies", wanted);
      return [];
    }
    return value.items.flatMap((item) => {
      if (item.kind !== "string") return this.#unknown(item, "dependencies", wanted) ?? [];
      const problem = requirementProblem(item.value);
      if (problem === undefined) return item.value.trim();
      return this.#error("invalid-dependency", item, problem.message, problem.help) ?? [];
    });
  }

  #pythonVersion(value: Value | undefined): string | undefined {
    if (value === undefined) return undefined;
    const range = `3.${PYTHON_MINOR_MIN} to 3.${PYTHON_MINOR_MAX}`;
    if (value.kind === "number") {
      return this.#error(
        "invalid-setting",
        value,
        "python_version is a text, because 3.10 as a number is 3.1.",
        'Write python_version="3.12".',
      );
    }
    if (value.kind !== "string") return this.#unknown(value, "python_version", 'a text such as "3.12"');
    const minor = Number(/^3\.(\d+)$/.exec(value.value)?.[1] ?? Number.NaN);
    if (minor >= PYTHON_MINOR_MIN && minor <= PYTHON_MINOR_MAX) return value.value;
    return this.#error(
      "invalid-setting",
      value,
      `python_version is one of ${range}, not ${JSON.stringify(value.value)}.`,
      'Write python_version="3.12".',
    );
  }

  #text(given: Given, keyword: Keyword): string | undefined {
    const value = given.get(keyword);
    if (value === undefined || value.kind === "string") return value?.value;
    return this.#unknown(value, keyword, "a text");
  }

  #choice<T extends string>(given: Given, keyword: Keyword, choices: readonly T[]): T | undefined {
    const text = this.#text(given, keyword);
    if (text === undefined) return undefined;
    const found = choices.find((choice) => choice === text);
    if (found !== undefined) return found;
    const near = nearest(text, choices, 1)[0];
    const help = near === undefined ? `Use ${choices.join(" or ")}.` : `Did you mean "${near}"?`;
    return this.#error(
      "invalid-setting",
      given.get(keyword)!,
      `${keyword} is one of ${choices.join(", ")}, not ${JSON.stringify(text)}.`,
      help,
    );
  }

  #whole(given: Given, keyword: Keyword, min: number, max: number, unit = ""): number | undefined {
    const value = given.get(keyword);
    if (value === undefined) return undefined;
    if (value.kind !== "number") return this.#unknown(value, keyword, "a whole number");
    if (Number.isInteger(value.value) && !value.float && value.value >= min && value.value <= max) return value.value;
    const range = `from ${min} to ${max}${unit === "" ? "" : ` ${unit}`}`;
    return this.#error(
      "invalid-setting",
      value,
      `${keyword} is a whole number ${range}, not ${value.value}.`,
      `Choose a number ${range}.`,
    );
  }

  /** The value is of another type, or cannot be known before the code runs. */
  #unknown(value: Value, keyword: string, wanted: string): undefined {
    if (value.kind === "unknown" || value.kind === "environment") {
      const why = value.kind === "unknown" ? value.why : `${value.name} is an environment variable`;
      return this.#error(
        "not-constant",
        value,
        `${keyword} cannot be known without running the code: ${why}.`,
        `Write ${wanted} here or as a constant at the top level of a project module.`,
      );
    }
    return this.#error(
      "invalid-setting",
      value,
      `${keyword} takes ${wanted}, not ${describeValue(value)}.`,
      `Write ${keyword} as ${wanted}.`,
    );
  }

  #error(rule: string, value: Value, message: string, help: string): undefined {
    this.#report({ severity: "error", rule, message, help, at: value.at });
  }
}
