"""The first program of a container whose image is an endpoint's own, in a Pod: says what the image has, then becomes the launcher.

The agent beside it (src/drivers/pod) listens in the folder that both containers have; what it gives is in no file.
Any Python has to be able to read this: an old one is to be told so in words.
"""

import json
import os
import socket
import subprocess
import sys
import time

_ROOT = os.path.abspath(__file__).rpartition("/svc/")[0]
_BOOT = os.path.join(os.path.dirname(_ROOT), "run", "boot.sock")
_PAUSE_S = 0.1
# Of Kubernetes, not of the image.
_STRANGE = ("KUBERNETES_",)


def main():
    while True:
        settings = _ask()
        if settings is not None:
            break
        time.sleep(_PAUSE_S)
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as file:
        file.write(json.dumps(settings) + "\n")
    os.dup2(reading, 0)
    os.close(reading)
    sys.path.insert(0, _ROOT)
    from svc._runtime.launcher import main as launch

    launch()


def _ask():
    """The launcher's settings; None: nobody is there to give them, or wants one now. Exits where the image cannot be used."""
    link = socket.socket(socket.AF_UNIX)
    try:
        link.connect(_BOOT)
        lines = link.makefile("rw", encoding="utf-8")
        asked = lines.readline()
        if not asked:
            return None
        lines.write(json.dumps(_said(json.loads(asked)["probe"])) + "\n")
        lines.flush()
        answer = lines.readline()
    except OSError:
        return None
    finally:
        link.close()
    if not answer:
        return None
    settings = json.loads(answer)
    if "problem" in settings:
        sys.exit(settings["problem"])
    return settings


def _said(probe):
    done = subprocess.Popen([sys.executable, "-c", probe], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    stdout, stderr = [output.decode("utf-8", "replace") for output in done.communicate()]
    env = dict((name, value) for name, value in os.environ.items() if not name.startswith(_STRANGE))
    return {"code": done.returncode, "stdout": stdout, "stderr": stderr, "env": env}


if __name__ == "__main__":
    main()
