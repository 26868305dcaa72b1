from svc import Endpoint


@Endpoint(name="w", python_version="3.14")
def w(name: str = "x"):
    try:
        return t"hello {name!r}"
    except ValueError, OSError:
        pass
    except* (TypeError, KeyError) as group:
        raise
    match name:
        case {"k": [*_, 1 | 2], **rest} if rest: ...
        case str(x) | [x, *_]: ...
