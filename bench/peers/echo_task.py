"""The task of queues that import it by its name."""


def echo(text):
    return {"text": text}
