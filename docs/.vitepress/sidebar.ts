/** Every page of the site by what a reader came for. Plain data: a test reads it without the site's packages. */

export interface Entry {
  readonly text: string;
  /** Path of the page without `.md`, with an anchor where a page has several answers. */
  readonly link: string;
}

export interface Section {
  readonly text: string;
  readonly collapsed?: boolean;
  readonly items: readonly Entry[];
}

const entries = (pages: Readonly<Record<string, string>>): Entry[] =>
  Object.entries(pages).map(([link, text]) => ({ text, link: `/${link}` }));

export const SIDEBAR: readonly Section[] = [
  {
    text: "Start",
    items: entries({
      "start/what-it-is": "What it is and is not",
      "start/install": "Install",
      "start/five-minutes": "Five minutes",
      "start/concepts": "How it works, in a picture",
    }),
  },
  {
    text: "Tutorials",
    items: entries({
      "tutorials/first-function": "Your first function",
      "tutorials/api": "An API with routes and uploads",
      "tutorials/language-model": "Stream a language model",
      "tutorials/pipeline": "A pipeline of endpoints",
      "tutorials/batch": "A batch of a thousand",
      "tutorials/webhooks": "Webhooks from a web app",
    }),
  },
  {
    text: "How-to: build",
    items: entries({
      "build/dependencies": "Packages",
      "build/secrets": "Secrets and variables",
      "build/files-and-models": "Files and models",
      "build/volumes": "Volumes",
      "build/debug": "Debug in VS Code",
      "build/test": "Test",
      "build/typescript": "Call from TypeScript",
      "build/notebooks": "Notebooks",
      "build/ci": "Deploy from CI",
    }),
  },
  {
    text: "How-to: operate",
    items: entries({
      "guide/production": "A platform for others",
      "guide/production#install-and-start": "As a service",
      "guide/production#tls-and-a-domain": "A proxy and TLS",
      "guide/production#keys": "Keys for people and programs",
      "guide/production#backup-and-restore": "Backup and restore",
      "guide/production#upgrade": "Upgrade and the way back",
      "reference/containers": "Workers in containers",
      "operate/more-machines": "More machines",
      "operate/kubernetes": "On a Kubernetes cluster",
      "operate/postgresql": "Records in PostgreSQL",
      "operate/object-storage": "Layers in a bucket",
      "operate/migrate": "Move a platform to PostgreSQL",
      "operate/secret-keys": "Keys of secrets",
      "operate/gpus": "GPUs",
      "operate/monitor": "Monitor and alert",
      "operate/capacity": "Capacity",
      "operate/gateways": "More cores for calls",
      "operate/several-platforms": "Several platforms",
      "operate/checklist": "Security checklist",
      "operate/moving": "Move from a similar service",
    }),
  },
  {
    text: "Explanation",
    items: entries({
      "explanation/cold-starts": "Cold starts",
      "explanation/ownership": "Who owns a job",
      "reference/scaling": "Scaling, capacity and GPUs",
      "reference/pools": "Pools of Pods",
      "reference/durability": "What survives what",
      "reference/isolation": "What a worker can reach",
      security: "Who is trusted with what",
    }),
  },
  {
    text: "More",
    items: entries({ troubleshooting: "Troubleshooting", compare: "Compare" }),
  },
  {
    text: "Reference: writing endpoints",
    collapsed: true,
    items: entries({
      "reference/python-api": "The Python API",
      "reference/load-balanced": "Routes, streams, uploads",
      "reference/classes": "Classes",
      "reference/batching": "Batching",
      "reference/retries": "Retries",
      "reference/schedules": "Schedules",
      "reference/volumes": "Volumes and the model cache",
      "reference/images": "System packages and images",
      "reference/servers": "Servers of your own",
      "reference/pull-workers": "Programs that pull jobs",
      "reference/local-server": "svc run, the explorer, the debugger",
      "reference/preview": "Previews in containers",
      "reference/porting": "Projects of the same family",
    }),
  },
  {
    text: "Reference: calling",
    collapsed: true,
    items: entries({
      "reference/calling": "From Python, TypeScript, notebooks",
      "reference/typescript-api": "The TypeScript API",
      "reference/job-api": "The job API",
      "reference/openai": "OpenAI clients",
      "clients/README": "Other clients",
      "clients/curl": "curl",
      "clients/openai": "openai",
      "clients/langchain": "LangChain",
      "clients/ai-sdk": "AI SDK",
      "clients/runpod-python": "runpod for Python",
      "clients/runpod-typescript": "runpod-sdk for TypeScript",
    }),
  },
  {
    text: "Reference: the platform",
    collapsed: true,
    items: entries({
      "reference/cli": "The command line",
      "reference/config": "Configuration",
      "reference/errors": "Errors",
      "reference/limits": "Limits",
      "reference/console": "The console",
      "reference/metrics": "Metrics, health, events, traces",
      "reference/alerts": "Alerts",
      "reference/history": "History and audit",
      "reference/graphql": "Management API (GraphQL)",
      "reference/rest": "Management API (REST)",
      "reference/compatible-apis": "Compatible APIs",
      "reference/manifest": "The manifest",
      "reference/protocol": "The worker protocol",
    }),
  },
  {
    text: "Decisions",
    collapsed: true,
    items: entries({
      "decisions/0001-embedded-database": "1. The embedded database",
      "decisions/0002-typescript-without-a-build-step": "2. TypeScript without a build step",
      "decisions/0003-libraries": "3. Libraries at the edges",
      "decisions/0004-workers-dial-in": "4. Workers dial in",
      "decisions/0005-calls-between-endpoints": "5. Calls between endpoints",
      "decisions/0006-the-newest-code": "6. svc run and the newest code",
      "decisions/0007-containers": "7. One container a revision",
      "decisions/0008-the-worker-link-over-tls": "8. The worker link over TLS",
      "decisions/0009-poll-before-sleeping": "9. Polling before sleeping",
      "decisions/0010-connections-above-the-limit": "10. Connections above the limit",
      "decisions/0011-outputs-are-not-parsed": "11. Outputs are not parsed",
      "decisions/0012-python-reads-python": "12. Python reads Python",
      "decisions/0013-the-worker-quota": "13. The worker quota",
      "decisions/0014-the-consoles-session": "14. The console's session",
      "decisions/0015-the-documentations-site": "15. The documentation's site",
      "decisions/0016-machines-that-join": "16. Machines that join",
      "decisions/0017-the-store-on-postgresql": "17. The store on PostgreSQL",
      "decisions/0018-the-queue-on-postgresql": "18. The queue on PostgreSQL",
      "decisions/0019-a-bucket-for-layers": "19. A bucket for layers",
      "decisions/0020-what-a-load-balanced-request-costs": "20. What a load-balanced request costs",
      "decisions/0021-ready-while-the-database-is-away": "21. A platform whose database is away is ready",
      "decisions/0022-thousands-of-endpoints": "22. What thousands of endpoints cost",
      "decisions/0023-what-a-large-body-costs": "23. What a large body costs",
      "decisions/0024-what-a-job-on-postgresql-costs": "24. What a job on PostgreSQL costs",
      "decisions/0025-logs-in-a-bucket": "25. Logs in a bucket",
      "decisions/0026-gateway-processes": "26. Gateway processes",
      "decisions/0027-hosts-in-kubernetes": "27. Hosts in Kubernetes",
      "decisions/0028-owners-of-shards": "28. Owners of shards",
      "decisions/0029-short-jobs-run-before-they-are-stored": "29. Short jobs run before they are stored",
      "decisions/0030-platforms-that-wait-take-calls": "30. Platforms that wait take calls",
      "decisions/0031-platforms-share-endpoints": "31. Platforms share endpoints",
    }),
  },
];
