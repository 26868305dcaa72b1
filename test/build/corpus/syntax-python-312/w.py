from svc import Endpoint

type Pair[A, B] = tuple[A, B]


class Box[T]:
    def get(self) -> T: ...


@Endpoint(name="w", python_version="3.12")
def w[T: (int, str), *Ts, **P](d: dict = {}) -> T:
    songs = ["a", "b"]
    print(f"{', '.join(songs)} {f"{f"{d["key"]}"}"} {d!r:>{10}} {"\n".join(songs)}")
    return f"""{
        d  # a comment
    }"""
