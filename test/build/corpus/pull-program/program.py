import runpod


def handler(job):
    return job["input"]


if __name__ == "__main__":
    runpod.serverless.start({"handler": handler})
