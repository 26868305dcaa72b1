/**
 * In place of uv on the platform's PATH: an installer that was taken over by what an index sent. What came of each attack is in the
 * package that it "installs", so the endpoint that asked for it can tell.
 */
import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";

/** The endpoint. */
export const ASKS = `
from svc import Endpoint

@Endpoint(name="asks", workers=(0, 1), dependencies=["numpy"])
def asks():
    import numpy
    return numpy.REPORT
`;

const ATTACKS = `
import json, os, socket, subprocess, sys

outside, home, mark = json.loads(VALUES)
target = sys.argv[sys.argv.index("--target") + 1]
data = os.path.dirname(os.path.dirname(os.path.dirname(target)))
report = {}

def attack(name, work, *arguments):
    try:
        report[name] = f"done: {work(*arguments)!r}"
    except BaseException as error:
        report[name] = f"refused: {error!r}"

def read(path):
    with open(path, "rb") as file:
        return file.read(300)

def write(path):
    with open(path, "a") as file:
        file.write("x")

def dial(path):
    socket.socket(socket.AF_UNIX).connect(path)

def find_platform():
    for name in filter(str.isdigit, os.listdir("/proc")):
        if b"platform\\0start" in read(f"/proc/{name}/cmdline"):
            os.kill(int(name), 0)
            return name
    raise OSError("not to be found")

def find_secret():
    return next(name for name in os.environ if "SECRET" in name or name.startswith("SVC_"))

for name in ("secret.key", "platform.db", "launcher.json"):
    attack(f"read {name}", read, f"{data}/{name}")
attack("list the layers", os.listdir, f"{data}/layers")
attack("read the home", read, f"{home}/of-the-user")
attack("dial", dial, f"{data}/run/platform.sock")
attack("signal", find_platform)
attack("environment", find_secret)
for path in (f"{data}/written", f"{home}/written", f"{outside}/written", "/etc/written"):
    attack(f"write {path}", write, path)
with open("/proc/self/status") as file:
    report["capabilities"] = ",".join(line.split()[1] for line in file if line.startswith("Cap"))
report["uid"] = os.getuid()

# Lives on, if it may.
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", mark], start_new_session=True,
    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
os.mkdir(f"{target}/numpy")
# What compiles the package writes there.
os.symlink(outside, f"{target}/numpy/__pycache__")
with open(f"{target}/numpy/__init__.py", "w") as file:
    file.write(f"REPORT = {report!r}")
`;

export interface HostileInstaller {
  /** For the front of PATH. */
  readonly bin: string;
  /** A folder that the platform's user may write to. */
  readonly outside: string;
  /** On the command line of what it leaves behind. */
  readonly mark: string;
}

/** `home` is that of the platform's user. */
export function makeHostileInstaller(dir: string, home: string): HostileInstaller {
  const [bin, outside] = [path.join(dir, "bin"), path.join(dir, "outside")];
  const mark = `left-by-the-installer-${process.pid}`;
  for (const folder of [bin, outside]) mkdirSync(folder);
  const python = execFileSync("python3", ["-c", "import sys; print(sys.executable)"], { encoding: "utf8" }).trim();
  const values = JSON.stringify(JSON.stringify([outside, home, mark]));
  writeFileSync(path.join(bin, "uv"), `#!${python} -I\n${ATTACKS.replace("VALUES", values)}`);
  chmodSync(path.join(bin, "uv"), 0o755);
  return { bin, outside, mark };
}
