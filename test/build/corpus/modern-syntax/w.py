from svc import Endpoint

type Names = list[str]


@Endpoint(name="w", python_version="3.14")
def w[T: (int, str)](x: T, names: Names = []) -> T:
    match x:
        case {"a": [1, *rest]} if rest:
            return rest
        case int() | str() as y:
            print(f"{y!r:>{10}} {"nested " + f"{x}"}")
    if (n := len(names)) > 1:
        return n
    try:
        pass
    except* ValueError:
        pass
    return x
