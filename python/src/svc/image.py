"""A container image that is built for an endpoint, declared as data."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Image:
    """Stands in `image=`: a base image and what the platform builds on it, once for each content.

        IMAGE = svc.Image.debian().apt("ffmpeg", "libsndfile1").run("fc-cache -f").env(MODE="fast")

        @Endpoint(name="cut", image=IMAGE)
        def cut(url: str): ...

    Every method returns a new Image; steps run in their order, as root, in a container of the platform's engine. `svc build`
    reads them without running the code, so they are texts that stand in the project. Values of `env` are kept in the image:
    a secret belongs into the endpoint's `env=`. Needs a platform that runs workers in containers.
    """

    __slots__ = ("name", "steps")

    name: str
    """Of the base image; "" is the platform's own."""
    steps: tuple[tuple[str, Any], ...]

    def __init__(self, name: str = "", steps: tuple[tuple[str, Any], ...] = ()) -> None:
        self.name = name
        self.steps = steps

    @staticmethod
    def from_registry(name: str) -> Image:
        """Begins with an image such as `"python:3.12-slim"`. It needs python3 once all steps have run, and apt for `.apt()`."""
        if not isinstance(name, str) or not name:
            raise TypeError(f"Image.from_registry() takes the name of an image, not {name!r}")
        return Image(name)

    @staticmethod
    def debian() -> Image:
        """Begins with the platform's own image for the endpoint's machine, a Debian with Python."""
        return Image()

    def apt(self, *packages: str) -> Image:
        """Installs system packages: names, perhaps with a version (`"git=1:2.39.5-0+deb12u2"`)."""
        return self._and("apt", _texts("apt", packages))

    def run(self, *commands: str) -> Image:
        """Runs lines of /bin/sh, as root and with network. A line that fails ends the build."""
        return self._and("run", _texts("run", commands))

    def env(self, **variables: str) -> Image:
        """Sets variables, for later steps and for workers; `env=` of the endpoint comes before them."""
        _texts("env", tuple(variables.values()))
        return self._and("env", variables)

    def _and(self, step: str, given: Any) -> Image:
        return Image(self.name, (*self.steps, (step, given)))

    def __repr__(self) -> str:
        return f"<Image of {self.name or 'debian'} with {len(self.steps)} steps>"


def _texts(method: str, given: tuple[str, ...]) -> tuple[str, ...]:
    for each in given:
        if not isinstance(each, str):
            raise TypeError(f".{method}() takes texts, not {each!r}")
    return given
