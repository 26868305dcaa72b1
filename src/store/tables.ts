/** The store's tables as Kysely sees them (CamelCasePlugin: buildId is the column build_id). JSON columns hold text. */
import type { Generated } from "kysely";
import type { AuditEntry } from "../domain/audit.ts";
import type { BuildVerdict } from "../domain/build-verdict.ts";
import type { AlertRecord } from "./alerts.ts";
import type { HostRow, HostTokenRow } from "./hosts.ts";
import type { DeployRecord } from "./records.ts";
import type {
  App,
  ConsoleSession,
  Endpoint,
  Environment,
  NetworkVolume,
  RegistryAuth,
  StoredSecret,
  Template,
  Worker,
} from "./store.ts";

interface BuildTable {
  id: string;
  environmentId: string;
  manifest: string;
  env: string;
  createdAt: number;
  message: string;
  gitCommit: string;
  keyName: string;
  verdict: BuildVerdict["state"];
  verdictReason: string;
  verdictAt: number | null;
}

type TemplateTable = Omit<Template, "env" | "container"> & { env: string; container: string };

type EndpointTable = Omit<Endpoint, "env" | "container"> & { env: string; container: string };

interface ApiKeyTable {
  id: string;
  name: string;
  prefix: string;
  hash: string;
  scopes: string;
  createdAt: number;
  expiresAt: number | null;
  environmentId: string | null;
  endpointId: string | null;
  lastUsedAt: number | null;
}

interface DeployTable extends Omit<DeployRecord, "id" | "verdict" | "endpoints" | "changes" | "live"> {
  id: Generated<number>;
  verdict: BuildVerdict["state"];
  verdictReason: string;
  verdictAt: number | null;
  endpoints: string;
  changes: string;
}

type AlertTable = Omit<AlertRecord, "firing" | "messages"> & { firing: number; messages: string };

type HostTable = Omit<HostRow, "labels" | "sharedVolumes" | "draining"> & {
  labels: string;
  sharedVolumes: number;
  draining: number;
};

type HostTokenTable = Omit<HostTokenRow, "reusable"> & { reusable: number };

type AuditTable = AuditEntry & { id: Generated<number> };

export interface Tables {
  apps: App;
  environments: Environment;
  builds: BuildTable;
  endpoints: EndpointTable;
  workers: Worker;
  apiKeys: ApiKeyTable;
  consoleSessions: ConsoleSession;
  secrets: StoredSecret;
  templates: TemplateTable;
  deploys: DeployTable;
  audit: AuditTable;
  registryAuths: RegistryAuth;
  networkVolumes: NetworkVolume;
  alerts: AlertTable;
  hosts: HostTable;
  hostTokens: HostTokenTable;
}
